//! SQLite.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{databases, file, run, statement, text, value};
use crate::script::outside::sql::{Databases as _, SqlProblem, SqlValue, TransactionEnd};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kopfd-sqlite-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A query that takes forever.
const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";

#[tokio::test]
async fn a_file_keeps_what_statements_write() {
    let folder = Folder::new("kept");
    let (databases, database) = (databases(), file(&folder.0.join("cache.db"), true));
    run(&databases, &database, "CREATE TABLE goods (name TEXT PRIMARY KEY, price REAL, picture BLOB)", &[])
        .await
        .unwrap();
    let params = [text("it's"), SqlValue::Float(1.5), SqlValue::Bytes(vec![0, 255])];
    let made = run(&databases, &database, "INSERT INTO goods VALUES (?, ?, ?), ('b', 2, NULL)", &params).await.unwrap();
    assert_eq!(made.affected, 2);
    let found = run(&super::databases(), &database, "SELECT * FROM goods ORDER BY name DESC", &[]).await.unwrap();
    assert_eq!(found.columns, ["name", "price", "picture"]);
    assert_eq!(found.rows, [params.to_vec(), vec![text("b"), SqlValue::Float(2.0), SqlValue::Null]]);
    let error = run(&databases, &database, "INSERT INTO goods VALUES ('b', 1, NULL)", &[]).await.unwrap_err();
    assert_eq!((error.problem, error.code), (SqlProblem::Statement, Some(1555)), "{error}");
    let error = run(&databases, &database, "SELECT 's3cret-text' FROM", &[]).await.unwrap_err();
    assert!(error.problem == SqlProblem::Statement && !error.message.contains("s3cret-text"), "{error}");
}

#[tokio::test]
async fn transactions_have_all_effects_or_none() {
    let folder = Folder::new("transactions");
    let (databases, database) = (databases(), file(&folder.0.join("cache.db"), true));
    run(&databases, &database, "CREATE TABLE goods (name TEXT)", &[]).await.unwrap();
    for (end, expected) in [(Some(TransactionEnd::Rollback), 0), (None, 0), (Some(TransactionEnd::Commit), 1)] {
        let mut transaction = databases.begin(Arc::clone(&database), super::LIMIT).await.unwrap();
        transaction.run(statement("INSERT INTO goods VALUES ('a')", &[])).await.unwrap();
        match end {
            Some(end) => transaction.end(end, super::LIMIT).await.unwrap(),
            None => drop(transaction),
        }
        assert_eq!(
            value(&databases, &database, "SELECT count(*) FROM goods").await,
            SqlValue::Int(expected),
            "{end:?}"
        );
    }
}

#[tokio::test]
async fn only_the_named_file_is_opened() {
    let folder = Folder::new("confined");
    let databases = databases();
    let database = file(&folder.0.join("cache.db"), true);
    run(&databases, &database, "CREATE TABLE goods (name TEXT)", &[]).await.unwrap();
    let other = folder.0.join("other.db").display().to_string();
    for attempt in [
        format!("ATTACH '{other}' AS other"),
        format!("VACUUM INTO '{other}'"),
        "SELECT load_extension('x')".to_owned(),
    ] {
        let error = run(&databases, &database, &attempt, &[]).await.unwrap_err();
        assert_eq!(error.problem, SqlProblem::Statement, "{attempt}: {error}");
    }
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    let readable = file(&folder.0.join("cache.db"), false);
    assert_eq!(value(&databases, &readable, "SELECT count(*) FROM goods").await, SqlValue::Int(0));
    let error = run(&databases, &readable, "DELETE FROM goods", &[]).await.unwrap_err();
    assert_eq!((error.problem, error.code), (SqlProblem::Statement, Some(8)), "{error}");
    let error = run(&databases, &file(&folder.0.join("gone.db"), false), "SELECT 1", &[]).await.unwrap_err();
    assert_eq!(error.problem, SqlProblem::Connect, "{error}");
}

#[tokio::test]
async fn late_and_dropped_statements_are_interrupted() {
    let folder = Folder::new("late");
    let (databases, database) = (databases(), file(&folder.0.join("cache.db"), true));
    let mut late = statement(ENDLESS, &[]);
    late.timeout = Duration::from_millis(200);
    let error = databases.run(Arc::clone(&database), late).await.unwrap_err();
    assert_eq!(error.problem, SqlProblem::Timeout, "{error}");
    assert!(tokio::time::timeout(Duration::from_millis(200), run(&databases, &database, ENDLESS, &[])).await.is_err());
    // The runtime of the test waits for the threads of statements: an endless one would never let it end.
    assert_eq!(value(&databases, &database, "SELECT 1").await, SqlValue::Int(1));
}

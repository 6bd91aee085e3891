//! Tests of the behaviour that all servers have in common.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::LocalDatabases;
use super::servers::{PASSWORD, Server};
use super::{Known, databases, limited, of, run, statement, text, value, with_secrets};
use crate::object::SecretKey;
use crate::script::outside::Grants;
use crate::script::outside::sql::{
    Authorities, Database, Databases as _, Hidden, Password, SqlProblem, SqlValue, Tls, TransactionEnd,
};

/// The differences between products.
pub(super) struct Dialect {
    /// A query of one minute.
    pub sleep: &'static str,
    /// The number of connections that run such a query, for the administrator's client.
    pub sleeping: &'static str,
    /// The place of the first parameter.
    pub param: &'static str,
    /// The state of a statement that cannot be read, and of a row that exists already.
    pub states: [&'static str; 2],
    /// Ends all connections of the operator, for the administrator's client.
    pub disconnect: &'static str,
    /// Sets a value that only the connection knows, and reads it.
    pub session: [&'static str; 2],
    /// The result of the second one on a fresh connection.
    pub fresh: SqlValue,
    /// Tells whether the connection is encrypted.
    pub is_encrypted: &'static str,
    /// Rejects the password of a new user.
    pub bad_password: &'static str,
    /// Gives a number of the connection.
    pub connection: &'static str,
    /// Makes a database `shop`.
    pub database: &'static str,
}

/// Tests all of it on one server.
pub(super) async fn all(server: &Server, dialect: &Dialect) {
    server.ask("", dialect.database).unwrap();
    let shop = of(server, |place| place.database = Some("shop".to_owned()));
    let databases = databases();
    statements_have_results_or_errors(&databases, &shop, dialect).await;
    results_have_limits(&databases, &shop, dialect).await;
    late_and_dropped_statements_end_on_the_server(server, &databases, &shop, dialect).await;
    transactions_have_all_effects_or_none(server, &databases, &shop).await;
    connections_are_shared_and_clean(server, &shop, dialect).await;
    refused_passwords_are_read_again(server).await;
    connections_are_encrypted_and_verified(server, dialect).await;
    addresses_are_checked(server).await;
}

async fn statements_have_results_or_errors(databases: &LocalDatabases, shop: &Arc<Database>, dialect: &Dialect) {
    let run = |text: String, params: Vec<SqlValue>| async move { run(databases, shop, &text, &params).await };
    run("CREATE TABLE goods (name varchar(40) PRIMARY KEY, price int)".to_owned(), Vec::new()).await.unwrap();
    let made =
        run("INSERT INTO goods VALUES ('a', 1), ('b', 2), ('it''s', NULL)".to_owned(), Vec::new()).await.unwrap();
    assert_eq!((made.affected, made.rows.len()), (3, 0));
    let by_name = format!("SELECT name, price FROM goods WHERE name = {}", dialect.param);
    let found = run(by_name.clone(), vec![text("it's")]).await.unwrap();
    assert_eq!(
        (found.columns, found.rows),
        (vec!["name".to_owned(), "price".to_owned()], vec![vec![text("it's"), SqlValue::Null]])
    );
    let none = run(by_name.clone(), vec![text("'; DROP TABLE goods; --")]).await.unwrap();
    assert_eq!((none.affected, none.rows.len()), (0, 0), "parameters are values, whatever is in them");

    for several in ["SELECT 1; SELECT 2", "DELETE FROM goods; DELETE FROM goods"] {
        let error = run(several.to_owned(), Vec::new()).await.unwrap_err();
        assert_eq!(
            (error.problem, error.sqlstate.as_deref()),
            (SqlProblem::Statement, Some(dialect.states[0])),
            "{several}: {error}"
        );
    }
    let error = run("INSERT INTO goods VALUES ('a', 1)".to_owned(), Vec::new()).await.unwrap_err();
    assert_eq!((error.problem, error.sqlstate.as_deref()), (SqlProblem::Statement, Some(dialect.states[1])), "{error}");
    let error = run(by_name, Vec::new()).await.unwrap_err();
    assert_eq!(error.message, "the statement has 1 parameters, and 0 are given");
    let error = run(dialect.bad_password.to_owned(), Vec::new()).await.unwrap_err();
    assert!(!error.message.contains("top-s3cret"), "{error}");
    assert_eq!(
        value(databases, shop, "SELECT count(*) FROM goods").await,
        SqlValue::Int(3),
        "the connection is as good as before"
    );
}

async fn results_have_limits(databases: &LocalDatabases, shop: &Arc<Database>, dialect: &Dialect) {
    let mut wanted = statement("SELECT name FROM goods", &[]);
    wanted.rows = 2;
    let error = databases.run(Arc::clone(shop), wanted).await.unwrap_err();
    assert_eq!(error.problem, SqlProblem::TooLarge, "{error}");
    let mut wanted = statement("SELECT repeat('x', 4000000)", &[]);
    wanted.bytes = 1 << 20;
    let error = databases.run(Arc::clone(shop), wanted).await.unwrap_err();
    assert_eq!(error.problem, SqlProblem::TooLarge, "{error}");
    assert_eq!(value(databases, shop, &format!("SELECT length({})", "'é'")).await, length(dialect));
}

/// PostgreSQL counts characters, and MariaDB bytes; both send UTF-8.
fn length(dialect: &Dialect) -> SqlValue {
    SqlValue::Int(if dialect.param == "?" { 2 } else { 1 })
}

async fn late_and_dropped_statements_end_on_the_server(
    server: &Server,
    databases: &LocalDatabases,
    shop: &Arc<Database>,
    dialect: &Dialect,
) {
    let mut late = statement(dialect.sleep, &[]);
    late.timeout = Duration::from_millis(300);
    let error = databases.run(Arc::clone(shop), late).await.unwrap_err();
    assert_eq!(
        (error.problem, error.message.as_str()),
        (SqlProblem::Timeout, "the statement has not ended within 0.3 seconds, and is cancelled")
    );
    until_nothing_sleeps(server, dialect).await;

    let running = databases.run(Arc::clone(shop), statement(dialect.sleep, &[]));
    assert!(tokio::time::timeout(Duration::from_millis(300), running).await.is_err());
    until_nothing_sleeps(server, dialect).await;

    let mut transaction = databases.begin(Arc::clone(shop), super::LIMIT).await.unwrap();
    transaction.run(statement("INSERT INTO goods VALUES ('late', 1)", &[])).await.unwrap();
    assert!(
        tokio::time::timeout(Duration::from_millis(300), transaction.run(statement(dialect.sleep, &[]))).await.is_err()
    );
    let error = transaction.run(statement("SELECT 1", &[])).await.unwrap_err();
    assert_eq!(error.problem, SqlProblem::Ended, "{error}");
    drop(transaction);
    until_nothing_sleeps(server, dialect).await;
    assert_eq!(value(databases, shop, "SELECT count(*) FROM goods WHERE name = 'late'").await, SqlValue::Int(0));
}

async fn until_nothing_sleeps(server: &Server, dialect: &Dialect) {
    let begun = Instant::now();
    while server.ask("", dialect.sleeping).unwrap() != "0" {
        assert!(begun.elapsed() < Duration::from_secs(10), "the statement still runs on the server");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn transactions_have_all_effects_or_none(server: &Server, databases: &LocalDatabases, shop: &Arc<Database>) {
    let count = || server.ask("shop", "SELECT count(*) FROM goods WHERE name LIKE 't%'").unwrap();
    let insert = |name: &str| statement(&format!("INSERT INTO goods VALUES ('{name}', 1)"), &[]);
    let begin = || async { databases.begin(Arc::clone(shop), super::LIMIT).await.unwrap() };

    let mut transaction = begin().await;
    transaction.run(insert("t1")).await.unwrap();
    transaction.run(insert("t2")).await.unwrap();
    assert_eq!(count(), "0", "others do not see it yet");
    transaction.end(TransactionEnd::Commit, super::LIMIT).await.unwrap();
    assert_eq!(count(), "2");

    let mut transaction = begin().await;
    transaction.run(insert("t3")).await.unwrap();
    transaction.end(TransactionEnd::Rollback, super::LIMIT).await.unwrap();
    assert_eq!(count(), "2");

    let mut transaction = begin().await;
    transaction.run(insert("t4")).await.unwrap();
    drop(transaction);
    // The lock of the row is free as soon as the server has rolled it back.
    run(databases, shop, "INSERT INTO goods VALUES ('t4', 2)", &[]).await.unwrap();
    assert_eq!(count(), "3");
}

async fn connections_are_shared_and_clean(server: &Server, shop: &Arc<Database>, dialect: &Dialect) {
    let databases = databases();
    let single = limited(shop, |limits| limits.connections = 1);
    let first = value(&databases, &single, dialect.connection).await;
    run(&databases, &single, dialect.session[0], &[]).await.unwrap();
    assert_eq!(value(&databases, &single, dialect.session[1]).await, dialect.fresh, "nothing is left of the last user");
    assert_eq!(value(&databases, &single, dialect.connection).await, first, "the connection is used again");

    let begun = Instant::now();
    let slow = databases.begin(Arc::clone(&single), super::LIMIT).await.unwrap();
    let mut waiting = statement("SELECT 1", &[]);
    waiting.timeout = Duration::from_millis(200);
    let error = databases.run(Arc::clone(&single), waiting).await.unwrap_err();
    assert_eq!((error.problem, error.message.as_str()), (SqlProblem::Timeout, "no connection within 0.2 seconds"));
    slow.end(TransactionEnd::Rollback, super::LIMIT).await.unwrap();
    run(&databases, &single, "SELECT 1", &[]).await.unwrap();
    assert!(begun.elapsed() < super::LIMIT);

    server.ask("", dialect.disconnect).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_ne!(
        value(&databases, &single, dialect.connection).await,
        first,
        "a connection that the server has ended is replaced"
    );

    let brief = limited(&single, |limits| limits.idle = Duration::from_millis(300));
    let before = value(&databases, &brief, dialect.connection).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_ne!(value(&databases, &brief, dialect.connection).await, before, "an idle connection ends");
}

async fn refused_passwords_are_read_again(server: &Server) {
    let wrong = of(server, |place| place.password = Password::Given(Hidden("wr0ng-one".to_owned())));
    let error = run(&databases(), &wrong, "SELECT 1", &[]).await.unwrap_err();
    assert_eq!(error.problem, SqlProblem::Login, "{error}");
    assert!(error.sqlstate.is_some() && !error.message.contains("wr0ng-one"), "{error}");

    let key = SecretKey { name: "admin".to_owned(), namespace: None, key: "password".to_owned() };
    let kept = of(server, |place| place.password = Password::Secret(key.clone()));
    let kept = limited(&kept, |limits| limits.connections = 2);
    let secrets = Arc::<Known>::default();
    let databases = with_secrets(&secrets);
    secrets.0.lock().0 = PASSWORD.to_owned();
    let open = databases.begin(Arc::clone(&kept), super::LIMIT).await.unwrap();
    run(&databases, &kept, "SELECT 1", &[]).await.unwrap();
    assert_eq!(secrets.0.lock().1, 1, "the password is read once");
    drop(open);
    secrets.0.lock().0 = "wr0ng-one".to_owned();
    let fresh = with_secrets(&secrets);
    assert_eq!(run(&fresh, &kept, "SELECT 1", &[]).await.unwrap_err().problem, SqlProblem::Login);
    secrets.0.lock().0 = PASSWORD.to_owned();
    run(&fresh, &kept, "SELECT 1", &[]).await.unwrap();

    let missing = SecretKey { name: "gone".to_owned(), ..key };
    let missing = of(server, |place| place.password = Password::Secret(missing));
    let error = run(&databases, &missing, "SELECT 1", &[]).await.unwrap_err();
    assert_eq!(error.message, "the password cannot be read from the Secret gone: there is none");
}

async fn connections_are_encrypted_and_verified(server: &Server, dialect: &Dialect) {
    let databases = databases();
    assert_eq!(value(&databases, &of(server, |_| {}), dialect.is_encrypted).await, text("yes"));
    assert_eq!(value(&databases, &of(server, |place| place.tls = Tls::Off), dialect.is_encrypted).await, text("no"));
    let untrusted = of(server, |place| place.tls = Tls::Verified(Authorities::System));
    let error = run(&databases, &untrusted, "SELECT 1", &[]).await.unwrap_err();
    assert_eq!(error.problem, SqlProblem::Tls, "{error}");
    let named = |place: &mut crate::script::outside::sql::Server| {
        place.host = "127.0.0.1".to_owned();
        place.grants = Grants::of(&["127.0.0.1".to_owned()]);
    };
    let error = run(&databases, &of(server, named), "SELECT 1", &[]).await.unwrap_err();
    assert_eq!(error.problem, SqlProblem::Tls, "the certificate names localhost: {error}");
}

async fn addresses_are_checked(server: &Server) {
    let unnamed = of(server, |place| place.grants = Grants::default());
    let error = run(&databases(), &unnamed, "SELECT 1", &[]).await.unwrap_err();
    assert_eq!(error.problem, SqlProblem::Forbidden, "{error}");
    let closed = of(server, |place| place.port = 1);
    let error = run(&databases(), &closed, "SELECT 1", &[]).await.unwrap_err();
    assert_eq!(error.problem, SqlProblem::Connect, "{error}");
}

//! PostgreSQL.

use serde_json::json;

use super::on_servers::{Dialect, all};
use super::servers::{Product, Server};
use super::{databases, of, row, run, statement, text, value};
use crate::script::outside::sql::{Databases as _, SqlProblem, SqlValue, TransactionEnd};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_run_on_a_server() {
    let server = Server::start(Product::Postgres);
    let dialect = Dialect {
        sleep: "SELECT pg_sleep(60)",
        sleeping: "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(60)'",
        param: "$1",
        states: ["42601", "23505"],
        disconnect: "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'kopfd'",
        session: ["SET search_path = pg_catalog", "SELECT current_setting('search_path')"],
        fresh: text("\"$user\", public"),
        is_encrypted: "SELECT CASE WHEN ssl THEN 'yes' ELSE 'no' END FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
        bad_password: "CREATE ROLE a LOGIN PASSWORD 'top-s3cret' NONSENSE",
        connection: "SELECT pg_backend_pid()",
        database: "CREATE DATABASE shop",
    };
    all(&server, &dialect).await;
    types_become_values(&server).await;
    parameters_have_the_types_of_their_places(&server).await;
    a_failed_transaction_cannot_be_committed(&server).await;
}

async fn types_become_values(server: &Server) {
    let (databases, database) = (databases(), of(server, |_| {}));
    let cases = [
        ("true", SqlValue::Bool(true)),
        ("NULL::int", SqlValue::Null),
        ("(-7)::smallint", SqlValue::Int(-7)),
        ("9223372036854775807", SqlValue::Int(i64::MAX)),
        ("4294967295::oid", SqlValue::Int(4_294_967_295)),
        ("1.5::float8", SqlValue::Float(1.5)),
        ("0.25::real", SqlValue::Float(0.25)),
        ("12345678901234567890.0500", text("12345678901234567890.0500")),
        ("-0.0001::numeric", text("-0.0001")),
        ("'NaN'::numeric", text("NaN")),
        ("'a'::\"char\"", text("a")),
        ("'b '::char(3)", text("b  ")),
        ("'é'::varchar", text("é")),
        ("current_user", text("postgres")),
        ("'\\x00ff'::bytea", SqlValue::Bytes(vec![0, 255])),
        ("'{\"a\": [1, null]}'::jsonb", SqlValue::Json(json!({"a": [1, null]}))),
        ("'[true]'::json", SqlValue::Json(json!([true]))),
        ("'2024-02-29 12:00:00.5+02'::timestamptz", SqlValue::Time("2024-02-29T10:00:00.5Z".parse().unwrap())),
        ("'infinity'::timestamptz", text("infinity")),
        ("'2024-02-29 12:00:00.5'::timestamp", text("2024-02-29T12:00:00.5")),
        ("'1066-10-14'::date", text("1066-10-14")),
        ("'-infinity'::date", text("-infinity")),
        ("'23:59:58'::time", text("23:59:58")),
        ("'6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid", text("6ba7b810-9dad-11d1-80b4-00c04fd430c8")),
        ("ARRAY[1, NULL, 3]", SqlValue::List(vec![SqlValue::Int(1), SqlValue::Null, SqlValue::Int(3)])),
        ("ARRAY[['a'], ['b']]", SqlValue::List(vec![SqlValue::List(vec![text("a")]), SqlValue::List(vec![text("b")])])),
        ("'{}'::text[]", SqlValue::List(Vec::new())),
        ("ARRAY(SELECT rolname FROM pg_roles WHERE rolname = 'postgres')", SqlValue::List(vec![text("postgres")])),
    ];
    for (expression, expected) in cases {
        assert_eq!(value(&databases, &database, &format!("SELECT {expression}")).await, expected, "{expression}");
    }
    run(&databases, &database, "CREATE TYPE mood AS ENUM ('good', 'bad')", &[]).await.unwrap();
    run(&databases, &database, "CREATE DOMAIN percent AS int CHECK (VALUE <= 100)", &[]).await.unwrap();
    assert_eq!(value(&databases, &database, "SELECT 'bad'::mood").await, text("bad"));
    assert_eq!(value(&databases, &database, "SELECT 5::percent").await, SqlValue::Int(5));
    let error = run(&databases, &database, "SELECT '10.0.0.1'::inet AS place", &[]).await.unwrap_err();
    assert_eq!(error.problem, SqlProblem::Value);
    assert_eq!(error.message, "the column place has the type inet, which has no value in scripts: write place::text");
}

async fn parameters_have_the_types_of_their_places(server: &Server) {
    let (databases, database) = (databases(), of(server, |_| {}));
    let list = SqlValue::List(vec![text("a\"b"), SqlValue::Null, text("c,d}")]);
    let params = [
        SqlValue::Int(7),
        text("7"),
        SqlValue::Bool(true),
        SqlValue::Float(0.1),
        SqlValue::Bytes(vec![0, 1]),
        SqlValue::Json(json!({"a": "'"})),
        SqlValue::Time("2024-01-01T00:00:00Z".parse().unwrap()),
        list.clone(),
        SqlValue::Null,
    ];
    let query = "SELECT $1::bigint, $2::numeric, $3::bool, $4::float8, $5::bytea, $6::jsonb, $7::timestamptz, $8::text[], $9::text";
    let expected = [&params[..1], &[text("7")], &params[2..]].concat();
    assert_eq!(row(&databases, &database, query, &params).await, expected);
    let names = SqlValue::List(vec![text("postgres"), text("nobody")]);
    let found =
        run(&databases, &database, "SELECT rolname FROM pg_roles WHERE rolname = ANY($1)", &[names]).await.unwrap();
    assert_eq!(found.rows, [[text("postgres")]]);
    let error = run(&databases, &database, "SELECT $1::int", &[text("s3cret-text")]).await.unwrap_err();
    assert_eq!((error.problem, error.sqlstate.as_deref()), (SqlProblem::Statement, Some("22P02")), "{error}");
    assert!(!error.message.contains("s3cret-text"), "{error}");
}

async fn a_failed_transaction_cannot_be_committed(server: &Server) {
    let databases = databases();
    let mut transaction = databases.begin(of(server, |_| {}), super::LIMIT).await.unwrap();
    transaction.run(statement("CREATE TABLE kept (a int)", &[])).await.unwrap();
    transaction.run(statement("SELECT 1 / 0", &[])).await.unwrap_err();
    let error = transaction.end(TransactionEnd::Commit, super::LIMIT).await.unwrap_err();
    assert_eq!(
        (error.problem, error.message.as_str()),
        (SqlProblem::Ended, "the transaction was rolled back, since a statement in it has failed")
    );
    assert_eq!(server.ask("", "SELECT count(*) FROM pg_tables WHERE tablename = 'kept'").unwrap(), "0");

    let mut transaction = databases.begin(of(server, |_| {}), super::LIMIT).await.unwrap();
    transaction.run(statement("SAVEPOINT here", &[])).await.unwrap();
    transaction.run(statement("SELECT 1 / 0", &[])).await.unwrap_err();
    transaction.run(statement("ROLLBACK TO SAVEPOINT here", &[])).await.unwrap();
    transaction.run(statement("CREATE TABLE kept (a int)", &[])).await.unwrap();
    transaction.end(TransactionEnd::Commit, super::LIMIT).await.unwrap();
    assert_eq!(server.ask("", "SELECT count(*) FROM pg_tables WHERE tablename = 'kept'").unwrap(), "1");
}

//! Tests of the `sql::` functions with databases that record statements, and answer from a list.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, pending, ready};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::kit::Stop;
use crate::script::Limits;
use crate::script::interface::declaration::Allow;
use crate::script::language::convert;
use crate::script::outside::sql::{
    Authorities, Database, DatabasePlace, Databases, Driver, Hidden, Password, Reply, Server, SqlError, SqlLimits,
    SqlProblem, SqlValue, Statement, Tls, Transaction, TransactionEnd,
};
use crate::script::outside::{Grants, Outside};
use crate::script::runtime::budget::Budget;
use crate::script::runtime::context::testing::{environment, run_in};
use crate::script::runtime::context::{Context, Environment, Mode};

type Answer = Result<Reply, SqlError>;

#[derive(Default)]
struct Recorder {
    /// The titles of databases with their statements, and the ends of transactions.
    steps: Mutex<Vec<String>>,
    statements: Mutex<Vec<Statement>>,
    databases: Mutex<Vec<Arc<Database>>>,
    /// `None` is no answer at all.
    answers: Mutex<Vec<Option<Answer>>>,
}

impl Recorder {
    fn answer(&self, place: &str, statement: Statement) -> BoxFuture<'static, Answer> {
        self.steps.lock().push(format!("{place}: {}", statement.text));
        self.statements.lock().push(statement);
        let mut answers = self.answers.lock();
        match if answers.is_empty() { Some(Ok(Reply::default())) } else { answers.remove(0) } {
            Some(answer) => ready(answer).boxed(),
            None => pending().boxed(),
        }
    }
}

impl Databases for Arc<Recorder> {
    fn run(&self, database: Arc<Database>, statement: Statement) -> BoxFuture<'_, Answer> {
        let answer = self.answer(&database.title, statement);
        self.databases.lock().push(database);
        answer
    }

    fn begin(&self, database: Arc<Database>, _: Duration) -> BoxFuture<'_, Result<Box<dyn Transaction>, SqlError>> {
        self.steps.lock().push(format!("{}: begin", database.title));
        let begun: Box<dyn Transaction> = Box::new(Recorded { recorder: Arc::clone(self), is_ended: false });
        ready(Ok(begun)).boxed()
    }
}

struct Recorded {
    recorder: Arc<Recorder>,
    is_ended: bool,
}

impl Transaction for Recorded {
    fn run(&mut self, statement: Statement) -> BoxFuture<'_, Answer> {
        self.recorder.answer("in it", statement)
    }

    fn end(mut self: Box<Self>, how: TransactionEnd, _: Duration) -> BoxFuture<'static, Result<(), SqlError>> {
        self.is_ended = true;
        self.recorder.steps.lock().push(format!("{how:?}"));
        ready(Ok(())).boxed()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if !self.is_ended {
            self.recorder.steps.lock().push("dropped".to_owned());
        }
    }
}

fn orders(driver: Driver) -> Arc<Database> {
    let place = Server {
        host: "orders.svc".to_owned(),
        port: 5432,
        database: None,
        user: "admin".to_owned(),
        password: Password::None,
        tls: Tls::Off,
        grants: Grants::default(),
    };
    let limits = SqlLimits { rows: 100, timeout: Duration::from_secs(10), ..SqlLimits::default() };
    Arc::new(Database { title: "orders".to_owned(), driver, place: DatabasePlace::Server(Box::new(place)), limits })
}

/// Runs a script, and returns its value or its error.
async fn run_as(mode: Mode, recorder: &Arc<Recorder>, script: &str) -> Result<Value, String> {
    let connections =
        BTreeMap::from([("orders".to_owned(), orders(Driver::Postgres)), ("shop".to_owned(), orders(Driver::Mysql))]);
    let sql = ["*.databases.svc:5432", "127.0.0.1:3306"].map(str::to_owned).to_vec();
    let allow = Allow { sql, connections, ..Allow::default() };
    let outside = Outside { databases: Some(Arc::new(Arc::clone(recorder))), ..Outside::default() };
    let environment = Environment { outside, allow, ..environment() };
    let budget = Rc::new(Budget::new(&Limits { api_calls: 5, ..Limits::default() }, Stop::new()));
    let ended = run_in(Context::new(Rc::new(environment), budget, mode), script).await;
    ended.map(|value| convert::to_json(&value).unwrap()).map_err(|error| match error.unwrap_inner() {
        rhai::EvalAltResult::ErrorRuntime(value, _) => convert::text_of(value),
        other => other.to_string(),
    })
}

async fn run(answers: Vec<Option<Answer>>, script: &str) -> (Result<Value, String>, Arc<Recorder>) {
    let recorder = Arc::new(Recorder { answers: Mutex::new(answers), ..Recorder::default() });
    (run_as(Mode::Function, &recorder, script).await, recorder)
}

async fn value(script: &str) -> Value {
    run(Vec::new(), script).await.0.unwrap()
}

async fn error(script: &str) -> String {
    run(Vec::new(), script).await.0.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn rows_are_maps_of_values() {
    let row = vec![
        SqlValue::Text("ann".to_owned()),
        SqlValue::Int(7),
        SqlValue::Null,
        SqlValue::Bytes(vec![0, 255]),
        SqlValue::Time("2024-01-01T00:00:00Z".parse().unwrap()),
        SqlValue::Json(json!({"a": [1]})),
        SqlValue::List(vec![SqlValue::Bool(true), SqlValue::Float(0.5)]),
    ];
    let columns = ["name", "n", "none", "bytes", "at", "doc", "list"].map(str::to_owned).to_vec();
    let reply = Reply { columns, rows: vec![row], affected: 1 };
    let script = r#"
        let rows = sql::query("orders", "SELECT $1", ["x"]);
        let row = rows[0];
        [rows.len(), row.name, row.n, row.none, row.bytes.len(), row.at.format("%Y"), row.doc.a, row.list]
    "#;
    let (ended, recorder) = run(vec![Some(Ok(reply))], script).await;
    assert_eq!(ended.unwrap(), json!([1, "ann", 7, null, 2, "2024", [1], [true, 0.5]]));
    assert_eq!(*recorder.steps.lock(), ["orders: SELECT $1"]);
    let affected = Reply { affected: 3, ..Reply::default() };
    assert_eq!(run(vec![Some(Ok(affected))], r#"sql::execute("orders", "DELETE FROM a")"#).await.0.unwrap(), json!(3));
}

#[tokio::test(start_paused = true)]
async fn parameters_keep_their_types_and_limits_are_those_of_the_database_at_most() {
    let script = r#"
        sql::execute("orders", "x", [1, 2.5, "t", true, (), base64::decode_bytes("AP8="), time("2024-01-01T00:00:00Z"), [1, "a"], #{ a: 1 }],
            #{ timeout: "3s", rows: 7 });
        sql::execute("orders", "y", [], #{ timeout: "1h", rows: 5000 });
    "#;
    let (ended, recorder) = run(Vec::new(), script).await;
    ended.unwrap();
    let statements = recorder.statements.lock();
    let expected = [
        SqlValue::Int(1),
        SqlValue::Float(2.5),
        SqlValue::Text("t".to_owned()),
        SqlValue::Bool(true),
        SqlValue::Null,
        SqlValue::Bytes(vec![0, 255]),
        SqlValue::Time("2024-01-01T00:00:00Z".parse().unwrap()),
        SqlValue::List(vec![SqlValue::Int(1), SqlValue::Text("a".to_owned())]),
        SqlValue::Json(json!({"a": 1})),
    ];
    assert_eq!(statements[0].params, expected);
    let limits = |index: usize| (statements[index].timeout.as_secs(), statements[index].rows);
    assert_eq!((limits(0), limits(1)), ((3, 7), (10, 100)));
}

#[tokio::test(start_paused = true)]
async fn only_declared_databases_can_be_reached() {
    let script =
        r#"let c = (); try { sql::query("other", "SELECT 1"); } catch (e) { c = [e.kind, e.reason, e.message]; } c"#;
    assert_eq!(
        value(script).await,
        json!(["sql", "Forbidden", "the connection \"other\" is not listed under `connections`"])
    );
    let script = r#"
        let c = [];
        for host in ["db.svc", "a.databases.svc:1", "127.0.0.1"] {
            try { sql::connect(#{ driver: "postgres", host: host }); c.push("ok"); } catch (e) { c.push(e?.reason ?? "bad"); }
        }
        c
    "#;
    assert_eq!(value(script).await, json!(["Forbidden", "bad", "Forbidden"]));
    let refused = error(r#"sql::query(7, "SELECT 1")"#).await;
    assert!(refused.contains("the connection must be a name of `connections`"), "{refused}");
    let refused = run_as(Mode::Expression, &Arc::default(), r#"sql::query("orders", "SELECT 1")"#).await.unwrap_err();
    assert!(refused.contains("`sql::query`"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_secret_makes_a_connection() {
    let script = r#"
        let data = #{ driver: "mariadb", hostname: "127.0.0.1", username: "ann", password: "s3cret-text\n", dbname: "a", tls: "false" };
        for key in data.keys() { data[key] = base64::encode(data[key]); }
        let c = sql::connect(#{ apiVersion: "v1", kind: "Secret", metadata: #{ name: "x" }, data: data }, #{ database: "b" });
        sql::execute(c, "x");
        `${c}`
    "#;
    let (shown, recorder) = run(Vec::new(), script).await;
    assert_eq!(shown.unwrap(), json!("mysql://127.0.0.1:3306/b"));
    let database = Arc::clone(&recorder.databases.lock()[0]);
    let DatabasePlace::Server(server) = &database.place else { panic!() };
    assert_eq!((server.user.as_str(), server.database.as_deref(), server.port), ("ann", Some("b"), 3306));
    assert_eq!((&server.password, &server.tls), (&Password::Given(Hidden("s3cret-text".to_owned())), &Tls::Off));
    assert!(!format!("{database:?}").contains("s3cret"), "{database:?}");

    let (_, recorder) = run(
        Vec::new(),
        r#"sql::execute(sql::connect(#{ driver: "postgres", host: "a.databases.svc", ca: "PEM" }), "x")"#,
    )
    .await;
    let database = Arc::clone(&recorder.databases.lock()[0]);
    let DatabasePlace::Server(server) = &database.place else { panic!() };
    assert_eq!((server.user.as_str(), &server.tls), ("postgres", &Tls::Verified(Authorities::Pem("PEM".to_owned()))));
    for (given, expected) in [
        (r#"#{ host: "a.databases.svc" }"#, "`driver` is missing"),
        (r#"#{ driver: "oracle", host: "a.databases.svc" }"#, "`driver` must be"),
        (r#"#{ driver: "postgres" }"#, "`host` must be"),
        (r#"#{ driver: "postgres", host: "a.databases.svc", port: 70000 }"#, "`port` must be"),
        (r#"#{ driver: "postgres", host: "a.databases.svc", pasword: "x" }"#, "there is no key `pasword`"),
    ] {
        let refused = error(&format!("sql::connect({given})")).await;
        assert!(refused.contains(expected), "{given}: {refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_declared_server_may_have_other_databases() {
    let script = r#"let c = sql::connect("shop", #{ database: "a" }); sql::execute(c, "x"); `${c}`"#;
    let (shown, recorder) = run(Vec::new(), script).await;
    assert_eq!(shown.unwrap(), json!("orders/a"));
    let database = Arc::clone(&recorder.databases.lock()[0]);
    let DatabasePlace::Server(server) = &database.place else { panic!() };
    assert_eq!((server.user.as_str(), server.database.as_deref()), ("admin", Some("a")));
    assert!(error(r#"sql::connect("shop")"#).await.contains("the option `database` is missing"));
    assert!(error(r#"sql::connect("shop", #{ user: "x" })"#).await.contains("user"));
    assert!(error(r#"sql::connect("other", #{ database: "a" })"#).await.contains("not listed under `connections`"));
}

#[tokio::test(start_paused = true)]
async fn errors_have_the_state_of_the_server() {
    let failed = SqlError {
        sqlstate: Some("23505".to_owned()),
        code: Some(1062),
        ..SqlError::new(SqlProblem::Statement, "it exists")
    };
    let script = r#"let c = (); try { sql::execute("orders", "x"); } catch (e) { c = [e.kind, e.reason, e.message, e.sqlstate, e.code]; } c"#;
    assert_eq!(
        run(vec![Some(Err(failed))], script).await.0.unwrap(),
        json!(["sql", "Statement", "it exists", "23505", 1062])
    );
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_committed_or_rolled_back() {
    let script = r#"
        sql::transaction("orders", |tx| {
            sql::execute(tx, "a");
            sql::query(tx, "b");
            7
        })
    "#;
    let (ended, recorder) = run(Vec::new(), script).await;
    assert_eq!(ended.unwrap(), json!(7));
    assert_eq!(*recorder.steps.lock(), ["orders: begin", "in it: a", "in it: b", "Commit"]);

    let script = r#"sql::transaction("orders", |tx| { sql::execute(tx, "a"); throw "stop"; })"#;
    let (ended, recorder) = run(Vec::new(), script).await;
    assert!(ended.unwrap_err().contains("stop"));
    assert_eq!(*recorder.steps.lock(), ["orders: begin", "in it: a", "Rollback"]);

    // A call that has to end waits for nothing more.
    let script = r#"sql::transaction("orders", |tx| { loop { sql::execute(tx, "a"); } })"#;
    let (ended, recorder) = run(Vec::new(), script).await;
    assert!(ended.is_err());
    assert_eq!(recorder.steps.lock().last().unwrap(), "dropped");

    let kept =
        error(r#"let kept = (); sql::transaction("orders", |tx| { kept = tx; }); sql::execute(kept, "late")"#).await;
    assert!(kept.contains("the transaction has ended"), "{kept}");
    let nested = error(r#"sql::transaction("orders", |tx| sql::transaction(tx, |inner| 1))"#).await;
    assert!(nested.contains("use a savepoint"), "{nested}");
}

#[tokio::test(start_paused = true)]
async fn names_and_constants_are_quoted_for_the_server() {
    let script = r#"[
        sql::ident("orders", "a\"b"), sql::ident("shop", "a`b"), sql::ident("orders", ["public", "goods"]),
        sql::literal("orders", "it's"), sql::literal("shop", "a\\b"), sql::literal("orders", ()), sql::literal("orders", 7),
    ]"#;
    let expected = json!(["\"a\"\"b\"", "`a``b`", "\"public\".\"goods\"", "'it''s'", "'a\\\\b'", "NULL", "7"]);
    assert_eq!(value(script).await, expected);
    assert!(error(r#"sql::ident("orders", "")"#).await.contains("a name is empty"));
    assert!(error(r#"sql::ident("orders", [])"#).await.contains("the list of names is empty"));
}

#[tokio::test(start_paused = true)]
async fn statements_count_as_calls_and_end_with_the_call() {
    let (ended, recorder) =
        run(Vec::new(), r#"for i in 0..9 { try { sql::execute("orders", "x"); } catch (e) {} }"#).await;
    assert!(ended.unwrap_err().contains("terminated"));
    assert_eq!(recorder.steps.lock().len(), 5);

    let recorder = Arc::new(Recorder { answers: Mutex::new(vec![None]), ..Recorder::default() });
    let waiting = run_as(Mode::Function, &recorder, r#"sql::transaction("orders", |tx| sql::query(tx, "slow"))"#);
    assert!(tokio::time::timeout(Duration::from_mins(1), waiting).await.is_err());
    assert_eq!(*recorder.steps.lock(), ["orders: begin", "in it: slow", "dropped"]);
}

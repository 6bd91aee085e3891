//! The example of database users with a real PostgreSQL and a real MariaDB: its promises, and what is left when it is
//! killed between any two steps.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::cases;
use super::examples::{apply_definition, example};
use crate::harness::{Case, Kind, Launch, Operator, TestContext};

mod proxy;
#[path = "../../../src/outside/sql/tests/servers.rs"]
mod servers;

use proxy::Proxy;
use servers::{PASSWORD, Product, Server};

pub(crate) const CASES: &[Case] = cases![
    the_database_users_example_survives_kills_between_any_two_statements_of_mariadb,
    the_database_users_example_survives_kills_after_every_first_statement_of_three_of_postgresql,
    the_database_users_example_survives_kills_after_every_second_statement_of_three_of_postgresql,
    the_database_users_example_survives_kills_after_every_third_statement_of_three_of_postgresql,
    the_database_users_example_survives_kills_between_any_two_requests,
    the_database_users_example_keeps_its_promises_on_mariadb,
    the_database_users_example_keeps_its_promises_on_postgresql,
];

/// The most statements of one step of the example: more kills than this are a loop that does not end.
const MOST: usize = 60;

fn the_database_users_example_keeps_its_promises_on_postgresql(context: &TestContext<'_>) {
    Setting::new(context, Product::Postgres).promises();
}

fn the_database_users_example_keeps_its_promises_on_mariadb(context: &TestContext<'_>) {
    Setting::new(context, Product::Mariadb).promises();
}

// The steps on PostgreSQL have more statements, so the kills are divided into cases that run side by side.
fn the_database_users_example_survives_kills_after_every_first_statement_of_three_of_postgresql(
    context: &TestContext<'_>,
) {
    Setting::new(context, Product::Postgres).kills(1, 3);
}

fn the_database_users_example_survives_kills_after_every_second_statement_of_three_of_postgresql(
    context: &TestContext<'_>,
) {
    Setting::new(context, Product::Postgres).kills(2, 3);
}

fn the_database_users_example_survives_kills_after_every_third_statement_of_three_of_postgresql(
    context: &TestContext<'_>,
) {
    Setting::new(context, Product::Postgres).kills(3, 3);
}

fn the_database_users_example_survives_kills_between_any_two_statements_of_mariadb(context: &TestContext<'_>) {
    Setting::new(context, Product::Mariadb).kills(1, 1);
}

fn the_database_users_example_survives_kills_between_any_two_requests(context: &TestContext<'_>) {
    let setting = Setting::new(context, Product::Postgres);
    let launch = setting.launch(&format!("127.0.0.1:{}", setting.server.port), false);
    for writes in 1..MOST {
        context.start_and_crash_after(&launch, writes);
        setting.live(true, |act, is_done| {
            act();
            context.eventually("the step is done", || is_done().then_some(()));
        });
        if !context.end_crashing() {
            assert!(writes > 8, "only {writes} writes");
            println!("       {} crashes after writes", writes - 1);
            return;
        }
    }
    panic!("the writes do not end");
}

/// The example with one server.
struct Setting<'c> {
    context: &'c TestContext<'c>,
    server: Server,
    databases: Kind,
    users: Kind,
    secrets: Kind,
}

impl<'c> Setting<'c> {
    fn new(context: &'c TestContext<'c>, product: Product) -> Self {
        apply_definition(context, "database-users");
        let server = Server::start(product);
        let secrets = Kind::core("Secret", "secrets", false);
        let databases = Kind::of_group("example.com").named("LogicalDatabase", "logicaldatabases");
        let users = Kind::of_group("example.com").named("DatabaseUser", "databaseusers");
        for name in ["postgres-admin", "mariadb-admin"] {
            let data = json!({"password": STANDARD.encode(PASSWORD), "ca.crt": STANDARD.encode(&server.authority)});
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data});
            context.client().create(&secrets.collection(&context.namespace), &secret);
        }
        Self { context, server, databases, users, secrets }
    }

    /// Returns the start options with the server at an address, and timers that do not let the test wait.
    fn launch(&self, address: &str, is_encrypted: bool) -> Launch {
        let directory = self.context.directory().join("database-users");
        fs::create_dir_all(&directory).unwrap();
        for entry in fs::read_dir(example("database-users")).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
            }
        }
        let file: PathBuf = directory.join("operator.yaml");
        let mut manifest = fs::read_to_string(&file).unwrap();
        let hosts = [("postgres.databases.svc", Product::Postgres), ("mariadb.databases.svc", Product::Mariadb)];
        for (host, product) in hosts {
            assert!(manifest.contains(host));
            let is_here = product == self.server.product;
            // The other server is never reached.
            manifest = manifest.replace(host, if is_here { address } else { "127.0.0.1:1" });
        }
        manifest = manifest.replace("-admin, key", &format!("-admin, namespace: {}, key", self.context.namespace));
        if !is_encrypted {
            let lines = manifest.lines().map(|line| if line.contains("caFrom:") { "      tls: false" } else { line });
            manifest = lines.collect::<Vec<_>>().join("\n");
        }
        fs::write(&file, manifest.replace("interval: 1m, initialDelay: 1m", "interval: 2s, initialDelay: 2s")).unwrap();
        self.context.with_derived_rights(self.context.launch_source(&file))
    }

    fn create(&self, kind: &Kind, name: &str, spec: Value) {
        self.context.create(kind, name, spec);
    }

    fn server_name(&self) -> &'static str {
        if self.server.product == Product::Postgres { "postgres" } else { "mariadb" }
    }

    fn database(&self, name: &str, retention: &str) {
        let spec = json!({"server": self.server_name(), "name": name.replace('-', "_"), "retention": retention});
        self.create(&self.databases, name, spec);
    }

    fn ready(&self, kind: &Kind, name: &str) -> Option<Value> {
        let object = self.context.get(kind, name)?;
        let conditions = object["status"]["conditions"].as_array()?;
        let is_ready = conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        let observed = &conditions[0]["observedGeneration"];
        (is_ready && *observed == object["metadata"]["generation"]).then_some(object)
    }

    fn await_ready(&self, kind: &Kind, name: &str) -> Value {
        self.context.eventually(&format!("{name} is ready"), || self.ready(kind, name))
    }

    /// Returns the password in the Secret of a user.
    fn password(&self, user: &str) -> String {
        let path = self.secrets.path(&self.context.namespace, &format!("{user}-login"));
        let secret = self.context.client().get(&path).expect("a Secret");
        let encoded = secret["data"]["password"].as_str().expect("a password");
        String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
    }

    /// Runs statements as a user of the database `shop`.
    fn ask(&self, user: &str, statements: &str) -> Result<String, String> {
        self.server.ask_as(&user.replace('-', "_"), &self.password(user), "shop", statements)
    }

    /// Returns the number of users and roles, and that of databases, whose names begin with `shop`.
    fn left(&self) -> String {
        let statement = match self.server.product {
            Product::Postgres => {
                "SELECT (SELECT count(*) FROM pg_roles WHERE rolname LIKE 'shop%'), (SELECT count(*) FROM pg_database WHERE datname LIKE 'shop%')"
            }
            Product::Mariadb => {
                "SELECT concat((SELECT count(*) FROM mysql.user WHERE user LIKE 'shop%') + (SELECT count(*) FROM kopfd.users), '|',
                 (SELECT count(*) FROM information_schema.schemata WHERE schema_name LIKE 'shop%'))"
            }
        };
        self.server.ask("", statement).unwrap()
    }

    fn promises(&self) {
        let context = self.context;
        let address = format!("localhost:{}", self.server.port);
        let operator = context.start(&self.launch(&address, true));
        self.database("shop", "Retain");
        self.await_ready(&self.databases, "shop");
        self.create(&self.users, "shop-app", json!({"database": "shop", "name": "shop_app", "access": "Owner"}));
        self.create(&self.users, "shop-report", json!({"database": "shop", "name": "shop_report"}));
        self.await_ready(&self.users, "shop-app");
        self.await_ready(&self.users, "shop-report");

        self.ask("shop-app", "CREATE TABLE goods (name varchar(20)); INSERT INTO goods VALUES ('a')").unwrap();
        assert_eq!(self.ask("shop-report", "SELECT name FROM goods").unwrap(), "a");
        self.ask("shop-report", "INSERT INTO goods VALUES ('b')").expect_err("a reader writes nothing");
        context.merge(&self.users, "shop-report", json!({"spec": {"access": "Writer"}}));
        self.await_ready(&self.users, "shop-report");
        self.ask("shop-report", "INSERT INTO goods VALUES ('b')").unwrap();
        self.ask("shop-report", "DROP TABLE goods").expect_err("a writer makes and drops nothing");

        let before = self.password("shop-app");
        // Timers set the password, too, in the meantime.
        for trigger in 0..10 {
            let before = self.password("shop-app");
            context.merge(
                &self.users,
                "shop-app",
                json!({"spec": {"rotation": {"trigger": format!("leaked {trigger}")}}}),
            );
            self.await_ready(&self.users, "shop-app");
            assert_ne!(self.password("shop-app"), before);
            self.server.ask_as("shop_app", &before, "shop", "SELECT 1").expect_err("the earlier password has ended");
        }
        assert_eq!(self.ask("shop-app", "SELECT count(*) FROM goods").unwrap(), "2");

        let (lost, taken) = match self.server.product {
            Product::Postgres => ("REVOKE shop_writer FROM shop_report", "CREATE ROLE shop_taken LOGIN"),
            Product::Mariadb => ("REVOKE INSERT ON shop.* FROM shop_report", "CREATE USER shop_taken"),
        };
        self.server.ask("", lost).unwrap();
        context.eventually("lost rights come back", || self.ask("shop-report", "INSERT INTO goods VALUES ('c')").ok());

        self.server.ask("", taken).unwrap();
        self.create(&self.users, "taken", json!({"database": "shop", "name": "shop_taken"}));
        let reason = |object: &Value| object["status"]["conditions"][0]["reason"].as_str().map(str::to_owned);
        context.eventually("a user of somebody else is left alone", || {
            let object = context.get(&self.users, "taken")?;
            (reason(&object).as_deref() == Some("NameTaken")).then_some(())
        });
        context.delete(&self.users, "taken");
        context.gone(&self.users, "taken");

        for user in ["shop-app", "shop-report"] {
            context.delete(&self.users, user);
            context.gone(&self.users, user);
        }
        context.delete(&self.databases, "shop");
        context.gone(&self.databases, "shop");
        assert_eq!(
            self.server.ask("shop", "SELECT count(*) FROM goods").unwrap(),
            "3",
            "the retained database has all of it"
        );
        let drop =
            if self.server.product == Product::Postgres { "DROP ROLE shop_taken" } else { "DROP USER shop_taken" };
        self.server.ask("", drop).unwrap();
        let roles = if self.server.product == Product::Postgres { "3|1" } else { "0|1" };
        assert_eq!(self.left(), roles);
        context.stop(&operator);
        assert!(!operator.log().contains(&before) && !operator.log().contains(PASSWORD), "no password is in the log");
    }

    /// Lets the objects live from their creation to their deletion, in two steps, or in four with a user. Each is done
    /// as the given function likes.
    fn live(&self, has_user: bool, mut step: impl FnMut(&dyn Fn(), &dyn Fn() -> bool)) {
        let context = self.context;
        step(&|| self.database("shop", "Delete"), &|| self.ready(&self.databases, "shop").is_some());
        if has_user {
            self.live_as_user(&mut step);
        }
        step(&|| context.delete(&self.databases, "shop"), &|| context.get(&self.databases, "shop").is_none());
        assert_eq!(self.left(), "0|0", "nothing is left on the server");
    }

    fn live_as_user(&self, step: &mut impl FnMut(&dyn Fn(), &dyn Fn() -> bool)) {
        let context = self.context;
        let user = json!({"database": "shop", "name": "shop_app", "access": "Owner"});
        step(&|| self.create(&self.users, "shop-app", user.clone()), &|| self.ready(&self.users, "shop-app").is_some());
        self.ask("shop-app", "CREATE TABLE goods (name varchar(20)); INSERT INTO goods VALUES ('a')").unwrap();
        step(&|| context.delete(&self.users, "shop-app"), &|| context.get(&self.users, "shop-app").is_none());
        assert_eq!(self.server.ask("shop", "SELECT name FROM goods").unwrap(), "a", "what a user has made stays");
        let path = self.secrets.path(&context.namespace, "shop-app-login");
        // Without a garbage collector, the Secret of the deleted user stays.
        if context.client().get(&path).is_some() {
            context.client().delete(&path);
        }
    }

    /// Kills the operator after the n-th statement of each step, before it has its answer, for all n from a first one
    /// at intervals.
    fn kills(&self, first: usize, interval: usize) {
        let context = self.context;
        let proxy = Proxy::open(self.server.product, self.server.port);
        let launch = self.launch(&format!("127.0.0.1:{}", proxy.port), false);
        let operator: RefCell<Rc<Operator>> = RefCell::new(context.start(&launch));
        let mut kills = 0;
        // The steps of users have fewer statements.
        let mut has_user = true;
        for statement in (first..MOST).step_by(interval) {
            let before = kills;
            let mut killed = Vec::new();
            self.live(has_user, |act, is_done| {
                proxy.hold_after(statement);
                act();
                context.eventually("the statement is held, or the step is done", || {
                    (proxy.holds() || is_done()).then_some(())
                });
                killed.push(proxy.holds());
                if proxy.holds() {
                    context.kill(&operator.borrow());
                    kills += 1;
                    proxy.release();
                    operator.replace(context.start(&launch));
                    context.eventually_within(
                        Duration::from_mins(1),
                        &format!("the step is done after a kill at statement {statement}"),
                        || is_done().then_some(()),
                    );
                }
                proxy.release();
            });
            has_user &= killed.len() == 4 && (killed[1] || killed[2]);
            if kills == before {
                assert!(kills > 10, "only {kills} kills");
                println!("       {kills} kills, the longest step has fewer than {statement} statements");
                return;
            }
        }
        panic!("the statements do not end");
    }
}

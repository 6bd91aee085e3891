//! MariaDB.

use serde_json::json;

use super::on_servers::{Dialect, all};
use super::servers::{Product, Server};
use super::{databases, of, row, run, text, value};
use crate::script::outside::sql::SqlValue;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_run_on_a_server() {
    let server = Server::start(Product::Mariadb);
    let dialect = Dialect {
        sleep: "SELECT sleep(60)",
        sleeping: "SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'SELECT sleep(60)%'",
        param: "?",
        states: ["42000", "23000"],
        disconnect: "KILL USER root",
        session: ["SET @left_over = 1", "SELECT @left_over IS NULL"],
        fresh: SqlValue::Int(1),
        is_encrypted: "SELECT if(variable_value = '', 'no', 'yes') FROM information_schema.session_status WHERE variable_name = 'Ssl_cipher'",
        bad_password: "CREATE USER a IDENTIFIED BY 'top-s3cret' NONSENSE",
        connection: "SELECT connection_id()",
        database: "CREATE DATABASE shop",
    };
    all(&server, &dialect).await;
    types_become_values(&server).await;
    parameters_are_values(&server).await;
    administration_runs_as_statements(&server).await;
}

async fn types_become_values(server: &Server) {
    let (databases, database) = (databases(), of(server, |place| place.database = Some("shop".to_owned())));
    let made = "CREATE TABLE kinds (
        n int NULL, t tinyint(1), b bigint unsigned, f double, r float, d decimal(30,4), c char(5), v varchar(20), x varbinary(4), j json,
        s timestamp(3) NULL, dt datetime NULL, da date NULL, ti time NULL, bi bit(4), e enum('good', 'bad'), y year)";
    run(&databases, &database, made, &[]).await.unwrap();
    let filled = "INSERT INTO kinds VALUES (NULL, 1, 18446744073709551615, 1.5, 0.25, 12345678901234567890.05, 'b', 'é', x'00ff',
        '{\"a\": [1, null]}', '2024-02-29 10:00:00.5', '2024-02-29 12:00:00', '1066-10-14', '-30:00:01', b'0101', 'bad', 2024)";
    run(&databases, &database, filled, &[]).await.unwrap();
    let found = row(&databases, &database, "SELECT * FROM kinds", &[]).await;
    let expected = [
        SqlValue::Null,
        SqlValue::Int(1),
        text("18446744073709551615"),
        SqlValue::Float(1.5),
        SqlValue::Float(0.25),
        text("12345678901234567890.0500"),
        text("b"),
        text("é"),
        SqlValue::Bytes(vec![0, 255]),
        // MariaDB keeps JSON as text.
        text("{\"a\": [1, null]}"),
        SqlValue::Time("2024-02-29T10:00:00.5Z".parse().unwrap()),
        text("2024-02-29T12:00:00"),
        text("1066-10-14"),
        text("-30:00:01"),
        SqlValue::Int(5),
        text("bad"),
        SqlValue::Int(2024),
    ];
    assert_eq!(found, expected);
}

async fn parameters_are_values(server: &Server) {
    let (databases, database) = (databases(), of(server, |_| {}));
    let params = [
        SqlValue::Int(-7),
        text("it's \\ \"é\""),
        SqlValue::Bool(true),
        SqlValue::Float(0.5),
        SqlValue::Bytes(vec![0, 1]),
        SqlValue::Json(json!({"a": "'"})),
        SqlValue::Null,
    ];
    let query = "SELECT ?, ?, ?, ?, CAST(? AS BINARY), json_value(?, '$.a'), ?";
    let expected = [
        SqlValue::Int(-7),
        text("it's \\ \"é\""),
        SqlValue::Int(1),
        SqlValue::Float(0.5),
        SqlValue::Bytes(vec![0, 1]),
        text("'"),
        SqlValue::Null,
    ];
    assert_eq!(row(&databases, &database, query, &params).await, expected);
    let moment = SqlValue::Time("2024-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(row(&databases, &database, "SELECT unix_timestamp(?)", &[moment]).await, [SqlValue::Int(1_704_067_200)]);
}

async fn administration_runs_as_statements(server: &Server) {
    let (databases, database) = (databases(), of(server, |_| {}));
    for text in [
        "CREATE USER `ann`@'%' IDENTIFIED BY 'first-one'",
        "GRANT SELECT ON `shop`.* TO `ann`@'%'",
        "ALTER USER `ann`@'%' IDENTIFIED BY 'it''s\\\\next'",
        "REVOKE ALL PRIVILEGES, GRANT OPTION FROM `ann`@'%'",
    ] {
        run(&databases, &database, text, &[]).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    assert_eq!(server.ask_as("ann", "it's\\next", "", "SELECT 1").unwrap(), "1");
    assert_eq!(
        value(&databases, &database, "SELECT count(*) FROM mysql.user WHERE user = 'ann'").await,
        SqlValue::Int(1)
    );
    run(&databases, &database, "DROP USER `ann`@'%'", &[]).await.unwrap();
}

//! Reads the stubs of databases.

use serde_json::Value;

use super::declared::SqlStub;
use crate::manifest::reader::{Fields, Item, Reader};
use crate::script::outside::sql::{Reply, SqlError, SqlProblem, SqlValue};

const HINT: &str = "write such as `{connection: orders, statement: \"SELECT *\", rows: [{name: app}]}`";

/// Reads the key `sql` of `given`.
pub(super) fn read(reader: &Reader, fields: &Fields<'_>) -> Vec<SqlStub> {
    reader.list_of(fields, "sql").iter().filter_map(|item| stub(reader, item)).collect()
}

fn stub(reader: &Reader, item: &Item<'_>) -> Option<SqlStub> {
    let known = ["connection", "statement", "params", "times", "takes", "rows", "affected", "error"];
    let fields = reader.fields(item, "a stub of a database", &known)?;
    let text = |key: &'static str| reader.required(&fields, key, HINT).and_then(|item| reader.owned(&item));
    let (connection, statement) = (text("connection"), text("statement"));
    let params = fields.raw("params").and_then(|item| item.node.to_value().as_array().cloned());
    let rows = reader.list_of(&fields, "rows");
    let reply = reply(reader, &rows)?;
    let affected = fields.get("affected").and_then(|item| reader.whole(&item, 0)).map(i64::cast_unsigned);
    let error = match fields.get("error") {
        Some(item) => Some(error(reader, &item)?),
        None => None,
    };
    Some(SqlStub {
        connection: connection?,
        statement: statement?.split_whitespace().collect::<Vec<_>>().join(" "),
        params,
        times: fields
            .get("times")
            .and_then(|item| reader.whole(&item, 1))
            .and_then(|times| usize::try_from(times).ok()),
        takes: fields.get("takes").and_then(|item| reader.duration(&item)).unwrap_or_default(),
        error,
        reply: Reply { affected: affected.unwrap_or(reply.rows.len() as u64), ..reply },
    })
}

/// The columns are those of the first row.
fn reply(reader: &Reader, rows: &[Item<'_>]) -> Option<Reply> {
    let mut reply = Reply::default();
    for item in rows {
        let Value::Object(row) = item.node.to_value() else {
            reader.mistyped(item, "a mapping of values by column", HINT);
            return None;
        };
        if reply.columns.is_empty() {
            reply.columns = row.keys().cloned().collect();
        }
        if let Some(unknown) = row.keys().find(|key| !reply.columns.contains(key)) {
            reader.error_with(
                item,
                format!("the first row has no column `{unknown}`"),
                "all rows have the same columns",
            );
            return None;
        }
        reply.rows.push(reply.columns.iter().map(|column| row.get(column).map_or(SqlValue::Null, value)).collect());
    }
    Some(reply)
}

fn value(value: &Value) -> SqlValue {
    match value {
        Value::Null => SqlValue::Null,
        Value::Bool(flag) => SqlValue::Bool(*flag),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| SqlValue::Float(number.as_f64().unwrap_or_default()), SqlValue::Int)
        }
        Value::String(text) => SqlValue::Text(text.clone()),
        Value::Array(items) => SqlValue::List(items.iter().map(self::value).collect()),
        Value::Object(_) => SqlValue::Json(value.clone()),
    }
}

fn error(reader: &Reader, item: &Item<'_>) -> Option<SqlError> {
    let fields = reader.fields(item, "an error of a database", &["reason", "message", "sqlstate", "code"])?;
    let words = SqlProblem::ALL.map(SqlProblem::as_str);
    let problem = match fields.get("reason") {
        Some(item) => {
            let word = reader.word(&item, &words)?;
            SqlProblem::ALL.into_iter().find(|problem| problem.as_str() == word)?
        }
        None => SqlProblem::Statement,
    };
    let message = reader.string(&fields, "message").unwrap_or_else(|| "the stub of the scenario refuses it".to_owned());
    let code = fields.get("code").and_then(|item| reader.whole(&item, 0));
    Some(SqlError { sqlstate: reader.string(&fields, "sqlstate"), code, ..SqlError::new(problem, message) })
}

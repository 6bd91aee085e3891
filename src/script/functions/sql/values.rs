//! Parameters and results as values of scripts.

use rhai::{Array, Dynamic, Map};

use crate::script::functions::support::{Given, Native, Thrown, may_have_bytes, may_have_items, wrong};
use crate::script::language::bytes::Bytes;
use crate::script::language::convert;
use crate::script::outside::sql::{Reply, SqlValue};
use crate::script::runtime::bounded;
use crate::script::values::time::Time;

/// Returns the parameters of a statement.
///
/// # Errors
/// If they are no list, or one of them cannot be sent.
pub(super) fn params(function: &str, given: &Dynamic) -> Result<Vec<SqlValue>, Thrown> {
    if given.is_unit() {
        return Ok(Vec::new());
    }
    let is_own = given.is_array();
    let plain =
        if is_own { given.clone() } else { convert::to_plain(given).map_err(|error| wrong(function, error))? };
    let items = plain.as_array_ref().map_err(|_| wrong(function, "the parameters must be a list"))?;
    items.iter().map(|item| param(function, item)).collect()
}

fn param(function: &str, given: &Dynamic) -> Result<SqlValue, Thrown> {
    if given.is_unit() {
        return Ok(SqlValue::Null);
    }
    if let Ok(flag) = given.as_bool() {
        return Ok(SqlValue::Bool(flag));
    }
    if let Ok(number) = given.as_int() {
        return Ok(SqlValue::Int(number));
    }
    if let Ok(number) = given.as_float() {
        return Ok(SqlValue::Float(number));
    }
    if let Ok(text) = given.as_immutable_string_ref() {
        bounded::reserve(text.len())?;
        return Ok(SqlValue::Text(text.to_string()));
    }
    if let Some(bytes) = given.read_lock::<Bytes>() {
        bounded::reserve(bytes.0.len())?;
        return Ok(SqlValue::Bytes(bytes.0.to_vec()));
    }
    if let Some(time) = given.read_lock::<Time>() {
        return Ok(SqlValue::Time(time.0));
    }
    if let Ok(items) = given.as_array_ref() {
        return Ok(SqlValue::List(items.iter().map(|item| param(function, item)).collect::<Result<_, _>>()?));
    }
    convert::to_json(given).map(SqlValue::Json).map_err(|error| wrong(function, error))
}

/// Returns the rows of a result: a list of maps by the names of the columns.
///
/// # Errors
/// If the call may not hold them.
pub(super) fn rows(native: &Native<'_>, reply: &Reply) -> Given {
    may_have_items(native, reply.rows.len())?;
    let mut list = Array::new();
    for row in &reply.rows {
        let names: usize = reply.columns.iter().map(|name| name.len() + size_of::<Dynamic>()).sum();
        bounded::reserve(names + row.iter().map(SqlValue::size).sum::<usize>())?;
        let mut map = Map::new();
        for (name, value) in reply.columns.iter().zip(row) {
            map.insert(name.as_str().into(), of(native, value)?);
        }
        list.push(map.into());
        bounded::pause()?;
    }
    Ok(list.into())
}

fn of(native: &Native<'_>, value: &SqlValue) -> Given {
    Ok(match value {
        SqlValue::Null => Dynamic::UNIT,
        SqlValue::Bool(flag) => (*flag).into(),
        SqlValue::Int(number) => (*number).into(),
        SqlValue::Float(number) => (*number).into(),
        SqlValue::Text(text) => {
            may_have_bytes(native, text.len())?;
            text.clone().into()
        }
        SqlValue::Bytes(bytes) => Dynamic::from(Bytes(bytes.as_slice().into())),
        SqlValue::Time(time) => Dynamic::from(Time(*time)),
        SqlValue::Json(value) => convert::to_dynamic(value),
        SqlValue::List(items) => {
            may_have_items(native, items.len())?;
            items.iter().map(|item| of(native, item)).collect::<Result<Array, _>>()?.into()
        }
    })
}

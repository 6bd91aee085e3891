//! `sql::ident` and `sql::literal`: what cannot be a parameter.

use rhai::Dynamic;

use super::connection::Connection;
use crate::script::functions::options::text;
use crate::script::functions::support::{Given, Native, may_have_bytes, wrong};
use crate::script::language::convert;
use crate::script::outside::sql::{Driver, ident as quoted, literal as constant};
use crate::script::runtime::context::Context;

/// `sql::ident(connection, name)`: a name in quotes. A list is a name with its qualifiers.
pub(super) fn ident(native: &Native<'_>, on: &Dynamic, name: &Dynamic) -> Given {
    const FUNCTION: &str = "sql::ident";
    let driver = driver(native, FUNCTION, on)?;
    let one = |name: &Dynamic| {
        let name = text(FUNCTION, "the name", name)?;
        quoted(driver, &name).map_err(|problem| wrong(FUNCTION, problem))
    };
    let plain = convert::to_plain(name).map_err(|error| wrong(FUNCTION, error))?;
    let written = match plain.as_array_ref() {
        Ok(names) if names.is_empty() => return Err(wrong(FUNCTION, "the list of names is empty")),
        Ok(names) => names.iter().map(one).collect::<Result<Vec<_>, _>>()?.join("."),
        Err(_) => one(name)?,
    };
    may_have_bytes(native, written.len())?;
    Ok(written.into())
}

/// `sql::literal(connection, value)`: a text, a number, a boolean or `()` as a constant.
pub(super) fn literal(native: &Native<'_>, on: &Dynamic, value: &Dynamic) -> Given {
    const FUNCTION: &str = "sql::literal";
    let driver = driver(native, FUNCTION, on)?;
    let written = if value.is_unit() {
        "NULL".to_owned()
    } else if value.is_int() || value.is_bool() {
        value.to_string()
    } else {
        constant(driver, &text(FUNCTION, "the value", value)?).map_err(|problem| wrong(FUNCTION, problem))?
    };
    may_have_bytes(native, written.len())?;
    Ok(written.into())
}

fn driver(
    native: &Native<'_>,
    function: &str,
    on: &Dynamic,
) -> Result<Driver, crate::script::functions::support::Thrown> {
    let context = Context::of(native)?;
    Ok(Connection::of(&context, function, on)?.database.driver)
}

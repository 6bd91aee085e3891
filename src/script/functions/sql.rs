//! `sql::`: statements to the databases that `connections` declares, and to servers that `allow.sql` lists.
//!
//! A failed call throws an error of the kind `sql`, whose `reason` says what has failed, with the `sqlstate` and the `code` of the server.

mod connect;
mod connection;
mod quoting;
mod run;
#[cfg(test)]
mod tests;
mod values;

use rhai::{Dynamic, Engine, FnPtr, FuncRegistration, Module};

use self::connection::Connection;
use super::options::placed;
use super::support::{Given, Native, two};
use crate::script::outside::sql::SqlError;
use crate::script::script_error::Failure;

/// The kind of their errors.
const KIND: &str = "sql";

/// A function with a connection, a statement, its parameters, and options.
type StatementFunction = fn(&Native<'_>, [&Dynamic; 4]) -> Given;

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    connection::register(engine);
    let mut module = Module::new();
    let functions: [(&str, StatementFunction); 2] = [("query", run::query), ("execute", run::execute)];
    for (name, function) in functions {
        let none = Dynamic::UNIT;
        FuncRegistration::new(name).set_into_module(&mut module, move |native: Native<'_>, on: Dynamic, text: Dynamic| {
            placed(&native, function(&native, [&on, &text, &none, &none]))
        });
        let none = Dynamic::UNIT;
        FuncRegistration::new(name).set_into_module(&mut module, move |native: Native<'_>, on: Dynamic, text: Dynamic, params: Dynamic| {
            placed(&native, function(&native, [&on, &text, &params, &none]))
        });
        FuncRegistration::new(name).set_into_module(
            &mut module,
            move |native: Native<'_>, on: Dynamic, text: Dynamic, params: Dynamic, options: Dynamic| {
                placed(&native, function(&native, [&on, &text, &params, &options]))
            },
        );
    }
    FuncRegistration::new("transaction").set_into_module(&mut module, |native: Native<'_>, on: Dynamic, function: FnPtr| {
        placed(&native, run::transaction(&native, &on, &function))
    });
    FuncRegistration::new("connect")
        .set_into_module(&mut module, |native: Native<'_>, given: Dynamic| placed(&native, connect::connect(&native, &given, None)));
    FuncRegistration::new("connect").set_into_module(&mut module, |native: Native<'_>, given: Dynamic, options: Dynamic| {
        placed(&native, connect::connect(&native, &given, Some(&options)))
    });
    two(&mut module, "ident", quoting::ident);
    two(&mut module, "literal", quoting::literal);
    engine.register_static_module("sql", module.into());
}

/// Returns the error that scripts catch.
fn thrown(error: SqlError) -> Failure {
    let SqlError { problem, message, sqlstate, code } = error;
    let mut failure = Failure { reason: Some(problem.as_str().to_owned()), ..Failure::host(KIND, message) };
    if let Some(sqlstate) = sqlstate {
        failure.properties.insert("sqlstate", sqlstate.into());
    }
    if let Some(code) = code {
        failure.properties.insert("code", code.into());
    }
    failure
}

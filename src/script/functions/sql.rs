//! `sql::`: statements to the databases that `connections` declares, and to servers that `allow.sql` lists.
//!
//! A failed call throws an error of the kind `sql`, whose `reason` says what has failed, with the `sqlstate` and the
//! `code` of the server.

mod connect;
mod connection;
mod quoting;
mod run;
#[cfg(test)]
mod tests;
mod thrown;
mod values;

use rhai::{Dynamic, Engine, FnPtr, FuncRegistration, Module};

use super::options::placed;
use super::support::{Given, Native, two};

/// A function with a connection, a statement, its parameters, and options.
type StatementFunction = fn(&Native<'_>, [&Dynamic; 4]) -> Given;

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    connection::register(engine);
    let mut module = Module::new();
    let functions: [(&str, StatementFunction); 2] = [("query", run::query), ("execute", run::execute)];
    for (name, function) in functions {
        let none = Dynamic::UNIT;
        FuncRegistration::new(name).set_into_module(
            &mut module,
            move |native: Native<'_>, on: Dynamic, text: Dynamic| {
                placed(&native, function(&native, [&on, &text, &none, &none]))
            },
        );
        let none = Dynamic::UNIT;
        FuncRegistration::new(name).set_into_module(
            &mut module,
            move |native: Native<'_>, on: Dynamic, text: Dynamic, params: Dynamic| {
                placed(&native, function(&native, [&on, &text, &params, &none]))
            },
        );
        FuncRegistration::new(name).set_into_module(
            &mut module,
            move |native: Native<'_>, on: Dynamic, text: Dynamic, params: Dynamic, options: Dynamic| {
                placed(&native, function(&native, [&on, &text, &params, &options]))
            },
        );
    }
    FuncRegistration::new("transaction")
        .set_into_module(&mut module, |native: Native<'_>, on: Dynamic, function: FnPtr| {
            placed(&native, run::transaction(&native, &on, &function))
        });
    FuncRegistration::new("connect").set_into_module(&mut module, |native: Native<'_>, given: Dynamic| {
        placed(&native, connect::connect(&native, &given, None))
    });
    FuncRegistration::new("connect").set_into_module(
        &mut module,
        |native: Native<'_>, given: Dynamic, options: Dynamic| {
            placed(&native, connect::connect(&native, &given, Some(&options)))
        },
    );
    two(&mut module, "ident", quoting::ident);
    two(&mut module, "literal", quoting::literal);
    engine.register_static_module("sql", module.into());
}

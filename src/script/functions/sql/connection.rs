//! The target of statements: a database by its name in the manifest, one of `sql::connect`, or a transaction.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rhai::{Dynamic, Engine};

use super::thrown::thrown;
use crate::script::functions::support::{Thrown, wrong};
use crate::script::outside::sql::{Database, SqlError, SqlProblem, Transaction};
use crate::script::runtime::context::Context;
use crate::script::values::titles;

/// A connection as a value of scripts.
#[derive(Clone)]
pub(super) struct Connection {
    /// The database.
    pub database: Arc<Database>,
    /// The transaction; `None` for statements by themselves.
    pub transaction: Option<Open>,
}

/// An open transaction. `None` while a statement runs, and after the end.
pub(super) type Open = Rc<RefCell<Option<Box<dyn Transaction>>>>;

impl Connection {
    /// Returns the connection that a function is given.
    ///
    /// # Errors
    /// If it is no connection, or one that the manifest does not declare.
    pub(super) fn of(context: &Context, function: &str, given: &Dynamic) -> Result<Self, Thrown> {
        if let Some(connection) = given.read_lock::<Self>() {
            return Ok(connection.clone());
        }
        let Ok(name) = given.as_immutable_string_ref() else {
            let what = format!(
                "the connection must be a name of `connections`, or one of `sql::connect`, not {}",
                titles::of_value(given)
            );
            return Err(wrong(function, what));
        };
        let database = context.allow().connections.get(name.as_str()).cloned();
        let unlisted = || {
            SqlError::new(
                SqlProblem::Forbidden,
                format!("the connection {:?} is not listed under `connections`", &**name),
            )
        };
        Ok(Self { database: database.ok_or_else(|| thrown(unlisted()))?, transaction: None })
    }
}

/// Registers the type. Its text has no password.
pub(super) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Connection>("Connection");
    engine.register_fn("to_string", |connection: &mut Connection| connection.database.title.clone());
    engine.register_fn("to_debug", |connection: &mut Connection| connection.database.title.clone());
}

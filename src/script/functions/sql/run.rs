//! `sql::query`, `sql::execute` and `sql::transaction`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rhai::{Dynamic, FnPtr};

use super::connection::{Connection, Open};
use super::thrown::thrown;
use super::values;
use crate::script::functions::options::{Options, as_given, text};
use crate::script::functions::support::{self, Given, Native, Thrown, wrong};
use crate::script::limits::allocator;
use crate::script::outside::sql::{Database, Databases, Reply, SqlError, SqlProblem, Statement, TransactionEnd};
use crate::script::runtime::context::{Context, wait_in};
use crate::script::values::script_error::Failure;
use crate::script::values::time;

/// The options of a statement.
const OPTIONS: [&str; 2] = ["timeout", "rows"];

/// `sql::query(connection, text, [params], [options])`: the rows, as maps.
pub(super) fn query(native: &Native<'_>, arguments: [&Dynamic; 4]) -> Given {
    run(native, "sql::query", arguments, |reply| values::rows(native, reply))
}

/// `sql::execute(connection, text, [params], [options])`: the number of rows.
pub(super) fn execute(native: &Native<'_>, arguments: [&Dynamic; 4]) -> Given {
    run(native, "sql::execute", arguments, |reply| Ok(i64::try_from(reply.affected).unwrap_or(i64::MAX).into()))
}

fn run(
    native: &Native<'_>,
    function: &'static str,
    given: [&Dynamic; 4],
    result: impl FnOnce(&Reply) -> Given,
) -> Given {
    let [on, written, params, options] = given;
    let context = Context::of(native)?;
    context.acts(function)?;
    let connection = Connection::of(&context, function, on)?;
    let written = text(function, "the statement", written)?;
    let params = values::params(function, params)?;
    let (timeout, rows) = limits(function, options, &connection.database)?;
    let bytes = context.budget().memory() / 2;
    let databases = databases(&context, function)?;
    // Copies, which another thread frees: what the call itself holds stays counted.
    let statement =
        allocator::uncounted(|| Statement { text: written.clone(), params: params.clone(), timeout, rows, bytes });
    let title = connection.database.title.clone();
    let _waiting = context.budget().waiting_for(move || format!("an answer of the database {title}"));
    let outcome = if let Some(open) = &connection.transaction {
        in_transaction(&context, open, statement)?
    } else {
        let database = Arc::clone(&connection.database);
        wait_in(&context, async move { databases.run(database, statement).await })?
    };
    let reply = outcome.map_err(thrown)?;
    let returned = result(&reply);
    // The call has copies of its own, and has never counted this.
    allocator::uncounted(|| drop(reply));
    returned
}

/// The transaction is not in its cell meanwhile. If the call ends in the wait, the transaction is dropped with it.
fn in_transaction(context: &Context, open: &Open, statement: Statement) -> Result<Result<Reply, SqlError>, Thrown> {
    let Some(mut transaction) = open.borrow_mut().take() else { return Ok(Err(ended())) };
    let (transaction, outcome) = wait_in(context, async move {
        let outcome = transaction.run(statement).await;
        (transaction, outcome)
    })?;
    *open.borrow_mut() = Some(transaction);
    Ok(outcome)
}

fn ended() -> SqlError {
    SqlError::new(SqlProblem::Ended, "the transaction has ended, or a statement in it is still running")
}

/// Returns the time and the rows of a statement: at most those of its database.
fn limits(function: &'static str, given: &Dynamic, database: &Database) -> Result<(Duration, usize), Thrown> {
    let options = Options::read(function, &OPTIONS, Some(given).filter(|given| !given.is_unit()))?;
    let timeout = as_given(Some(given), "timeout").map(|value| time::duration(&value)).transpose()?;
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(options.wrong("timeout", "more than zero"));
    }
    let rows =
        as_given(Some(given), "rows").map(|value| support::count(function, "the option `rows`", &value)).transpose()?;
    let own = &database.limits;
    Ok((
        timeout.map_or(own.timeout, |timeout| timeout.min(own.timeout)),
        rows.map_or(own.rows, |rows| rows.min(own.rows)),
    ))
}

/// Returns the databases, and counts a call.
fn databases(context: &Context, function: &str) -> Result<Arc<dyn Databases>, Thrown> {
    let databases = context.outside().databases.clone();
    let databases =
        databases.ok_or_else(|| Failure::host("unavailable", format!("`{function}` has no databases here")))?;
    context.budget().count_api_call()?;
    Ok(databases)
}

/// `sql::transaction(connection, function)`: the result of the function, which is given the transaction.
pub(super) fn transaction(native: &Native<'_>, on: &Dynamic, function: &FnPtr) -> Given {
    const FUNCTION: &str = "sql::transaction";
    let context = Context::of(native)?;
    context.acts(FUNCTION)?;
    let connection = Connection::of(&context, FUNCTION, on)?;
    if connection.transaction.is_some() {
        return Err(wrong(FUNCTION, "a transaction cannot have another one in it: use a savepoint"));
    }
    let database = connection.database;
    let (databases, limit) = (databases(&context, FUNCTION)?, database.limits.timeout);
    let begun = Arc::clone(&database);
    let begun = wait_in(&context, async move { databases.begin(begun, limit).await })?;
    let open: Open = Rc::new(RefCell::new(Some(begun.map_err(thrown)?)));
    let given = Connection { database, transaction: Some(Rc::clone(&open)) };
    let returned = support::call(FUNCTION, native, function, [Dynamic::from(given)]);
    // Copies that the function has kept of it become unusable.
    let transaction = open.borrow_mut().take();
    match returned {
        // A call that must end waits for nothing: the transaction is rolled back, since it is dropped.
        Err(error) if context.budget().check().is_err() => Err(error),
        Ok(value) => {
            let transaction = transaction.ok_or_else(|| thrown(ended()))?;
            wait_in(&context, transaction.end(TransactionEnd::Commit, limit))?.map_err(thrown)?;
            Ok(value)
        }
        Err(error) => {
            if let Some(transaction) = transaction {
                // If it fails, the connection is closed, which rolls back, too.
                let _ = wait_in(&context, transaction.end(TransactionEnd::Rollback, limit))?;
            }
            Err(error)
        }
    }
}

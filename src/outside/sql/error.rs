//! Errors that drivers have in common.

use std::error::Error as StdError;

use crate::script::outside::sql::{SqlError, SqlProblem};

/// Returns the error of a connection: TLS has its own problem.
pub(super) fn of_connection(problem: SqlProblem, text: &str, error: &(dyn StdError + 'static)) -> SqlError {
    match found::<rustls::Error>(error) {
        Some(cause) => SqlError::new(SqlProblem::Tls, format!("no secure connection: {cause}")),
        None => SqlError::new(problem, format!("{text}: {}", innermost(error))),
    }
}

/// Finds an error of a type among the causes of another one. An error of input and output is itself no cause of what it holds.
fn found<'e, T: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e T> {
    if let Some(wanted) = error.downcast_ref::<T>() {
        return Some(wanted);
    }
    let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let held = held.map(|held| held as &(dyn StdError + 'static));
    held.or_else(|| error.source()).and_then(found::<T>)
}

fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

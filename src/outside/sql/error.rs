//! Errors that drivers have in common.

use std::error::Error as StdError;

use crate::outside::causes::{chain, found};
use crate::script::outside::sql::{SqlError, SqlProblem};

/// Returns the error of a connection: TLS has its own problem.
pub(super) fn of_connection(problem: SqlProblem, text: &str, error: &(dyn StdError + 'static)) -> SqlError {
    match found::<rustls::Error>(error) {
        Some(cause) => SqlError::new(SqlProblem::Tls, format!("no secure connection: {cause}")),
        None => SqlError::new(problem, chain(text, error)),
    }
}

//! Errors of databases as scripts catch them.

use crate::script::outside::sql::SqlError;
use crate::script::values::script_error::Failure;

/// The kind of these errors.
const KIND: &str = "sql";

/// Returns the error that scripts catch.
pub(super) fn thrown(error: SqlError) -> Failure {
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

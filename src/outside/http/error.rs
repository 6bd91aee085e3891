//! Errors of connections as those of scripts.

use std::error::Error as StdError;

use hyper_util::client::legacy::Error as ClientError;

use crate::script::outside::{HttpError, HttpProblem};

/// Returns an error.
pub(super) fn of(problem: HttpProblem, message: impl Into<String>) -> HttpError {
    HttpError { problem, message: message.into() }
}

/// Returns the error of a request that has no answer.
pub(super) fn of_client(error: ClientError) -> HttpError {
    if let Some(own) = found::<HttpError>(&error) {
        return own.clone();
    }
    let is_tls = found::<rustls::Error>(&error).map(ToString::to_string);
    match is_tls {
        Some(text) => of(HttpProblem::Tls, format!("no secure connection: {text}")),
        None if error.is_connect() => of(HttpProblem::Connect, chain("no connection", &error)),
        None => of(HttpProblem::Broken, chain("the connection has ended", &error)),
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

/// Returns a text with the innermost cause of an error.
pub(super) fn chain(text: &str, error: &dyn StdError) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    format!("{text}: {innermost}")
}

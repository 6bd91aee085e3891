//! Errors of connections as those of scripts.

use hyper_util::client::legacy::Error as ClientError;

use crate::outside::causes::{chain, found};
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

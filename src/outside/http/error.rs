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
    let mut cause: Option<&(dyn StdError + 'static)> = Some(&error);
    let mut is_tls = None;
    while let Some(link) = cause {
        if let Some(own) = link.downcast_ref::<HttpError>() {
            return own.clone();
        }
        // An error of input and output is itself no source of what it holds.
        let held = link.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(own) = held.and_then(|held| held.downcast_ref::<HttpError>()) {
            return own.clone();
        }
        let tls = link.downcast_ref::<rustls::Error>().or_else(|| held.and_then(|held| held.downcast_ref::<rustls::Error>()));
        is_tls = is_tls.or(tls.map(ToString::to_string));
        cause = link.source();
    }
    match is_tls {
        Some(text) => of(HttpProblem::Tls, format!("no secure connection: {text}")),
        None if error.is_connect() => of(HttpProblem::Connect, chain("no connection", &error)),
        None => of(HttpProblem::Broken, chain("the connection has ended", &error)),
    }
}

/// Returns a text with the innermost cause of an error.
pub(super) fn chain(text: &str, error: &dyn StdError) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    format!("{text}: {innermost}")
}

//! Addresses: how they are read and shown, and which are allowed.

use rhai::EvalAltResult;
use url::Url;

use crate::script::outside::{HttpError, HttpProblem, is_allowed};
use crate::script::runtime::bounded;
use crate::script::runtime::context::Context;
use crate::script::values::script_error::{Failure, Meaning};

pub(super) type Thrown = Box<EvalAltResult>;

/// The longest address.
const MAX_URL: usize = 64 << 10;

/// Returns an address without its query, its name and its password.
pub(super) fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    let _ = shown.set_username("").and_then(|()| shown.set_password(None));
    bounded::shortened(shown.as_str())
}

/// Reads an address of HTTP.
///
/// # Errors
/// If it is no address, or has a name or a password.
pub(super) fn address(function: &str, written: &str) -> Result<Url, Thrown> {
    let wrong = |what: &str| -> Thrown { Failure::argument(format!("`{function}`: {what}")).into() };
    if written.len() > MAX_URL {
        return Err(wrong(&format!("an address has at most {MAX_URL} bytes")));
    }
    let mut url = Url::parse(written).map_err(|error| wrong(&format!("the address cannot be read: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("the address must begin with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("the address must not have a name and a password: use the option `auth`"));
    }
    url.set_fragment(None);
    Ok(url)
}

/// Checks that the manifest allows the host of an address.
///
/// # Errors
/// If it does not.
pub(super) fn check_host(context: &Context, function: &str, url: &Url) -> Result<(), Thrown> {
    if is_allowed(&context.allow().http, url) {
        return Ok(());
    }
    let message = format!("`{function}`: the host {} is not listed under `allow.http`", authority(url));
    Err(thrown(HttpError { problem: HttpProblem::Forbidden, message }, None))
}

/// Returns the host of an address, with its port if it is not that of the scheme.
pub(super) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns the error that a script may catch.
pub(super) fn thrown(error: HttpError, status: Option<u16>) -> Thrown {
    let reason = Some(error.problem.as_str().to_owned());
    Failure { status, reason, ..Failure::new(Meaning::Host("http"), error.message) }.into()
}

//! Sends a request, follows its redirects, and repeats it.

use std::sync::Arc;

use rhai::EvalAltResult;
use url::Url;

use super::Thrown;
use super::redirects;
use super::request::{Request, shown};
use super::retries::{self, Attempt};
use crate::script::context::{Context, wait_at_most, wait_in};
use crate::script::outside::{HttpAnswer, HttpClient, HttpError, HttpProblem, HttpRequest, is_allowed};
use crate::script::script_error::{Failure, Meaning};

/// The answer to a request, and the address that has given it.
pub(super) struct Answered {
    pub answer: HttpAnswer,
    pub url: Url,
}

/// Sends a request, and returns its last answer.
///
/// # Errors
/// If there is no answer, or the call must end.
pub(super) fn perform(context: &Context, request: &Request) -> Result<Answered, Thrown> {
    let client = client(context, &request.function)?;
    let mut attempt = Attempt::default();
    let mut is_renewed = false;
    loop {
        let outcome = follow(context, &client, request)?;
        let status = outcome.as_ref().ok().map(|answered| answered.answer.status);
        if !is_renewed && status.is_some_and(|status| request.auth.renews(context, status)) {
            is_renewed = true;
            continue;
        }
        let pause = retries::pause(request, &mut attempt, outcome.as_ref().map(|answered| &answered.answer), context);
        let Some(pause) = pause else { return outcome.map_err(|error| thrown(error, None)) };
        wait_at_most(context, Some(pause), tokio::time::sleep(pause))?;
    }
}

fn client(context: &Context, function: &str) -> Result<Arc<dyn HttpClient>, Thrown> {
    context.acts(function)?;
    let client = context.environment().outside.http.clone();
    client.ok_or_else(|| Failure::host("unavailable", format!("`{function}` is not available here")).into())
}

/// Sends a request, and those of its redirects. The outer error ends the call.
fn follow(context: &Context, client: &Arc<dyn HttpClient>, request: &Request) -> Result<Result<Answered, HttpError>, Box<EvalAltResult>> {
    let mut hop = redirects::Hop::first(request);
    for left in (0..=request.redirects).rev() {
        check_host(context, &request.function, &hop.url)?;
        context.budget().count_api_call()?;
        let mut headers = hop.headers.clone();
        if hop.is_trusted {
            headers.extend(request.auth.headers(context, request, &hop)?);
        }
        let sent = HttpRequest {
            method: hop.method.clone(),
            url: hop.url.clone(),
            headers,
            body: hop.body.clone(),
            max_bytes: request.max_bytes,
            connection: Arc::clone(&hop.connection),
        };
        let answer = match send(context, client, request, sent)? {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        match hop.next(&answer) {
            Ok(Some(next)) if left > 0 => hop = next,
            Ok(Some(_)) if request.redirects > 0 => {
                let message = format!("{}: there were more than {} redirects", request.title(), request.redirects);
                return Ok(Err(HttpError { problem: HttpProblem::Redirect, message }));
            }
            Ok(_) => return Ok(Ok(Answered { answer, url: hop.url })),
            Err(what) => {
                let message = format!("{}: {what}", request.title());
                return Ok(Err(HttpError { problem: HttpProblem::Redirect, message }));
            }
        }
    }
    unreachable!("the last hop returns")
}

fn send(
    context: &Context,
    client: &Arc<dyn HttpClient>,
    request: &Request,
    sent: HttpRequest,
) -> Result<Result<HttpAnswer, HttpError>, Thrown> {
    let (limit, client) = (request.timeout, Arc::clone(client));
    let title = format!("{} {}", sent.method, shown(&sent.url));
    let waited = title.clone();
    let _waiting = context.budget().waiting_for(move || format!("the answer to {waited}"));
    let answered = wait_in(context, async move { tokio::time::timeout(limit, client.send(sent)).await })?;
    let late = |_| HttpError { problem: HttpProblem::Timeout, message: format!("no answer within {} seconds", limit.as_secs_f64()) };
    let answered = answered.map_err(late).flatten();
    Ok(answered.map_err(|error| HttpError { message: format!("{title}: {}", error.message), ..error }))
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

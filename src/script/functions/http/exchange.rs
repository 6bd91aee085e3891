//! Sends a request, follows its redirects, and repeats it.

use std::sync::Arc;

use url::Url;

use super::hosts::{Thrown, check_host, shown, thrown};
use super::redirects::Hop;
use super::request::Request;
use super::retries::{self, Attempt};
use crate::script::outside::{HttpAnswer, HttpClient, HttpError, HttpProblem, HttpRequest};
use crate::script::runtime::context::{Context, wait_at_most, wait_in};
use crate::script::values::script_error::Failure;

/// The answer to a request, and the address that has given it.
pub(super) struct Answered {
    pub answer: HttpAnswer,
    pub url: Url,
}

/// Returns the headers that authenticate a request.
pub(super) type Authorize<'a> = &'a dyn Fn(&Hop) -> Result<Vec<(String, String)>, Thrown>;

/// Sends a request, and returns its last answer.
///
/// # Errors
/// If there is no answer, or the call must end.
pub(super) fn perform(context: &Context, request: &Request, authorize: Authorize<'_>) -> Result<Answered, Thrown> {
    let client = client(context, &request.function)?;
    let mut attempt = Attempt::default();
    loop {
        let outcome = follow(context, &client, request, authorize)?;
        let pause = retries::pause(request, &mut attempt, outcome.as_ref().map(|answered| &answered.answer), context);
        let Some(pause) = pause else { return outcome.map_err(|error| thrown(error, None)) };
        wait_at_most(context, Some(pause), tokio::time::sleep(pause))?;
    }
}

fn client(context: &Context, function: &str) -> Result<Arc<dyn HttpClient>, Thrown> {
    context.acts(function)?;
    let client = context.outside().http.clone();
    client.ok_or_else(|| Failure::host("unavailable", format!("`{function}` is not available here")).into())
}

/// Sends a request, and those of its redirects. The outer error ends the call.
fn follow(
    context: &Context,
    client: &Arc<dyn HttpClient>,
    request: &Request,
    authorize: Authorize<'_>,
) -> Result<Result<Answered, HttpError>, Thrown> {
    let mut hop = Hop::first(request);
    for left in (0..=request.redirects).rev() {
        check_host(context, &request.function, &hop.url)?;
        context.budget().count_api_call()?;
        let mut headers = hop.headers.clone();
        if hop.is_trusted {
            headers.extend(authorize(&hop)?);
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
    let late = |_| HttpError {
        problem: HttpProblem::Timeout,
        message: format!("no answer within {} seconds", limit.as_secs_f64()),
    };
    let answered = answered.map_err(late).flatten();
    Ok(answered.map_err(|error| HttpError { message: format!("{title}: {}", error.message), ..error }))
}

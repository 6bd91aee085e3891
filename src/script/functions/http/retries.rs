//! When a request is repeated, and after which pause.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;

use super::request::Request;
use crate::script::outside::{HttpAnswer, HttpError, HttpProblem};
use crate::script::runtime::context::Context;

/// The pause before the first repetition; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause of the back-off.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A server that wants a longer pause gets no repetition: the handler can return, and be tried again later.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(1);

/// The attempts so far.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    repeated: usize,
}

/// Returns the pause before the next attempt; `None` if there is none.
pub(super) fn pause(
    request: &Request,
    attempt: &mut Attempt,
    outcome: Result<&HttpAnswer, &HttpError>,
    context: &Context,
) -> Option<Duration> {
    // A server that was not reached has not seen the request.
    let is_unseen = matches!(outcome, Err(HttpError { problem: HttpProblem::Connect, .. }));
    if attempt.repeated >= request.retries || !(request.is_idempotent || is_unseen) {
        return None;
    }
    let wanted = match outcome {
        Ok(answer) if matches!(answer.status, 429 | 502 | 503 | 504) => {
            answer.header("retry-after").and_then(|text| retry_after(text, context.clock().now()))
        }
        Err(HttpError { problem: HttpProblem::Connect | HttpProblem::Broken | HttpProblem::Timeout, .. }) => None,
        _ => return None,
    };
    if wanted.is_some_and(|wanted| wanted > LONGEST_RETRY_AFTER) {
        return None;
    }
    let doubled = FIRST_PAUSE.saturating_mul(1 << attempt.repeated.min(16)).min(LONGEST_PAUSE);
    attempt.repeated += 1;
    // Many objects whose calls have failed together must not come back together.
    Some(wanted.unwrap_or_else(|| doubled.mul_f64(0.75 + context.environment().rng.fraction() / 2.0)))
}

/// Reads seconds or a date.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = "2020-01-01T00:00:00Z".parse().unwrap();
        for (text, seconds) in
            [("7", Some(7)), ("Wed, 01 Jan 2020 00:00:30 GMT", Some(30)), ("Tue, 31 Dec 2019 00:00:00 GMT", Some(0))]
        {
            assert_eq!(retry_after(text, now).map(|pause| pause.as_secs()), seconds, "{text}");
        }
        assert_eq!(retry_after("soon", now), None);
    }
}

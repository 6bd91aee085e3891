//! One attempt of a handler: its limits, and the outcome of its verdict.

use std::time::Duration;

use jiff::Timestamp;

use super::handler::{ErrorMode, Handler};
use super::message::{Message, seconds, span};
use super::outcome::{Outcome, Verdict};
use super::progress::Record;

/// The delay of a temporary error without a delay.
pub const TEMPORARY_DELAY: Duration = Duration::from_mins(1);

/// Returns the message before an attempt.
pub fn announce(handler: &Handler) -> Message {
    Message::step(format!("{} is invoked.", handler.title()))
}

/// Returns the failure of a handler that has used up its time or its retries.
///
/// A running call is never interrupted by the timeout.
pub fn check_limits(handler: &Handler, record: &Record, now: Timestamp) -> Option<(Outcome, Message)> {
    let title = handler.title();
    let runtime = record.runtime(now);
    let text = if handler.policy.timeout.is_some_and(|timeout| runtime >= timeout) {
        format!("{title} has timed out after {}.", span(runtime))
    } else if handler.policy.retries.is_some_and(|retries| record.retries >= retries) {
        format!("{title} has exceeded {} retries.", record.retries)
    } else {
        return None;
    };
    Some((Outcome::failure(text.clone()), Message::error(text)))
}

/// Returns the outcome of a verdict.
pub fn judge(
    handler: &Handler,
    record: &Record,
    verdict: Verdict,
    now: Timestamp,
    default_backoff: Duration,
) -> (Outcome, Message) {
    let title = handler.title();
    let ahead = LookAhead { handler, record, now };
    match verdict {
        Verdict::Returned(result) => (Outcome::success(result), Message::info(format!("{title} succeeded."))),
        Verdict::Unfinished { delay } => (
            // Kopf stores this text for an error without a message; the records must be equal.
            Outcome::retry(Some(delay), "None"),
            Message::debug(format!("{title} has unfinished sub-handlers. Will retry soon.")),
        ),
        // Requests of webhooks are denied by the webhooks themselves.
        Verdict::Permanent { text } | Verdict::Rejected { text, .. } => {
            let message = Message::error(format!("{title} failed permanently: {}", shown(&text, "permanent error")));
            (Outcome::failure(text), message)
        }
        Verdict::Temporary { text, delay } => temporary(&ahead, &text.unwrap_or_else(|| "None".to_owned()), delay),
        Verdict::Failed { text, representation, trace } => {
            let backoff = handler.policy.backoff.unwrap_or(default_backoff);
            let (outcome, mut message) = arbitrary(&ahead, text, &representation, backoff);
            message.trace = trace;
            (outcome, message)
        }
    }
}

fn shown<'a>(text: &'a str, representation: &'a str) -> &'a str {
    if text.is_empty() { representation } else { text }
}

fn temporary(ahead: &LookAhead<'_>, text: &str, delay: Option<Duration>) -> (Outcome, Message) {
    let title = ahead.handler.title();
    let error = shown(text, "temporary error");
    let limit = match ahead.limit(delay.unwrap_or_default()) {
        Some(Limit::Timeout(timeout)) => format!("will time out after {} seconds", seconds(timeout)),
        Some(Limit::Retries(retries)) => format!("will exceed {retries} retries"),
        None => {
            let next = delay.filter(|delay| !delay.is_zero());
            let next = next
                .map_or("Will retry at once.".to_owned(), |delay| format!("Will retry in {} seconds.", seconds(delay)));
            let message = Message::error(format!("{title} failed temporarily: {error}")).followed_by(next);
            return (Outcome::retry(delay, text), message);
        }
    };
    let text = format!("{title} failed temporarily but {limit}: {error}");
    (Outcome::failure(text.clone()), Message::error(text))
}

fn arbitrary(ahead: &LookAhead<'_>, text: String, representation: &str, backoff: Duration) -> (Outcome, Message) {
    let title = ahead.handler.title();
    let error = shown(&text, representation).to_owned();
    let error_message =
        |what: String| Message::error(format!("{title} failed with an exception and will {what}: {error}"));
    match ahead.handler.error_mode() {
        ErrorMode::Ignored => (Outcome::success(None), error_message("ignore it".to_owned())),
        ErrorMode::Permanent => (Outcome::failure(text), error_message("stop now".to_owned())),
        ErrorMode::Temporary => {
            let limit = match ahead.limit(backoff) {
                Some(Limit::Timeout(timeout)) => format!("time out in {} seconds", seconds(timeout)),
                Some(Limit::Retries(retries)) => format!("exceed {retries} retries"),
                None => {
                    return (
                        Outcome::retry(Some(backoff), text),
                        error_message(format!("try again in {} seconds", seconds(backoff))),
                    );
                }
            };
            let message = error_message(format!("stop now (it would {limit} on the next attempt)"));
            (Outcome::failure(message.text.clone()), message)
        }
    }
}

/// Checks the limits of the next attempt, to fail at once if that attempt would not be made.
struct LookAhead<'a> {
    handler: &'a Handler,
    record: &'a Record,
    now: Timestamp,
}

enum Limit {
    Timeout(Duration),
    Retries(u64),
}

impl LookAhead<'_> {
    fn limit(&self, delay: Duration) -> Option<Limit> {
        let policy = &self.handler.policy;
        let runtime = self.record.runtime(self.now);
        let timeout = policy.timeout.filter(|timeout| runtime.saturating_add(delay) >= *timeout).map(Limit::Timeout);
        timeout.or_else(|| policy.retries.filter(|retries| self.record.retries + 1 >= *retries).map(Limit::Retries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::{On, Policy};

    /// The outcome of a verdict, one attempt and ten seconds after the start.
    fn judged(on: On, policy: Policy, verdict: Verdict) -> (Outcome, String) {
        let handler = Handler { policy, ..Handler::simple("fn", on) };
        let record = Record { retries: 1, ..Record::fresh(Timestamp::UNIX_EPOCH, None) };
        let (outcome, message) =
            judge(&handler, &record, verdict, Timestamp::from_second(10).unwrap(), TEMPORARY_DELAY);
        (outcome, message.text)
    }

    fn failed() -> Verdict {
        Verdict::Failed { text: "boom".into(), representation: "Error('boom')".into(), trace: None }
    }

    #[test]
    fn an_ignored_error_is_a_success_without_a_message() {
        let (outcome, text) = judged(On::Event, Policy::default(), failed());
        assert_eq!(outcome, Outcome { is_final: true, ..Outcome::default() });
        assert_eq!(text, "Handler 'fn' failed with an exception and will ignore it: boom");
    }

    #[test]
    fn the_next_attempt_is_foreseen_by_time_before_retries() {
        let policy = Policy { retries: Some(2), timeout: Some(Duration::from_secs(70)), ..Policy::default() };
        let (outcome, text) = judged(On::Create, policy.clone(), failed());
        assert!(outcome.is_final && text.contains("would time out in 70 seconds"), "{text}");
        let (_, text) = judged(On::Create, Policy { timeout: None, ..policy }, failed());
        assert!(text.contains("would exceed 2 retries"), "{text}");
    }

    #[test]
    fn a_parent_waits_for_its_sub_handlers_whatever_its_limits() {
        let policy = Policy { retries: Some(2), timeout: Some(Duration::from_secs(10)), ..Policy::default() };
        let (outcome, _) = judged(On::Create, policy, Verdict::Unfinished { delay: Duration::ZERO });
        assert_eq!(outcome, Outcome { delay: Some(Duration::ZERO), error: Some("None".into()), ..Outcome::default() });
    }

    #[test]
    fn messages_of_kopf_are_followed_by_the_next_step() {
        let handler = Handler::simple("fn", On::Create);
        let record = Record::fresh(Timestamp::UNIX_EPOCH, None);
        let verdict = Verdict::Temporary { text: Some("not there yet".into()), delay: Some(Duration::from_secs(10)) };
        let (_, message) = judge(&handler, &record, verdict, Timestamp::UNIX_EPOCH, TEMPORARY_DELAY);
        assert_eq!(message.to_string(), "Handler 'fn' failed temporarily: not there yet. Will retry in 10 seconds.");
    }

    #[test]
    fn neither_zero_retries_nor_zero_time_allow_any_call() {
        let check = |policy| {
            check_limits(
                &Handler { policy, ..Handler::simple("fn", On::Create) },
                &Record::fresh(Timestamp::UNIX_EPOCH, None),
                Timestamp::UNIX_EPOCH,
            )
        };
        assert!(check(Policy { retries: Some(0), ..Policy::default() }).is_some());
        assert!(check(Policy { timeout: Some(Duration::ZERO), ..Policy::default() }).is_some());
        assert!(
            check(Policy { retries: Some(1), timeout: Some(Duration::from_secs(1)), ..Policy::default() }).is_none()
        );
    }
}

//! Pending work of the operators, for messages: running calls and scheduled attempts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::timeline::Subject;
use crate::kit::surplus;

/// How many calls are described.
const MAX_LISTED: usize = 5;

/// Pending calls by object and handler.
#[derive(Debug, Default)]
pub(super) struct PendingCalls {
    pending_calls: BTreeMap<(Subject, String), PendingCall>,
}

#[derive(Debug)]
enum PendingCall {
    /// The call is running since a time of the timeline.
    Running { retry: u64, since: Duration },
    /// The next attempt is scheduled, after an error if there was one.
    Scheduled { at: Duration, error: Option<String> },
}

impl PendingCalls {
    pub(super) fn called(&mut self, subject: &Subject, handler: &str, retry: u64, now: Duration) {
        self.pending_calls.insert((subject.clone(), handler.to_owned()), PendingCall::Running { retry, since: now });
    }

    /// Notes that a handler has completed.
    pub(super) fn ended(&mut self, subject: &Subject, handler: &str) {
        self.pending_calls.remove(&(subject.clone(), handler.to_owned()));
    }

    /// Notes a scheduled attempt.
    pub(super) fn scheduled(&mut self, subject: &Subject, handler: &str, at: Duration, error: Option<String>) {
        self.pending_calls.insert((subject.clone(), handler.to_owned()), PendingCall::Scheduled { at, error });
    }

    /// Removes everything about a deleted object.
    pub(super) fn object_deleted(&mut self, subject: &Subject) {
        self.pending_calls.retain(|(of, _), _| of != subject);
    }

    /// Describes the pending calls; `None` if there are none.
    pub(super) fn describe(&self) -> Option<String> {
        let lines = self.pending_calls.iter().map(|((subject, handler), pending)| match pending {
            PendingCall::Running { retry, since } => {
                format!("`{handler}#{retry}` is running for {subject} since {:.3}s", since.as_secs_f64())
            }
            PendingCall::Scheduled { at, error: None } => {
                format!("`{handler}` is scheduled for {subject} at {:.3}s", at.as_secs_f64())
            }
            PendingCall::Scheduled { at, error: Some(error) } => {
                format!("`{handler}` is scheduled again for {subject} at {:.3}s after {error}", at.as_secs_f64())
            }
        });
        let lines: Vec<String> = lines.collect();
        let more = surplus(lines.len(), MAX_LISTED).map(|more| format!("; and {more} more")).unwrap_or_default();
        let shown = lines.iter().take(MAX_LISTED).map(String::as_str).collect::<Vec<_>>().join("; ");
        (!lines.is_empty()).then(|| format!("{shown}{more}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn subject(name: &str) -> Subject {
        Subject {
            group: String::new(),
            kind: "Backup".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn running_and_scheduled_calls_are_described() {
        let mut pending_calls = PendingCalls::default();
        pending_calls.called(&subject("a"), "make", 2, seconds(1.5));
        pending_calls.called(&subject("b"), "make", 0, seconds(1.5));
        pending_calls.scheduled(&subject("b"), "make", seconds(61.5), Some("`no secret`".to_owned()));
        pending_calls.called(&subject("c"), "make", 0, seconds(1.0));
        pending_calls.ended(&subject("c"), "make");
        let expected = "`make#2` is running for Backup default/a since 1.500s; `make` is scheduled again for Backup default/b at 61.500s after `no secret`";
        assert_eq!(pending_calls.describe().as_deref(), Some(expected));
        pending_calls.object_deleted(&subject("a"));
        pending_calls.object_deleted(&subject("b"));
        assert_eq!(pending_calls.describe(), None);
    }

    #[test]
    fn many_calls_are_counted() {
        let mut pending_calls = PendingCalls::default();
        (0..9).for_each(|number| pending_calls.called(&subject(&number.to_string()), "make", 0, Duration::ZERO));
        assert!(pending_calls.describe().unwrap().ends_with("; and 4 more"));
    }
}

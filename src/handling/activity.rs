//! The progress of one run of an activity, in memory: which handlers are due, and how the run ends.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::handler::Handler;
use super::outcome::Outcome;
use super::progress::Record;

/// The handlers of one run of an activity, in the order of declaration.
#[derive(Debug, Clone)]
pub struct ActivityRun {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    handler: Arc<Handler>,
    record: Record,
    last: Option<Outcome>,
}

/// A handler that has failed, with the text of its error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedHandler {
    /// The handler's id.
    pub id: String,
    /// The error.
    pub error: String,
}

impl ActivityRun {
    /// Returns a run in which no handler was called yet.
    pub fn new(handlers: impl IntoIterator<Item = Arc<Handler>>, now: Timestamp) -> Self {
        let entry = |handler| Entry { handler, record: Record::fresh(now, None), last: None };
        Self { entries: handlers.into_iter().map(entry).collect() }
    }

    /// Returns the handlers that may be called now, with their records.
    pub fn due(&self, now: Timestamp) -> Vec<(Arc<Handler>, Record)> {
        let due = self.entries.iter().filter(|entry| entry.record.is_awake(now));
        due.map(|entry| (Arc::clone(&entry.handler), entry.record.clone())).collect()
    }

    /// Records the outcome of an attempt.
    pub fn conclude(&mut self, id: &str, outcome: Outcome, now: Timestamp) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.handler.id == id) {
            entry.record = entry.record.after(&outcome, now);
            entry.last = Some(outcome);
        }
    }

    /// Returns the time until the next attempt; `None` if all handlers have finished.
    pub fn delay(&self, now: Timestamp) -> Option<Duration> {
        self.entries.iter().filter(|entry| !entry.record.is_finished()).map(|entry| entry.record.delay(now)).min()
    }

    /// Returns the first handler whose last attempt has failed, finally or not.
    pub fn first_failure(&self) -> Option<FailedHandler> {
        self.entries.iter().find_map(|entry| {
            let error = entry.last.as_ref()?.error.clone()?;
            Some(FailedHandler { id: entry.handler.id.clone(), error })
        })
    }

    /// Returns the results by handler; handlers without a result are left out.
    pub fn results(self) -> Vec<(String, Value)> {
        let result =
            |entry: Entry| Some((entry.handler.id.clone(), entry.last?.result.filter(|result| !result.is_null())?));
        self.entries.into_iter().filter_map(result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::On;
    use serde_json::json;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn run() -> ActivityRun {
        ActivityRun::new(["a", "b", "c"].map(|id| Arc::new(Handler::simple(id, On::Activity))), at(0))
    }

    fn due(run: &ActivityRun, seconds: i64) -> Vec<String> {
        run.due(at(seconds)).into_iter().map(|(handler, _)| handler.id.clone()).collect()
    }

    #[test]
    fn only_unfinished_handlers_are_called_again_and_each_after_its_own_delay() {
        let mut run = run();
        assert_eq!(due(&run, 0), ["a", "b", "c"]);
        run.conclude("a", Outcome::success(None), at(0));
        run.conclude("b", Outcome::retry(Some(Duration::from_mins(1)), "later"), at(0));
        run.conclude("c", Outcome::retry(Some(Duration::from_secs(10)), "soon"), at(0));
        assert_eq!((due(&run, 0).len(), run.delay(at(0))), (0, Some(Duration::from_secs(10))));
        assert_eq!(due(&run, 10), ["c"]);
        run.conclude("c", Outcome::retry(None, "at once"), at(10));
        assert_eq!((due(&run, 10), run.delay(at(10))), (vec!["c".to_owned()], Some(Duration::ZERO)));
        run.conclude("c", Outcome::success(None), at(10));
        assert_eq!((due(&run, 60), run.delay(at(60))), (vec!["b".to_owned()], Some(Duration::ZERO)));
        assert_eq!(run.due(at(60))[0].1.retries, 1);
        run.conclude("b", Outcome::failure("never"), at(60));
        assert_eq!((due(&run, 99).len(), run.delay(at(60))), (0, None));
    }

    #[test]
    fn the_first_failure_in_order_is_the_cause_and_results_without_a_value_are_left_out() {
        let mut failed = run();
        failed.conclude("c", Outcome::failure("first in time"), at(0));
        failed.conclude("b", Outcome::failure("first in order"), at(0));
        assert_eq!(
            failed.first_failure().map(|failed| (failed.id, failed.error)),
            Some(("b".into(), "first in order".into()))
        );
        let mut run = run();
        run.conclude("a", Outcome::success(Some(json!({"x": 1}))), at(0));
        run.conclude("b", Outcome::success(None), at(0));
        run.conclude("c", Outcome::success(Some(Value::Null)), at(0));
        assert_eq!((run.first_failure(), run.results()), (None, vec![("a".to_owned(), json!({"x": 1}))]));
    }
}

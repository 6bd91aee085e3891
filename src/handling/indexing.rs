//! Indexing of an object at an event: which index handlers are called, and how their outcomes change its entries.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::filter::{Predicates, Unsettled, View};
use super::handler::Handler;
use super::lists::IndexingHandlers;
use super::outcome::Outcome;
use super::progress::Record;
use super::select;

/// The failing index handlers of one object, by id. They are in memory only.
pub(crate) type FailingIndexers = BTreeMap<String, Record>;

/// The index handlers of an object at an event.
#[derive(Debug, Default)]
pub(crate) struct IndexPlan<'a> {
    /// The handlers to call, in the order of their declaration.
    pub call: Vec<&'a Handler>,
    /// The indexes that lose the entries of the object: their handlers do not match, wait for their retry, or have
    /// failed permanently.
    pub remove: BTreeSet<&'a str>,
}

/// Returns the handlers to call at an event, and the indexes that lose the entries of the object.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub(crate) fn plan<'a>(
    handlers: &'a IndexingHandlers,
    failing: &FailingIndexers,
    view: View<'_>,
    predicates: &dyn Predicates,
    now: Timestamp,
) -> Result<IndexPlan<'a>, Unsettled> {
    let mut call = select::indexing(handlers, view, predicates)?;
    call.retain(|handler| failing.get(&handler.id).is_none_or(|record| record.is_awake(now)));
    let called: BTreeSet<&str> = call.iter().map(|handler| handler.id.as_str()).collect();
    let remove = handlers.iter().map(|handler| handler.id.as_str()).filter(|id| !called.contains(id)).collect();
    Ok(IndexPlan { call, remove })
}

/// The effect of an attempt on the entries of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// They stay, even if they are outdated: the function has returned nothing, or its error is ignored.
    Keep,
    /// They are replaced by the returned ones.
    Replace,
    /// They are removed.
    Remove,
}

/// Returns the effect of an attempt, and the record to keep: only failing handlers have one.
pub(crate) fn conclude(
    record: &Record,
    outcome: &Outcome,
    has_entries: bool,
    now: Timestamp,
) -> (Effect, Option<Record>) {
    match (&outcome.error, has_entries) {
        (Some(_), _) => (Effect::Remove, Some(record.after(outcome, now))),
        (None, true) => (Effect::Replace, None),
        (None, false) => (Effect::Keep, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::attempt::{check_limits, judge};
    use crate::handling::{Answers, ErrorMode, Filters, Matcher, On, Policy, Verdict};
    use crate::object::Body;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use std::time::Duration;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Returns the ids to call, and the ids whose entries are removed.
    fn planned(labels: Value, failing: &FailingIndexers, second: i64) -> (Vec<String>, Vec<String>) {
        let filters = Filters { labels: vec![("on".into(), Matcher::Present)], ..Filters::default() };
        let of_label = Handler { filters, ..Handler::simple("by_label", On::Index) };
        let handlers = IndexingHandlers::of([of_label, Handler::simple("all", On::Index)].map(Arc::new));
        let body = Body::from(json!({"metadata": {"labels": labels}}));
        let plan =
            plan(&handlers, failing, View { body: &body, change: None }, &Answers::default(), at(second)).unwrap();
        (
            plan.call.iter().map(|handler| handler.id.clone()).collect(),
            plan.remove.into_iter().map(str::to_owned).collect(),
        )
    }

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn matching_handlers_are_called_in_their_order_and_others_lose_their_entries() {
        assert_eq!(planned(json!({"on": "1"}), &FailingIndexers::new(), 0), (ids(&["by_label", "all"]), ids(&[])));
        assert_eq!(planned(json!({}), &FailingIndexers::new(), 0), (ids(&["all"]), ids(&["by_label"])));
    }

    #[test]
    fn a_handler_that_waits_for_its_retry_is_not_called_and_its_entries_stay_away() {
        let outcome = Outcome::retry(Some(Duration::from_secs(10)), "later");
        let failing = FailingIndexers::from([("all".to_owned(), Record::fresh(at(0), None).after(&outcome, at(0)))]);
        for (second, expected) in [(0, false), (9, false), (10, true), (11, true)] {
            let (call, remove) = planned(json!({"on": "1"}), &failing, second);
            assert_eq!(
                (call.contains(&"all".to_owned()), remove.contains(&"all".to_owned())),
                (expected, !expected),
                "{second}"
            );
        }
        let failed = Record::fresh(at(0), None).after(&Outcome::failure("never"), at(0));
        let failing = FailingIndexers::from([("all".to_owned(), failed)]);
        assert_eq!(planned(json!({"on": "1"}), &failing, 1_000_000), (ids(&["by_label"]), ids(&["all"])));
    }

    /// Makes attempts at some seconds with this verdict. Returns the effect of each, or `-` if there was none.
    fn attempts(policy: Policy, verdict: &Verdict, seconds: &[i64]) -> Vec<String> {
        let handler = Handler { policy, ..Handler::simple("it", On::Index) };
        let mut kept: Option<Record> = None;
        let mut effects = Vec::new();
        for now in seconds.iter().map(|second| at(*second)) {
            if kept.as_ref().is_some_and(|record| !record.is_awake(now)) {
                effects.push("-".to_owned());
                continue;
            }
            let record = kept.clone().unwrap_or_else(|| Record::fresh(now, None));
            let failed = check_limits(&handler, &record, now);
            let (outcome, _) =
                failed.unwrap_or_else(|| judge(&handler, &record, verdict.clone(), now, Duration::from_mins(1)));
            let (effect, record) = conclude(&record, &outcome, false, now);
            let retries = record.as_ref().map_or(String::new(), |record| format!("{}", record.retries));
            effects.push(format!("{effect:?}{retries}"));
            kept = record;
        }
        effects
    }

    /// A case, the policy, the verdicts, the seconds of the events, and their effects.
    type Row<'a> = (&'a str, Policy, &'a Verdict, &'a [i64], &'a [&'a str]);

    #[test]
    fn errors_keep_or_remove_the_entries_and_decide_about_the_next_attempt() {
        let failed = Verdict::Failed { text: "boom".into(), representation: "boom".into(), trace: None };
        let temporary = Verdict::Temporary { text: None, delay: Some(Duration::from_secs(10)) };
        let permanent = Verdict::Permanent { text: "never".into() };
        let mode = |errors| Policy { errors: Some(errors), ..Policy::default() };
        let limited = Policy { retries: Some(2), ..mode(ErrorMode::Temporary) };
        let timed = Policy { timeout: Some(Duration::from_secs(70)), ..mode(ErrorMode::Temporary) };
        let table: [Row<'_>; 7] = [
            ("ignored by default", Policy::default(), &failed, &[0, 1], &["Keep", "Keep"]),
            (
                "temporary",
                Policy::default(),
                &temporary,
                &[0, 9, 10, 19, 20],
                &["Remove1", "-", "Remove2", "-", "Remove3"],
            ),
            ("arbitrary, retried", mode(ErrorMode::Temporary), &failed, &[0, 59, 60], &["Remove1", "-", "Remove2"]),
            ("permanent", Policy::default(), &permanent, &[0, 1_000_000], &["Remove1", "-"]),
            ("arbitrary, permanent", mode(ErrorMode::Permanent), &failed, &[0, 1_000_000], &["Remove1", "-"]),
            ("too many retries", limited, &failed, &[0, 60, 1_000_000], &["Remove1", "Remove2", "-"]),
            ("too late", timed, &failed, &[0, 60, 1_000_000], &["Remove1", "Remove2", "-"]),
        ];
        for (what, policy, verdict, seconds, expected) in table {
            assert_eq!(attempts(policy, verdict, seconds), expected, "{what}");
        }
    }

    #[test]
    fn a_success_replaces_the_entries_and_ends_the_retries() {
        let record = Record::fresh(at(0), None).after(&Outcome::retry(None, "once"), at(0));
        assert_eq!(conclude(&record, &Outcome::success(None), true, at(1)), (Effect::Replace, None));
        assert_eq!(conclude(&record, &Outcome::success(None), false, at(1)), (Effect::Keep, None));
    }
}

//! The conclusion of a cycle: which records are stored and purged, and when the next attempt is due.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::object::equality;

use super::cause::{Cause, Change, Reason};
use super::message::Message;
use super::outcome::Outcome;
use super::plan::Plan;
use super::progress::Record;

/// The decision after the calls of a cycle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// The records to purge before others are stored: they belong to a superseded cause.
    pub superseded: Vec<String>,
    /// The records to store.
    pub store: Vec<(String, Record)>,
    /// The results to deliver into the status.
    pub results: Vec<(String, Value)>,
    /// The ids of the records to purge at the end of the cause.
    pub purge: Vec<String>,
    /// The essence to store as the last handled one.
    pub essence: Option<Value>,
    /// Whether all handlers of the cause have finished.
    pub is_handled: bool,
    /// The times until the next attempts.
    pub delays: Vec<Duration>,
    /// The messages to log.
    pub messages: Vec<Message>,
}

/// The circumstances of a conclusion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances<'a> {
    /// The change.
    pub change: &'a Change,
    /// The ids of all change handlers of the kind.
    pub owned: &'a [&'a str],
    /// Whether the last handled essence is to be written in another form, though nothing has changed.
    pub is_essence_outdated: bool,
    /// Whether timers and daemons of the object are still to be stopped.
    pub awaits_background: bool,
    /// The current time.
    pub now: Timestamp,
}

impl Decision {
    /// Keeps the records of a finished deletion.
    ///
    /// The object stays until its timers and daemons have stopped. Each of its events until then begins a cycle, which
    /// must not call the handlers again; the last of these cycles ends the deletion.
    fn held(self) -> Self {
        Self { purge: Vec::new(), messages: Vec::new(), is_handled: false, ..self }
    }
}

/// Returns the decision for these outcomes, given by the ids of their handlers.
pub(crate) fn conclude(plan: Plan<'_>, outcomes: &[(String, Outcome)], circumstances: &Circumstances<'_>) -> Decision {
    let Circumstances { change, is_essence_outdated, awaits_background, .. } = *circumstances;
    let is_deletion = plan.reason == Reason::Delete;
    let mut decision = conclude_attempts(plan, outcomes, circumstances);
    if decision.is_handled && decision.essence.is_none() && is_essence_outdated {
        decision.essence.clone_from(&change.new);
    }
    if decision.is_handled && is_deletion && awaits_background { decision.held() } else { decision }
}

/// Returns the decision for a cause that has no handlers, such as that of an event without a change.
pub(crate) fn pass_over(cause: &Cause, is_essence_outdated: bool) -> Decision {
    let is_rewritten = is_essence_outdated && cause.reason == Reason::Noop;
    let essence = cause.change.new.clone().filter(|_| is_rewritten);
    Decision { essence, messages: vec![Message::debug(uninteresting(cause.reason))], ..Decision::default() }
}

/// Returns the message about an event that needs no handling.
pub(crate) fn uninteresting(reason: Reason) -> &'static str {
    match reason {
        Reason::Gone => "Deleted, really deleted, and we are notified.",
        Reason::Free => "Deletion, but we are done with it, and we do not care.",
        _ => "Something has changed, but we are not interested (the essence is the same).",
    }
}

fn conclude_attempts(plan: Plan<'_>, outcomes: &[(String, Outcome)], circumstances: &Circumstances<'_>) -> Decision {
    let Circumstances { change, owned, now, .. } = *circumstances;
    let Plan { reason, selected, mut state, superseded, .. } = plan;
    let mut decision = Decision { superseded, ..Decision::default() };
    if selected.is_empty() {
        decision.is_handled = true;
        decision.essence = essence_to_store(change);
        return decision;
    }
    settle(&mut state, outcomes, now);
    decision.results = results(outcomes);
    decision.store = state.changed();
    decision.delays = state.delays(now);
    if state.is_done() {
        let counts = state.counts(|purpose| purpose.is_none_or(|purpose| purpose == reason));
        decision.messages.push(Message::info(format!("{} is processed: {counts}.", reason.capitalised_title())));
        decision.purge = owned.iter().copied().chain(state.all_ids()).map(str::to_owned).collect();
        decision.is_handled = true;
        decision.essence = essence_to_store(change);
    }
    decision
}

/// Handlers may share an id, and with it a record: the last outcome counts.
fn latest(outcomes: &[(String, Outcome)]) -> impl Iterator<Item = &(String, Outcome)> {
    let is_latest =
        |(index, (id, _)): &(usize, &(String, Outcome))| outcomes[index + 1..].iter().all(|(later, _)| later != id);
    outcomes.iter().enumerate().filter(is_latest).map(|(_, outcome)| outcome)
}

/// Stores the outcomes in the records.
pub(super) fn settle(state: &mut super::progress::State, outcomes: &[(String, Outcome)], now: Timestamp) {
    for (id, outcome) in latest(outcomes) {
        if let Some(entry) = state.get_mut(id) {
            entry.record = entry.record.after(outcome, now);
        }
    }
}

/// Returns the results of the handlers that succeeded.
pub(super) fn results(outcomes: &[(String, Outcome)]) -> Vec<(String, Value)> {
    let delivered = |(id, outcome): &(String, Outcome)| {
        let result = outcome.result.clone().filter(|result| outcome.error.is_none() && !result.is_null())?;
        Some((id.clone(), result))
    };
    latest(outcomes).filter_map(delivered).collect()
}

/// The essence is stored even if the only difference is a null against an absent key.
fn essence_to_store(change: &Change) -> Option<Value> {
    let new = change.new.as_ref()?;
    let is_stored = change.old.as_ref().is_some_and(|old| equality::equal(old, new));
    (!is_stored).then(|| new.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::progress::{BrokenRecord, Records};
    use crate::handling::{Answers, Cause, ChangingHandlers, Handler, Lifecycle, On, Reason, plan};
    use crate::object::Body;
    use serde_json::json;
    use std::sync::Arc;

    /// The stored records, by ids.
    #[derive(Default)]
    struct Stored(Vec<(&'static str, Record)>);

    impl Records for Stored {
        fn record(&self, id: &str) -> Result<Option<Record>, BrokenRecord> {
            Ok(self.0.iter().find(|(stored, _)| *stored == id).map(|(_, record)| record.clone()))
        }
    }

    fn success(result: Option<Value>) -> Outcome {
        Outcome { is_final: true, result, ..Outcome::default() }
    }

    fn failure() -> Outcome {
        Outcome { is_final: true, error: Some("no".into()), ..Outcome::default() }
    }

    fn retry(seconds: u64) -> Outcome {
        Outcome { delay: Some(Duration::from_secs(seconds)), error: Some("wait".into()), ..Outcome::default() }
    }

    fn record(purpose: Reason) -> Record {
        Record::fresh(Timestamp::UNIX_EPOCH, Some(purpose))
    }

    /// Returns the decision for a creation with all handlers selected and these outcomes.
    fn concluded(handlers: &[Handler], stored: Stored, outcomes: &[(&str, Outcome)]) -> Decision {
        concluded_for(Reason::Create, handlers, stored, outcomes, false)
    }

    fn concluded_for(
        reason: Reason,
        handlers: &[Handler],
        stored: Stored,
        outcomes: &[(&str, Outcome)],
        awaits_background: bool,
    ) -> Decision {
        let body = Body::from(json!({"spec": {}}));
        let change = Change::between(None, Some(json!({"spec": {}})));
        let cause = Cause { reason, initial: false, change: change.into() };
        let handlers = ChangingHandlers::of(handlers.iter().cloned().map(Arc::new));
        let (records, lifecycle, now) = (&stored as &dyn Records, Lifecycle::AllAtOnce, Timestamp::UNIX_EPOCH);
        let situation = plan::Situation { handlers: &handlers, body: &body, cause: &cause, records, lifecycle, now };
        let plan = plan::plan(&situation, &Answers::default(), &mut |_| 0).unwrap();
        let outcomes: Vec<_> = outcomes.iter().map(|(id, outcome)| ((*id).to_owned(), outcome.clone())).collect();
        let owned: Vec<&str> = handlers.iter().map(|handler| handler.id.as_str()).collect();
        let change = &cause.change;
        conclude(
            plan,
            &outcomes,
            &Circumstances { change, owned: &owned, is_essence_outdated: false, awaits_background, now },
        )
    }

    fn creating(ids: &[&str]) -> Vec<Handler> {
        ids.iter().map(|id| Handler::simple(id, On::Create)).collect()
    }

    #[test]
    fn the_first_cycle_stores_the_records_of_all_who_take_part() {
        let decision = concluded(&creating(&["a", "b"]), Stored::default(), &[("a", success(None))]);
        let stored: Vec<&str> = decision.store.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(stored, ["a", "b"]);
        assert!(!decision.is_handled && decision.essence.is_none());
        assert_eq!(decision.delays, [Duration::ZERO]);
    }

    #[test]
    fn records_that_have_not_changed_are_not_stored_again() {
        let sleeping = Record {
            delayed: Some(crate::handling::Moment::after(Timestamp::UNIX_EPOCH, Duration::from_secs(30))),
            ..record(Reason::Create)
        };
        let decision = concluded(&creating(&["a"]), Stored(vec![("a", sleeping)]), &[]);
        assert!(decision.store.is_empty());
        assert_eq!(decision.delays, [Duration::from_secs(30)]);
    }

    #[test]
    fn failures_finish_a_cause_and_its_essence_is_stored() {
        let decision =
            concluded(&creating(&["a", "b"]), Stored::default(), &[("a", failure()), ("b", success(Some(json!(0))))]);
        assert!(decision.is_handled);
        assert_eq!(decision.essence, Some(json!({"spec": {}})));
        assert_eq!(decision.results, [("b".to_owned(), json!(0))]);
        assert_eq!(decision.messages[0].text, "Creation is processed: 1 succeeded; 1 failed.");
    }

    #[test]
    fn a_cause_without_handlers_is_handled_and_its_essence_is_stored() {
        let decision = concluded(&[Handler::simple("u", On::Update)], Stored::default(), &[]);
        assert!(decision.is_handled && decision.essence.is_some() && decision.messages.is_empty());
    }

    #[test]
    fn of_two_handlers_with_one_id_the_last_outcome_counts_once() {
        let handlers = [
            Handler::simple("a", On::Create),
            Handler { function: "other".into(), ..Handler::simple("a", On::Create) },
        ];
        let decision = concluded(&handlers, Stored::default(), &[("a", success(Some(json!(1)))), ("a", retry(5))]);
        let [(_, stored)] = &decision.store[..] else { panic!("there is one record") };
        assert_eq!(
            (stored.retries, stored.success, decision.delays.as_slice()),
            (1, false, &[Duration::from_secs(5)][..])
        );
        assert!(decision.results.is_empty());
    }

    #[test]
    fn a_null_against_an_absent_key_is_no_difference_but_another_essence() {
        let change = |old: Value, new: Value| Change::between(Some(old), Some(new));
        assert_eq!(essence_to_store(&change(json!({"a": 1}), json!({"a": true}))), None);
        let nulled = change(json!({}), json!({"a": null}));
        assert!(nulled.diff.is_empty() && essence_to_store(&nulled).is_some());
    }

    #[test]
    fn everything_below_a_handler_is_purged_with_it() {
        let parent = Record { subrefs: vec!["a/s".into(), "a/s/t".into()], ..record(Reason::Create) };
        let decision = concluded(&creating(&["a"]), Stored(vec![("a", parent)]), &[("a", success(None))]);
        assert!(["a", "a/s", "a/s/t"].iter().all(|id| decision.purge.iter().any(|purged| purged == id)));
    }

    #[test]
    fn a_deletion_keeps_its_records_while_the_background_stops_and_ends_with_them() {
        let deleting = [Handler::simple("a", On::Delete { optional: false })];
        let outcomes = [("a", success(Some(json!(1))))];
        let first = concluded_for(Reason::Delete, &deleting, Stored::default(), &outcomes, true);
        assert!(first.purge.is_empty() && first.messages.is_empty() && !first.is_handled);
        assert_eq!(first.results, [("a".to_owned(), json!(1))]);
        let [(_, kept)] = &first.store[..] else { panic!("the record is stored") };
        let stored = || Stored(vec![("a", kept.clone())]);
        assert!(
            !concluded_for(Reason::Delete, &deleting, stored(), &[], true).is_handled,
            "the background still stops"
        );
        let last = concluded_for(Reason::Delete, &deleting, stored(), &[], false);
        assert!(last.is_handled && last.results.is_empty() && last.purge.contains(&"a".to_owned()));
    }

    #[test]
    fn only_deletions_wait_for_the_background() {
        let decision =
            concluded_for(Reason::Create, &creating(&["a"]), Stored::default(), &[("a", success(None))], true);
        assert!(decision.is_handled && decision.purge.contains(&"a".to_owned()));
    }

    #[test]
    fn an_essence_of_an_outdated_form_is_stored_anew_though_nothing_has_changed() {
        let essence = json!({"data": {}});
        let unchanged = Arc::new(Change::between(Some(essence.clone()), Some(essence.clone())));
        let passed = |reason, is_outdated| {
            let decision = pass_over(&Cause { reason, initial: false, change: Arc::clone(&unchanged) }, is_outdated);
            assert!(!decision.is_handled && decision.messages.len() == 1);
            decision.essence
        };
        assert_eq!(passed(Reason::Noop, true), Some(essence.clone()));
        assert_eq!(passed(Reason::Noop, false), None);
        assert_eq!(passed(Reason::Free, true), None, "the object is going");
        let plan = Plan {
            reason: Reason::Resume,
            selected: Vec::new(),
            run: Vec::new(),
            state: crate::handling::progress::State::default(),
            superseded: Vec::new(),
            messages: Vec::new(),
        };
        let now = Timestamp::UNIX_EPOCH;
        let circumstances =
            Circumstances { change: &unchanged, owned: &[], is_essence_outdated: true, awaits_background: false, now };
        assert_eq!(conclude(plan, &[], &circumstances).essence, Some(essence));
    }

    #[test]
    fn nulls_are_no_results_and_neither_is_what_failed_with_one() {
        let failed = Outcome { result: Some(json!(1)), ..failure() };
        let outcomes = [("a", success(Some(Value::Null))), ("b", failed), ("c", success(Some(json!(false))))];
        let decision = concluded(&creating(&["a", "b", "c"]), Stored::default(), &outcomes);
        assert_eq!(decision.results, [("c".to_owned(), json!(false))]);
    }
}

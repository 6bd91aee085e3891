//! Fills the indexes: calls the index handlers for each event of an object, and changes its entries as
//! `handling::indexing` decides.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::effects::{Environment, IndexEvent, Scripts};
use super::error::Error;
use super::events::{EngineEvent, EventStream};
use super::readiness::Readiness;
use super::settling::settled;
use crate::handling::index::Member;
use crate::handling::indexing::{self, Effect, FailingIndexers};
use crate::handling::{Handler, Message, Outcome, Record, Verdict, attempt, filter};
use crate::object::{EventKind, Patch};
use crate::script::{Call, IndexEntries, Indexes, Subject};

/// The indexes of one operator, and the retry state of their handlers, which is in memory only.
#[derive(Debug, Default)]
pub struct Indexer {
    indexes: Arc<Indexes>,
    readiness: Arc<Readiness>,
    /// The failing handlers of each object, by unique id. Most objects have none.
    failing: Mutex<HashMap<Box<str>, FailingIndexers>>,
}

impl Indexer {
    /// Returns the indexer of these indexes.
    pub fn new(indexes: Arc<Indexes>) -> Self {
        Self { indexes, ..Self::default() }
    }

    /// Returns the indexer of the next revision, which has the same readiness. The retry state of handlers stays,
    /// except for those of changed indexes.
    pub fn next(&self, indexes: Arc<Indexes>, is_changed: impl Fn(&str) -> bool) -> Self {
        let mut failing = self.failing.lock().clone();
        for records in failing.values_mut() {
            records.retain(|id, _| !is_changed(id));
        }
        failing.retain(|_, records| !records.is_empty());
        Self { indexes, readiness: Arc::clone(&self.readiness), failing: Mutex::new(failing) }
    }

    /// Returns the readiness of the indexes.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.readiness
    }

    /// Removes an object that is deleted, or no longer watched.
    pub fn remove(&self, uid: &str) {
        self.failing.lock().remove(uid);
        self.indexes.remove(uid);
    }

    /// Indexes an object at an event: calls its handlers one after another, and then changes its entries in all
    /// indexes. As in kopf, no handler of the event sees the entries of another one.
    ///
    /// # Errors
    /// If a filter fails, or a call is cancelled. Then no entries are changed.
    pub async fn index<W: Scripts + Environment>(
        &self,
        effects: &W,
        events: &EventStream,
        event: IndexEvent<'_>,
    ) -> Result<(), Error> {
        if event.event_kind == EventKind::Deleted {
            self.remove(Member::of(&event.object.body).uid());
            return Ok(());
        }
        let changes = self.evaluate(effects, events, event).await?;
        self.apply(changes);
        Ok(())
    }

    /// Calls the handlers of an object, and returns the changes of its entries.
    ///
    /// # Errors
    /// If a filter fails, or a call is cancelled.
    pub async fn evaluate<W: Scripts + Environment>(
        &self,
        effects: &W,
        events: &EventStream,
        event: IndexEvent<'_>,
    ) -> Result<EntryChanges, Error> {
        let member = Member::of(&event.object.body);
        let failing = self.failing.lock().get(member.uid()).cloned().unwrap_or_default();
        let (view, now) = (filter::View { body: &event.object.body, change: None }, effects.clock().now());
        let subject = || Subject::Index { object: event.object.clone() };
        let plan =
            settled(effects, subject, |answers| indexing::plan(event.handlers, &failing, view, answers, now)).await?;
        let mut replaced = Vec::with_capacity(plan.call.len());
        for handler in plan.call {
            let record =
                failing.get(&handler.id).cloned().unwrap_or_else(|| Record::fresh(effects.clock().now(), None));
            let (outcome, message, entries) = attempt(effects, events, handler, &record, &event).await?;
            log_tersely(events, message);
            let (effect, record) = indexing::conclude(&record, &outcome, entries.is_some(), effects.clock().now());
            replaced.push((handler.id.clone(), effect, entries.unwrap_or_default(), record));
        }
        Ok(EntryChanges { member, removed: plan.remove.into_iter().map(str::to_owned).collect(), replaced })
    }

    /// Changes the entries of an object.
    pub fn apply(&self, changes: EntryChanges) {
        let EntryChanges { member, removed, replaced } = changes;
        for index in removed.iter().filter_map(|name| self.indexes.get(name)) {
            index.remove(member.uid());
        }
        for (id, effect, entries, record) in replaced {
            self.change(&id, &member, effect, entries);
            self.keep_record(member.uid(), &id, record);
        }
    }

    fn change(&self, name: &str, member: &Member, effect: Effect, entries: IndexEntries) {
        let Some(index) = self.indexes.get(name) else { return };
        match effect {
            Effect::Keep => {}
            Effect::Replace => index.replace(member, entries),
            Effect::Remove => index.remove(member.uid()),
        }
    }

    fn keep_record(&self, uid: &str, id: &str, record: Option<Record>) {
        let mut failing = self.failing.lock();
        match record {
            Some(record) => drop(failing.entry(uid.into()).or_default().insert(id.to_owned(), record)),
            None => {
                if let Some(records) = failing.get_mut(uid) {
                    records.remove(id);
                    if records.is_empty() {
                        failing.remove(uid);
                    }
                }
            }
        }
    }
}

/// The changes of the entries of one object.
#[derive(Debug)]
pub struct EntryChanges {
    member: Member,
    /// The indexes that lose its entries.
    removed: Vec<String>,
    /// The results of the called handlers, by id.
    replaced: Vec<(String, Effect, IndexEntries, Option<Record>)>,
}

/// Makes one attempt of a handler, unless its limits are reached.
async fn attempt<W: Scripts + Environment>(
    effects: &W,
    events: &EventStream,
    handler: &Handler,
    record: &Record,
    event: &IndexEvent<'_>,
) -> Result<(Outcome, Message, Option<IndexEntries>), Error> {
    let judged = |outcome: &Outcome, is_ignored, duration| {
        events.emit(&EngineEvent::IndexFunctionJudged {
            handler,
            retry: record.retries,
            outcome,
            is_ignored,
            duration,
        });
    };
    if let Some((outcome, message)) = attempt::check_limits(handler, record, effects.clock().now()) {
        judged(&outcome, false, None);
        return Ok((outcome, message, None));
    }
    let began = Instant::now();
    let returned = effects.call(handler, call(handler, record, event)).await;
    if returned.is_cancelled {
        return Err(Error::Cancelled);
    }
    let has_returned = matches!(returned.verdict, Verdict::Returned(_));
    let (outcome, message) =
        attempt::judge(handler, record, returned.verdict, effects.clock().now(), event.default_backoff);
    let is_ignored = !has_returned && outcome.is_final && outcome.error.is_none();
    judged(&outcome, is_ignored, Some(began.elapsed()));
    Ok((outcome, message, returned.entries))
}

fn call(handler: &Handler, record: &Record, event: &IndexEvent<'_>) -> Call {
    Call {
        target: handler.target,
        subject: Subject::Index { object: event.object.clone() },
        // Index functions have no patch.
        patch: Patch::default(),
        retry: record.retries,
        started: record.started.at,
        param: handler.param.clone(),
        subhandling: None,
        stop: event.stop.clone(),
        span: event.span.clone(),
    }
}

fn log_tersely(events: &EventStream, message: Message) {
    if let Some(level) = message.level.terse() {
        events.log_message(&Message { level, ..message });
    }
}

//! Describes the state of a running operator, for `/status`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::engines::effects::Effects;
use crate::engines::leading::{LeadingView, Seen};
use crate::engines::metrics::MetricsSink;
use crate::engines::pause::Pause;
use crate::engines::status::{
    HandlerStatus, KindStatus, LeadingStatus, OperatorStatus, QueueStatus, RolledBack, SideStatus, StatusSource,
    TrialStatus,
};
use crate::engines::tally::Tally;
use crate::handling::Handler;
use crate::handling::trial::SideCounts;
use crate::manifest::Operator;
use crate::manifest::operator::Moment;
use crate::telemetry::OperatorMetrics;

use super::kind::Kind;
use super::revision::Revisions;

/// The kinds that an operator serves.
pub(crate) type ServedKinds<W> = Vec<Arc<Kind<W>>>;

/// The state of a running operator.
pub(super) struct LiveStatus<W: Effects> {
    /// The name of the operator.
    pub name: String,
    /// Its revisions.
    pub revisions: Arc<Revisions<W>>,
    /// The kinds that it serves.
    pub kinds: watch::Receiver<ServedKinds<W>>,
    /// Its functions.
    pub functions: Mutex<Functions>,
    /// Its running and waiting calls.
    pub calls: Arc<MetricsSink>,
    /// Its counted calls.
    pub metrics: OperatorMetrics,
    /// Its pause.
    pub pause: Pause,
    /// The revision on trial.
    pub trial: Mutex<Option<TrialView>>,
    /// The revision that was rolled back last.
    pub rolled_back: Mutex<Option<RolledBack>>,
    /// The election of the leader, if there is one.
    pub leading: Option<LeadingView>,
}

/// A trial, as it is shown.
pub(super) struct TrialView {
    /// The part of the status that does not change.
    pub status: TrialStatus,
    /// The counts of the revision on trial, and of the one in service.
    pub tallies: [Arc<Tally>; 2],
}

impl TrialView {
    fn now(&self) -> TrialStatus {
        let [new, old] = self.tallies.each_ref().map(|tally| {
            let SideCounts { calls, errors, writes, written, .. } = tally.counts();
            SideStatus { calls, errors, writes, written }
        });
        TrialStatus { new, old, ..self.status.clone() }
    }
}

/// Returns a time as it is shown.
pub(super) fn shown(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The ids of an operator's functions, with the names of their causes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Functions(BTreeMap<String, Vec<&'static str>>);

impl Functions {
    /// Returns the functions that an operator declares.
    pub(super) fn of(operator: &Operator) -> Self {
        let mut functions = Self::default();
        for Handler { id, on, .. } in operator.indexes.iter().chain(operator.object_handlers()) {
            functions.add(id, on.word());
        }
        for webhook in &operator.webhooks {
            functions.add(&webhook.handler.id, webhook.word());
        }
        for handler in &operator.conversions {
            functions.add(&handler.id, handler.on.word());
        }
        for activity in &operator.activities {
            functions.add(&activity.handler.id, moment(activity.moment));
        }
        for schedule in &operator.schedules {
            functions.add(&schedule.handler.id, schedule.handler.on.word());
        }
        functions
    }

    fn add(&mut self, id: &str, word: &'static str) {
        let words = self.0.entry(id.to_owned()).or_default();
        if !words.contains(&word) {
            words.push(word);
        }
    }
}

fn moment(moment: Moment) -> &'static str {
    match moment {
        Moment::Startup => "startup",
        Moment::Cleanup => "cleanup",
        Moment::Login => "login",
        Moment::Probe => "probe",
    }
}

impl<W: Effects + 'static> StatusSource for LiveStatus<W> {
    fn status(&self) -> OperatorStatus {
        let revision = self.revisions.newest();
        let kinds: Vec<KindStatus> = self.kinds.borrow().iter().map(|kind| kind.status()).collect();
        let running = self.calls.running();
        let queues = QueueStatus {
            pending: kinds.iter().map(|kind| kind.queued).sum(),
            workers: kinds.iter().map(|kind| kind.workers).sum(),
            running: running.values().sum(),
            waiting: self.calls.waiting(),
        };
        OperatorStatus {
            name: self.name.clone(),
            revision: revision.digest.to_string(),
            since: shown(revision.since),
            paused: self.pause.causes(),
            is_last_load_successful: self.metrics.is_loaded(),
            kinds,
            handlers: self.functions.lock().0.iter().map(|(id, on)| self.handler(id, on, &running)).collect(),
            queues,
            trial: self.trial.lock().as_ref().map(TrialView::now),
            rolled_back: self.rolled_back.lock().clone(),
            leading: self.leading.as_ref().map(leading),
        }
    }
}

fn leading(view: &LeadingView) -> LeadingStatus {
    let Seen { lease, identity, role, holder, transitions } = view.get();
    LeadingStatus { lease, identity, role: role.as_str().to_owned(), holder: holder.unwrap_or_default(), transitions }
}

impl<W: Effects> LiveStatus<W> {
    fn handler(&self, id: &str, on: &[&str], running: &BTreeMap<String, usize>) -> HandlerStatus {
        let [succeeded, retried, failed] = self.metrics.attempts(id);
        HandlerStatus {
            id: id.to_owned(),
            on: on.iter().map(|word| (*word).to_owned()).collect(),
            calls: succeeded + retried + failed,
            retried,
            failed,
            running: running.get(id).copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::On;
    use crate::manifest::operator::Activity;

    #[test]
    fn a_function_is_listed_once_with_all_that_it_is_called_for() {
        let handlers = [On::Create, On::Update, On::Create].map(|on| Handler::simple("both", on)).to_vec();
        let activities = vec![Activity { handler: Handler::simple("alive", On::Activity), moment: Moment::Probe }];
        let indexes = vec![Handler::simple("by_name", On::Index)];
        let functions = Functions::of(&Operator { handlers, indexes, activities, ..Operator::default() });
        let expected = [("alive", vec!["probe"]), ("both", vec!["create", "update"]), ("by_name", vec!["index"])];
        assert_eq!(functions.0, expected.into_iter().map(|(id, on)| (id.to_owned(), on)).collect());
    }
}

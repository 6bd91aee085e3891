//! The metrics of scripts, indexes, and the loaded revision.

use std::sync::Arc;

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::{Metrics, OperatorMetrics, labels, table, unix_seconds};

/// The metrics of the calls of one handler.
#[derive(Debug, Clone)]
pub struct ScriptMetrics {
    operator: OperatorMetrics,
    handler: Arc<str>,
    operations: Counter,
}

/// The scripts of one revision among those in memory, until it is dropped.
#[derive(Debug)]
pub struct LoadedRevision(Gauge);

/// The metrics of one index.
#[derive(Debug, Clone)]
pub struct IndexMetrics {
    objects: Gauge,
    keys: Gauge,
}

impl Metrics {
    /// Adds a function that updates gauges before they are read, until it returns false: for what would cost more to
    /// count at each change.
    pub fn refreshed_by(&self, refresh: impl Fn() -> bool + Send + Sync + 'static) {
        let mut refreshes = self.0.refreshes.lock();
        // If the metrics are not read, nothing else drops unused entries.
        refreshes.retain(|refresh| refresh());
        refreshes.push(Box::new(refresh));
    }

    /// Registers the memory of all scripts of the process with the metrics, which read it when they are collected: the
    /// bytes that they hold, and the calls that wait for memory.
    pub fn measure_scripts(&self, memory: impl Fn() -> (usize, usize) + Send + Sync + 'static) {
        let families = &self.0;
        let held = families.script_memory.get_or_create_owned(&labels(table::SCRIPT_MEMORY, []));
        let waiting = families.scripts_waiting.get_or_create_owned(&labels(table::SCRIPTS_WAITING, []));
        self.refreshed_by(move || {
            let (bytes, calls) = memory();
            held.set(bytes as i64);
            waiting.set(calls as i64);
            true
        });
    }

    pub(super) fn refresh(&self) {
        self.0.refreshes.lock().retain(|refresh| refresh());
    }
}

impl OperatorMetrics {
    /// Returns the metrics of the calls of a handler.
    pub fn script(&self, handler: &str) -> ScriptMetrics {
        let operations =
            self.metrics.0.operations.get_or_create_owned(&labels(table::OPERATIONS, [&self.operator, handler]));
        ScriptMetrics { operator: self.clone(), handler: Arc::from(handler), operations }
    }

    /// Returns the metrics of an index.
    pub fn index(&self, index: &str) -> IndexMetrics {
        let families = &self.metrics.0;
        let both = |description| labels(description, [&*self.operator, index]);
        IndexMetrics {
            objects: families.index_objects.get_or_create_owned(&both(table::INDEX_OBJECTS)),
            keys: families.index_keys.get_or_create_owned(&both(table::INDEX_KEYS)),
        }
    }

    /// Records that a revision of the operator was loaded.
    pub fn loaded(&self, revision: &str, at: Timestamp) {
        let families = &self.metrics.0;
        let earlier = families.revisions.lock().insert(self.operator.to_string(), revision.to_owned());
        if let Some(earlier) = earlier.filter(|earlier| earlier != revision) {
            families.info.remove(&labels(table::INFO, [&self.operator, &earlier]));
        }
        families.info.get_or_create(&labels(table::INFO, [&self.operator, revision])).set(1);
        families.loaded_at.get_or_create(&labels(table::LOADED_AT, [&*self.operator])).set(unix_seconds(at));
        self.set_loaded(true);
    }

    /// Records that the last load has failed.
    pub fn load_failed(&self) {
        self.set_loaded(false);
    }

    /// Counts the scripts of a revision, until the result is dropped.
    pub fn revision_in_memory(&self) -> LoadedRevision {
        let gauge = self.metrics.0.in_memory.get_or_create_owned(&labels(table::IN_MEMORY, [&*self.operator]));
        gauge.inc();
        LoadedRevision(gauge)
    }

    /// Records that a revision is on trial.
    pub fn trial_began(&self, revision: &str) {
        self.metrics.0.trial.get_or_create(&labels(table::TRIAL, [&self.operator, revision])).set(1);
    }

    /// Counts the end of a trial.
    pub fn trial_ended(&self, revision: &str, outcome: &str) {
        let families = &self.metrics.0;
        families.trial.remove(&labels(table::TRIAL, [&self.operator, revision]));
        families.trials.get_or_create(&labels(table::TRIALS, [&self.operator, outcome])).inc();
    }

    /// Tells whether the last load has succeeded.
    pub fn is_loaded(&self) -> bool {
        self.metrics.0.loaded.get(&labels(table::LOADED, [&*self.operator])).is_some_and(|loaded| loaded.get() == 1)
    }

    fn set_loaded(&self, is_loaded: bool) {
        self.metrics.0.loaded.get_or_create(&labels(table::LOADED, [&*self.operator])).set(i64::from(is_loaded));
    }
}

impl ScriptMetrics {
    /// Counts the operations of a call.
    pub fn ran(&self, operations: u64) {
        self.operations.inc_by(operations);
    }

    /// Counts a call that has used up a budget.
    pub fn overran(&self, limit: &str) {
        let labels = labels(table::OVERRUNS, [&*self.operator.operator, &self.handler, limit]);
        self.operator.metrics.0.overruns.get_or_create(&labels).inc();
    }
}

impl Drop for LoadedRevision {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl IndexMetrics {
    /// Sets the size of the index.
    pub fn set(&self, objects: usize, keys: usize) {
        self.objects.set(objects as i64);
        self.keys.set(keys as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_are_updated_when_they_are_read_as_long_as_they_are_of_use() {
        let metrics = Metrics::default();
        let index = metrics.operator("demo").index("by_team");
        let source = Arc::new(parking_lot::Mutex::new(0));
        let weak = Arc::downgrade(&source);
        metrics.refreshed_by(move || {
            let Some(source) = weak.upgrade() else { return false };
            *source.lock() += 1;
            index.set(*source.lock(), 7);
            true
        });
        let line = |count: usize| format!("kopfd_index_objects{{operator=\"demo\",index=\"by_team\"}} {count}\n");
        assert!(metrics.text().contains(&line(1)));
        assert!(metrics.text().contains(&line(2)));
        drop(source);
        assert!(metrics.text().contains(&line(2)));
        assert!(metrics.0.refreshes.lock().is_empty());
    }

    #[test]
    fn a_trial_is_shown_until_its_end_which_is_counted() {
        let metrics = Metrics::default();
        let operator = metrics.operator("demo");
        operator.trial_began("one");
        assert!(metrics.text().contains("kopfd_trial_info{operator=\"demo\",revision=\"one\"} 1\n"));
        operator.trial_ended("one", "errors");
        let text = metrics.text();
        assert!(!text.contains("kopfd_trial_info{"));
        assert!(text.contains("kopfd_trials_total{operator=\"demo\",outcome=\"errors\"} 1\n"));
    }

    #[test]
    fn a_new_revision_replaces_the_one_before() {
        let metrics = Metrics::default();
        let operator = metrics.operator("demo");
        operator.loaded("one", Timestamp::from_second(60).unwrap());
        metrics.operator("other").loaded("one", Timestamp::from_second(60).unwrap());
        assert!(operator.is_loaded());
        operator.load_failed();
        assert!(!operator.is_loaded());
        assert!(metrics.text().contains("kopfd_config_last_load_successful{operator=\"demo\"} 0\n"));
        operator.loaded("two", Timestamp::from_second(70).unwrap());
        let text = metrics.text();
        let infos: Vec<&str> = text.lines().filter(|line| line.starts_with("kopfd_operator_info{")).collect();
        assert_eq!(infos.len(), 2);
        assert!(infos.contains(&"kopfd_operator_info{operator=\"demo\",revision=\"two\"} 1"));
        assert!(text.contains("kopfd_config_last_load_successful{operator=\"demo\"} 1\n"));
        assert!(text.contains("kopfd_config_last_load_timestamp_seconds{operator=\"demo\"} 70.0\n"));
    }
}

//! Changes of objects in the log: changes by other clients, and writes of the operator and its scripts.
//!
//! It remembers the logged objects, to log later changes as differences.

mod last_seen;
mod reviews;
mod successes;

use std::collections::HashMap;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tracing::{debug, info};

use crate::handling::{Handler, On};
use crate::kit::surplus;
use crate::object::diff::{self, Item};
use crate::object::secret::{self, Values};
use crate::object::{Body, EventKind, Patch, Scope, Transform, path};

use super::changes::{ANNOTATIONS, Form, lines};
use crate::engines::events::{EngineEvent, EventSink};
use last_seen::{LastSeen, collect, leaves};
use successes::Successes;

/// Lines shown of one change, unless debug lines are shown.
const MAX_LINES: usize = 12;

/// The annotation of `kubectl apply`: the applied object as text.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Logs the changes of objects.
#[derive(Debug)]
pub struct ChangeLog {
    /// The prefix of the operator's own annotations, without the slash.
    prefix: RwLock<String>,
    /// The logged objects, by unique id.
    last_seen: Mutex<HashMap<String, LastSeen>>,
    successes: Successes,
}

/// The write of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// An object was created, replaced, applied or patched.
    Stored,
    /// An object was deleted.
    Deleted,
}

impl ChangeLog {
    /// Returns the change log of an operator with this annotation prefix.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: RwLock::new(prefix.to_owned()), last_seen: Mutex::default(), successes: Successes::default() }
    }

    /// Replaces the annotation prefix: a startup function may change it.
    pub fn set_prefix(&self, prefix: &str) {
        prefix.clone_into(&mut self.prefix.write());
    }

    /// Logs an event, with the changes of other clients. The operator's own writes were logged before.
    pub fn report_event(&self, event_kind: EventKind, body: &Body) {
        let uid = body.uid().unwrap_or_default().to_owned();
        let before = {
            let mut last_seen = self.last_seen.lock();
            let before = last_seen.remove(&uid);
            if event_kind != EventKind::Deleted {
                last_seen.insert(uid, LastSeen::after(before.as_ref(), body));
            }
            before
        };
        let kind = kind(body);
        let version = body.resource_version().unwrap_or("unknown");
        let what = match (event_kind, &before) {
            (EventKind::Deleted, _) => "is gone",
            (EventKind::Listed | EventKind::Revisited | EventKind::Touched, None) => "was there",
            (EventKind::Touched, Some(_)) => "is touched",
            (_, None) => "was added",
            (_, Some(before)) if body.is_deleting() && !before.body.is_deleting() => "is to be deleted",
            (_, Some(_)) => "has changed",
        };
        let reported = before.map(|before| self.foreign(&before, body)).unwrap_or_default();
        if what == "has changed" && reported.is_empty() {
            debug!(target: "kopfd::objects", "┌ The {kind} shows what was written, at version {version}.");
            return;
        }
        info!(target: "kopfd::objects", "┌ The {kind} {what}, at version {version}.");
        log_lines(&reported, "│ ");
    }

    /// Logs a patch as a difference.
    pub fn report_patch(&self, body: &Body, patch: &Patch) {
        log_lines(&differences(body, patch, &format!("{}/", self.prefix.read()), Values::of(body).as_ref()), "│ ");
        if let Some(state) = self.last_seen.lock().get_mut(body.uid().unwrap_or_default()) {
            state.patch_sent(patch);
        }
    }

    /// Records the version that includes a patch.
    pub fn patched(&self, body: &Body, patch: &Patch, version: Option<&str>) {
        if let Some(state) = self.last_seen.lock().get_mut(body.uid().unwrap_or_default()) {
            state.patch_stored(patch, version);
        }
    }

    /// Logs the write of a script to any object.
    pub fn report_write(&self, write: Write, object: &str, before: Option<&Value>, after: Option<&Value>) {
        let mut reported = Vec::new();
        let line = match (write, before, after) {
            (Write::Stored, None, _) => format!("+ {object} created"),
            (Write::Stored, Some(before), after) => {
                let items = diff::diff(before, after.unwrap_or(&Value::Null), Scope::Full);
                let parts: Vec<Item> = items.iter().flat_map(leaves).collect();
                reported = self.lines(&parts, Values::of_both(Some(before), after).as_ref());
                if reported.is_empty() { format!("= {object} unchanged") } else { format!("~ {object} changed") }
            }
            (Write::Deleted, None, _) => format!("= {object} was not there"),
            (Write::Deleted, Some(_), None) => format!("- {object} deleted"),
            (Write::Deleted, Some(_), Some(_)) => format!("- {object} is to be deleted"),
        };
        log_lines(&[line], "│ ");
        log_lines(&reported, "│   ");
        if let (Some(before), Some(after)) = (before, after) {
            self.note(before, after);
        }
    }

    /// Logs a failed write of a script.
    pub fn report_failure(&self, object: &str, error: &str) {
        info!(target: "kopfd::objects", "│ ! {object}: {error}");
    }

    /// Includes the write of a script in the known state of the object, so that its event is not logged as a change.
    fn note(&self, before: &Value, after: &Value) {
        let text = |pointer: &str| after.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if let Some(state) = self.last_seen.lock().get_mut(text("/metadata/uid")) {
            let items = diff::diff(before, after, Scope::Full);
            state.written(items.iter().flat_map(leaves), text("/metadata/resourceVersion"));
        }
    }

    /// Returns the changes of other clients.
    fn foreign(&self, before: &LastSeen, body: &Body) -> Vec<String> {
        let mut found = Vec::new();
        for item in diff::diff(&before.body, body, Scope::Full) {
            let parts = leaves(&item);
            if !parts.iter().any(|leaf| before.has_written(leaf) || is_noise(leaf)) {
                found.push(item);
                continue;
            }
            found.extend(parts.into_iter().filter(|leaf| !before.has_written(leaf) && !is_noise(leaf)));
        }
        self.lines(&found, Values::of_both(Some(&before.body), Some(body)).as_ref())
    }

    /// Returns differences with complete values: they are cut where the terminal width is known. Those of a Secret are
    /// hidden.
    fn lines(&self, items: &[Item], values: Option<&Values>) -> Vec<String> {
        let prefix = self.prefix.read();
        let form = Form { prefixes: std::slice::from_ref(&*prefix), print: Value::to_string };
        lines(&secret::shown_items(values, items), form)
    }
}

impl EventSink for ChangeLog {
    fn accept(&self, event: &EngineEvent<'_>) {
        match event {
            EngineEvent::ObjectSeen { body, event_kind, .. } => self.report_event(*event_kind, body),
            EngineEvent::PatchPrepared { body, patch } => self.report_patch(body, patch),
            EngineEvent::PatchSent { body, patch, version } => self.patched(body, patch, *version),
            EngineEvent::Reviewed { body, request, judged, .. } => {
                info!(target: "kopfd::objects", "{}", reviews::line(body, request, judged));
            }
            EngineEvent::Converted { handler, wanted, objects, failure } => {
                info!(target: "kopfd::objects", "{}", reviews::conversion(handler, wanted, *objects, *failure));
            }
            EngineEvent::TaskStarted { handler, .. } | EngineEvent::ScheduleStarted { handler, .. } => {
                report_task(handler, "starts");
            }
            EngineEvent::TaskEnded { body, handler, is_requested } => {
                let what = if *is_requested { "has stopped" } else { "has ended on its own" };
                match self.successes.take(body, handler) {
                    0 | 1 => report_task(handler, what),
                    successes => report_task(handler, &format!("{what} after {successes} successful calls")),
                }
            }
            EngineEvent::AttemptJudged { body, handler, outcome, .. } if handler.on == On::Timer => {
                report_successes(handler, self.successes.count(Some(body), handler, outcome));
            }
            EngineEvent::ScheduleJudged { handler, outcome: Some(outcome), .. } => {
                report_successes(handler, self.successes.count(None, handler, outcome));
            }
            _ => {}
        }
    }

    fn wants_states(&self) -> bool {
        true
    }

    fn folds_repetitions(&self) -> bool {
        true
    }
}

fn report_successes(handler: &Handler, successes: Option<u64>) {
    if let Some(successes) = successes {
        report_task(handler, &format!("has succeeded {successes} times"));
    }
}

fn report_task(handler: &Handler, what: &str) {
    info!(target: "kopfd::objects", "│ {} {what}.", handler.title());
}

/// The fields of a deletion are logged in words.
fn is_noise(leaf: &Item) -> bool {
    let keys: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
    matches!(
        keys.as_slice(),
        ["metadata", "deletionTimestamp" | "deletionGracePeriodSeconds"] | ["metadata", "annotations", LAST_APPLIED]
    )
}

fn kind(body: &Body) -> &str {
    body.get("kind").and_then(Value::as_str).unwrap_or("object")
}

/// Logs the lines of a change. The operator's own annotations are debug lines.
fn log_lines(reported: &[String], before: &str) {
    let (own, others): (Vec<&String>, Vec<&String>) = reported.iter().partition(|line| line.starts_with(ANNOTATIONS));
    let most = if tracing::enabled!(target: "kopfd::objects", tracing::Level::DEBUG) { usize::MAX } else { MAX_LINES };
    for line in others.iter().take(most) {
        info!(target: "kopfd::objects", "{before}{line}");
    }
    if let Some(more) = surplus(others.len(), most) {
        info!(target: "kopfd::objects", "{before}… and {more} more");
    }
    for line in own {
        debug!(target: "kopfd::objects", "{before}{line}");
    }
}

/// Returns the lines for the changes of a patch, without the values of a Secret.
fn differences(body: &Body, patch: &Patch, prefix: &str, values: Option<&Values>) -> Vec<String> {
    let mut leaves = Vec::new();
    collect(&patch.merge, &mut Vec::new(), &mut leaves);
    let is_own = |keys: &[String]| keys.len() == 3 && keys[1] == "annotations" && keys[2].starts_with(prefix);
    let mut lines: Vec<String> = leaves
        .iter()
        .filter(|(keys, _)| !is_own(keys))
        .filter_map(|(keys, new)| difference(body, keys, new, values))
        .collect();
    let (purged, kept): (Vec<_>, Vec<_>) =
        leaves.iter().filter(|(keys, _)| is_own(keys)).partition(|(_, value)| value.is_null());
    let names = |word: &str, leaves: &[&(Vec<String>, Value)]| {
        let names: Vec<&str> =
            leaves.iter().filter_map(|(keys, _)| keys[2].split_once('/').map(|(_, name)| name)).collect();
        (!names.is_empty()).then(|| format!("{word} {}", names.join(", ")))
    };
    let reported: Vec<String> = [names("kept", &kept), names("purged", &purged)].into_iter().flatten().collect();
    if !reported.is_empty() {
        lines.push(format!("{ANNOTATIONS}{}", reported.join("; ")));
    }
    lines.extend(patch.transforms.iter().map(|transform| match transform {
        Transform::AddFinalizer(name) => format!("+ metadata.finalizers: {name}"),
        Transform::RemoveFinalizer(name) => format!("- metadata.finalizers: {name}"),
        Transform::SetCondition(condition) => {
            let status = if condition.is_true { "True" } else { "False" };
            format!("~ status.conditions[{}]: {status}", condition.name)
        }
        Transform::Function(_) => "~ a function over the whole object".to_owned(),
    }));
    lines
}

fn difference(body: &Body, keys: &[String], new: &Value, values: Option<&Values>) -> Option<String> {
    let old = path::resolve(body, keys).filter(|old| !old.is_null());
    let place = keys.join(".");
    let shown =
        |value: &Value| values.map_or_else(|| value.to_string(), |values| values.shown_at(keys, value).to_string());
    match (old, new) {
        (None, Value::Null) => None,
        (None, new) => Some(format!("+ {place}: {}", shown(new))),
        (Some(old), Value::Null) => Some(format!("- {place}: {}", shown(old))),
        (Some(old), new) if old == new => None,
        (Some(old), new) => Some(format!("~ {place}: {} -> {}", shown(old), shown(new))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::Outcome;
    use crate::telemetry;
    use serde_json::json;
    use tracing::Level;

    /// Returns the lines logged by a function.
    fn reported(act: impl FnOnce(&ChangeLog)) -> Vec<String> {
        let (messages, _guard) = telemetry::collect_messages(Level::INFO);
        act(&ChangeLog::new("kopf.zalando.org"));
        std::mem::take(&mut *messages.lock())
    }

    fn body(version: &str, rest: Value) -> Body {
        let mut object = json!({"kind": "Thing", "metadata": {"name": "a", "uid": "u", "resourceVersion": version}});
        for (key, value) in rest.as_object().unwrap() {
            match value.as_object().filter(|_| key == "metadata") {
                Some(metadata) => metadata.iter().for_each(|(key, value)| object["metadata"][key] = value.clone()),
                None => object[key] = value.clone(),
            }
        }
        Body::from(object)
    }

    #[test]
    fn starts_and_ends_of_tasks_are_reported() {
        let (handler, body) = (&Handler::simple("repair", crate::handling::On::Timer), &body("1", json!({})));
        let lines = reported(|log| {
            log.accept(&EngineEvent::TaskStarted { body, handler, schedule: None, initial_delay: None });
            log.accept(&EngineEvent::TaskEnded { body, handler, is_requested: true });
            log.accept(&EngineEvent::TaskEnded { body, handler, is_requested: false });
        });
        assert_eq!(
            lines,
            ["│ Timer 'repair' starts.", "│ Timer 'repair' has stopped.", "│ Timer 'repair' has ended on its own."]
        );
    }

    #[test]
    fn successes_of_timers_and_schedules_are_counted() {
        let body = &body("1", json!({}));
        let success = &Outcome { is_final: true, ..Outcome::default() };
        let failure = &Outcome { error: Some("x".to_owned()), ..Outcome::default() };
        let (timer, schedule) = (&Handler::simple("repair", On::Timer), &Handler::simple("report", On::Schedule));
        let lines = reported(|log| {
            log.accept(&EngineEvent::TaskStarted { body, handler: timer, schedule: None, initial_delay: None });
            log.accept(&EngineEvent::ScheduleStarted { handler: schedule, is_synced: true });
            for retry in 0..105 {
                log.accept(&EngineEvent::AttemptJudged { body, handler: timer, retry, outcome: success });
                log.accept(&EngineEvent::AttemptJudged { body, handler: timer, retry, outcome: failure });
            }
            for _ in 0..10 {
                let scheduled_at = jiff::Timestamp::UNIX_EPOCH;
                log.accept(&EngineEvent::ScheduleJudged {
                    handler: schedule,
                    scheduled_at,
                    retry: 0,
                    outcome: Some(success),
                });
            }
            log.accept(&EngineEvent::TaskEnded { body, handler: timer, is_requested: true });
        });
        let expected = [
            "│ Timer 'repair' starts.",
            "│ Schedule 'report' starts.",
            "│ Timer 'repair' has succeeded 10 times.",
            "│ Timer 'repair' has succeeded 100 times.",
            "│ Schedule 'report' has succeeded 10 times.",
            "│ Timer 'repair' has stopped after 105 successful calls.",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_patch_is_reported_with_its_changes() {
        let body = Body::from(
            json!({"metadata": {"annotations": {"kopf.zalando.org/f": "{}"}}, "status": {"old": 1, "same": 2}}),
        );
        let mut patch = Patch::default();
        patch.set(&["status", "old"], json!(3)).unwrap();
        patch.set(&["status", "same"], json!(2)).unwrap();
        patch.set(&["status", "new", "deep"], json!("x")).unwrap();
        patch.set(&["metadata", "annotations", "kopf.zalando.org/f"], Value::Null).unwrap();
        patch.set(&["metadata", "annotations", "kopf.zalando.org/last-handled-configuration"], json!("{}")).unwrap();
        let lines = differences(&body, &patch, "kopf.zalando.org/", None);
        let expected = [
            "+ status.new.deep: \"x\"",
            "~ status.old: 1 -> 3",
            "= annotations: kept last-handled-configuration; purged f",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_foreign_change_is_reported_with_its_differences() {
        let lines = reported(|log| {
            log.report_event(EventKind::Listed, &body("1", json!({"spec": {"size": 1}})));
            log.report_event(
                EventKind::Modified,
                &body("2", json!({"spec": {"size": 2}, "metadata": {"managedFields": []}})),
            );
            log.report_event(
                EventKind::Modified,
                &body("3", json!({"spec": {"size": 2}, "metadata": {"deletionTimestamp": "now"}})),
            );
        });
        let expected =
            ["┌ The Thing was there, at version 1.", "┌ The Thing has changed, at version 2.", "│ ~ spec.size: 1 -> 2"];
        assert_eq!(lines[..3], expected);
        assert_eq!(lines[3..], ["┌ The Thing is to be deleted, at version 3."]);
    }

    #[test]
    fn own_writes_are_not_reported_again() {
        let first = body("1", json!({"spec": {"size": 1}}));
        let mut patch = Patch::default();
        patch.set(&["status", "create", "port"], json!(80)).unwrap();
        let lines = reported(|log| {
            log.report_event(EventKind::Listed, &first);
            log.report_patch(&first, &patch);
            log.patched(&first, &patch, Some("3"));
            // The first of two requests, then the second, with a change by another client in between.
            log.report_event(EventKind::Modified, &body("2", json!({"spec": {"size": 1}})));
            let status = json!({"create": {"port": 80}, "other": 1});
            log.report_event(EventKind::Modified, &body("4", json!({"spec": {"size": 1}, "status": status})));
            log.report_event(EventKind::Modified, &body("5", json!({"spec": {"size": 1}})));
        });
        let expected = [
            "┌ The Thing was there, at version 1.",
            "│ + status.create.port: 80",
            "┌ The Thing has changed, at version 4.",
            "│ + status.other: 1",
            "┌ The Thing has changed, at version 5.",
            "│ - status: {\"create\":{\"port\":80},\"other\":1}",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn writes_of_scripts_are_reported_in_a_line_each() {
        let (before, after) = (json!({"data": {"a": 1}}), json!({"data": {"a": 2}}));
        let lines = reported(|log| {
            log.report_write(Write::Stored, "Pod x", None, Some(&after));
            log.report_write(Write::Stored, "Pod x", Some(&before), Some(&after));
            log.report_write(Write::Stored, "Pod x", Some(&after), Some(&after));
            log.report_write(Write::Deleted, "Pod x", Some(&after), None);
            log.report_failure("Pod x", "HTTP 403");
        });
        let expected = [
            "│ + Pod x created",
            "│ ~ Pod x changed",
            "│   ~ data.a: 1 -> 2",
            "│ = Pod x unchanged",
            "│ - Pod x deleted",
            "│ ! Pod x: HTTP 403",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_change_by_others_is_told_whatever_the_operator_has_written_elsewhere() {
        let first = body("1", json!({"spec": {"size": 1}, "data": {"own": 1, "other": 2}}));
        let mut patch = Patch::default();
        patch.set(&["status", "ready"], json!(true)).unwrap();
        patch.set(&["data", "own"], Value::Null).unwrap();
        patch.transforms.push(Transform::AddFinalizer("a/f".to_owned()));
        let events = |log: &ChangeLog| {
            log.report_event(EventKind::Added, &first);
            log.report_patch(&first, &patch);
            log.patched(&first, &patch, Some("3"));
            // Others have written the same value elsewhere, and have removed the rest of a mapping.
            log.report_event(EventKind::Modified, &body("2", json!({"spec": {"size": 1, "ready": true}})));
            let own = |version: &str, finalizers: Value| {
                let rest = json!({"metadata": {"finalizers": finalizers}, "spec": {"size": 1, "ready": true}, "status": {"ready": true}});
                body(version, rest)
            };
            log.report_event(EventKind::Modified, &own("3", json!(["a/f"])));
            // All that was written is seen: what comes later is of others.
            log.report_event(EventKind::Modified, &own("4", json!(["a/f", "b/f"])));
        };
        let expected = [
            "┌ The Thing was added, at version 1.",
            "│ - data.own: 1",
            "│ + status.ready: true",
            "│ + metadata.finalizers: a/f",
            "┌ The Thing has changed, at version 2.",
            "│ - data.other: 2",
            "│ + spec.ready: true",
            "┌ The Thing has changed, at version 4.",
            "│ ~ metadata.finalizers: [\"a/f\"] -> [\"a/f\",\"b/f\"]",
        ];
        assert_eq!(reported(events), expected);
    }

    #[test]
    fn patches_that_are_sent_at_the_same_time_are_not_told_as_changes_by_others() {
        let first = body("1", json!({}));
        let of_cycle = Patch { transforms: vec![Transform::AddFinalizer("a/f".to_owned())], ..Patch::default() };
        let mut of_timer = Patch::default();
        of_timer.set(&["status", "count"], json!(1)).unwrap();
        let lines = reported(|log| {
            log.report_event(EventKind::Added, &first);
            log.report_patch(&first, &of_cycle);
            log.report_patch(&first, &of_timer);
            log.patched(&first, &of_cycle, Some("2"));
            log.report_event(EventKind::Modified, &body("2", json!({"metadata": {"finalizers": ["a/f"]}})));
            log.patched(&first, &of_timer, Some("3"));
            log.report_event(
                EventKind::Modified,
                &body("3", json!({"metadata": {"finalizers": ["a/f"]}, "status": {"count": 1}})),
            );
            log.report_event(
                EventKind::Modified,
                &body("4", json!({"metadata": {"finalizers": ["a/f"]}, "status": {"count": 2}})),
            );
        });
        let expected = [
            "┌ The Thing was added, at version 1.",
            "│ + metadata.finalizers: a/f",
            "│ + status.count: 1",
            "┌ The Thing has changed, at version 4.",
            "│ ~ status.count: 1 -> 2",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn patches_of_empty_mappings_and_of_whole_stanzas_are_told() {
        let body = Body::from(json!({"metadata": {"annotations": {"a": "1"}}, "data": 1}));
        let mut patch = Patch::default();
        patch.set(&["metadata", "labels", "kopf.zalando.org/own"], json!("x")).unwrap();
        patch.set(&["metadata", "annotations"], Value::Null).unwrap();
        patch.set(&["spec", "selector"], json!({})).unwrap();
        patch.set(&["data"], Value::Null).unwrap();
        let mut lines = differences(&body, &patch, "kopf.zalando.org/", None);
        lines.sort();
        let expected = [
            "+ metadata.labels.kopf.zalando.org/own: \"x\"",
            "+ spec.selector: {}",
            "- data: 1",
            "- metadata.annotations: {\"a\":\"1\"}",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn values_of_secrets_are_not_told() {
        let secret = |version: &str, data: Value| {
            let annotations = json!({"kopf.zalando.org/last-handled-configuration": json!({"data": data}).to_string()});
            let metadata = json!({"name": "a", "uid": "u", "resourceVersion": version, "annotations": annotations});
            Body::from(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}))
        };
        let first = secret("1", json!({"password": "aHVudGVyMg=="}));
        let second = secret("2", json!({"password": "Y29ycmVjdC1ob3JzZQ==", "pin": "MTIz"}));
        let mut patch = Patch::default();
        patch.set(&["data", "password"], json!("YmF0dGVyeS1zdGFwbGU=")).unwrap();
        patch.set(&["stringData"], json!({"pin": "1234"})).unwrap();
        patch.set(&["metadata", "annotations", "note"], json!("was hunter2")).unwrap();
        let lines = reported(|log| {
            log.report_event(EventKind::Added, &first);
            log.report_patch(&first, &patch);
            log.report_event(EventKind::Modified, &second);
            log.report_write(Write::Stored, "Secret a", Some(&first), Some(&second));
        });
        let expected = [
            "┌ The Secret was added, at version 1.",
            "│ ~ data.password: \"***\" -> \"***\"",
            "│ + metadata.annotations.note: \"was ***\"",
            "│ + stringData.pin: \"***\"",
            "┌ The Secret has changed, at version 2.",
            "│ + data.pin: \"***\"",
            "│ ~ data.password: \"***\" -> \"***\"",
            "│ ~ Secret a changed",
            "│   + data.pin: \"***\"",
            "│   ~ data.password: \"***\" -> \"***\"",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_log_follows_objects_and_what_is_sent_for_them() {
        let first = body("1", json!({}));
        let mut patch = Patch::default();
        patch.set(&["status"], json!(1)).unwrap();
        let lines = reported(|log| {
            assert!(log.wants_states());
            let seen = |log: &ChangeLog, body: &Body| {
                log.accept(&EngineEvent::ObjectSeen { body, event_kind: EventKind::Modified, consistency_in: None });
            };
            seen(log, &first);
            log.accept(&EngineEvent::PatchPrepared { body: &first, patch: &patch });
            log.accept(&EngineEvent::PatchSent { body: &first, patch: &patch, version: Some("3") });
            seen(log, &body("2", json!({})));
            seen(log, &body("3", json!({"status": 1})));
        });
        assert_eq!(lines, ["┌ The Thing was added, at version 1.", "│ + status: 1"]);
    }
}

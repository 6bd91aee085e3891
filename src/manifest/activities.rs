//! Activities and schedules: functions that are called for the operator, not for an object.

use std::collections::HashMap;

use crate::handling::{ErrorMode, On, Policy};
use crate::script::BindingKind;

use super::binding::{BINDING, Concern, Ids, Request, misplaced};
use super::builder::{OperatorBuilder, POLICY, Script};
use super::diagnostic::Severity;
use super::operator::{Activity, CronSchedule, Moment, Schedule};
use super::reader::Item;

const MOMENTS: [(&str, Moment, BindingKind, &str); 4] = [
    ("startup", Moment::Startup, BindingKind::Startup, "a startup activity"),
    ("cleanup", Moment::Cleanup, BindingKind::Activity, "a cleanup activity"),
    ("login", Moment::Login, BindingKind::Login, "a login activity"),
    ("probe", Moment::Probe, BindingKind::Activity, "a probe"),
];

impl OperatorBuilder<'_> {
    /// Reads `spec.activities`.
    pub(super) fn activities(&mut self, item: &Item<'_>) {
        let reader = self.reader;
        let Some(fields) = reader.fields(item, "the activities", &MOMENTS.map(|(key, ..)| key)) else { return };
        for (key, on, kind, noun) in MOMENTS {
            let mut ids = Ids::default();
            for item in reader.list_of(&fields, key) {
                self.activity(&item, on, (kind, noun), &mut ids);
            }
        }
    }

    fn activity(&mut self, item: &Item<'_>, on: Moment, what: (BindingKind, &'static str), ids: &mut Ids) {
        let (kind, noun) = what;
        let known = [&BINDING[..], &POLICY].concat();
        let Some(fields) = self.reader.fields_but(item, noun, &known, |key| misplaced(noun, key)) else { return };
        let script = self.script(&fields, &Script::None);
        let mut policy = self.policy(&fields, &Policy::default());
        if on == Moment::Probe {
            // A request for the probes cannot wait for a repetition.
            policy.errors.get_or_insert(ErrorMode::Permanent);
        }
        let request = Request { kind, script: &script, suffix: None, deadline: None };
        let Some(bound) = self.bind(&fields, &request) else { return };
        self.register(ids, &bound, noun);
        let handler = bound.handler(On::Activity, Concern::default(), policy);
        self.operator.activities.push(Activity { handler, moment: on });
    }

    /// Reads `spec.schedules`.
    pub(super) fn schedules(&mut self, item: &Item<'_>) {
        let mut ids = HashMap::new();
        for item in &self.reader.list(item) {
            self.schedule(item, &mut ids);
        }
    }

    fn schedule(&mut self, item: &Item<'_>, ids: &mut HashMap<String, usize>) {
        let reader = self.reader;
        let known = [&BINDING[..], &POLICY, &["cron", "timezone", "missed"]].concat();
        let Some(fields) = reader.fields_but(item, "a schedule", &known, |key| misplaced("a schedule", key)) else {
            return;
        };
        let script = self.script(&fields, &Script::None);
        reader.required(&fields, "cron", "add such as `cron: \"*/5 * * * *\"`");
        let ticks = self.ticks(&fields);
        let missed = fields.get("missed").and_then(|item| reader.word(&item, &["skip", "once"]));
        let policy = self.policy(&fields, &Policy::default());
        let request = Request { kind: BindingKind::Schedule, script: &script, suffix: None, deadline: None };
        let Some(bound) = self.bind(&fields, &request) else { return };
        if let Some(line) = ids.insert(bound.id.clone(), bound.spot.line) {
            let message = format!("the id `{}` is taken by another schedule in line {line}", bound.id);
            let hint = "give one of them an `id` of its own".to_owned();
            reader.report(Severity::Error, bound.spot, &bound.path, message, Some(hint));
        }
        let Some(ticks) = ticks else { return };
        let schedule = CronSchedule { ticks, catches_up: missed == Some("once") };
        let handler = bound.handler(On::Schedule, Concern::default(), policy);
        self.operator.schedules.push(Schedule { handler, schedule });
    }
}

//! The data of the loaded revision that a new one is compared with, and the changes that need a restart.

use std::collections::BTreeMap;

use serde_json::Value;
use tracing::warn;

use crate::manifest::fingerprint::{self, Fingerprint};
use crate::manifest::{Operator, Settings, settings_tree};
use crate::script::Program;

use super::error::ReloadError;
use super::startup_settings::StartupSettings;

/// The settings that are read only at the start, by section and key.
const FIXED: [(&str, &str); 16] = [
    ("queueing", "workerLimit"),
    ("queueing", "exitTimeout"),
    ("scanning", "disabled"),
    ("admission", "server"),
    ("admission", "managed"),
    ("admission", "derivedConditions"),
    ("hooks", "server"),
    ("peering", "name"),
    ("peering", "stealth"),
    ("peering", "priority"),
    ("peering", "lifetime"),
    ("peering", "mandatory"),
    ("peering", "standalone"),
    ("peering", "clusterwide"),
    ("networking", "connectTimeout"),
    ("networking", "trustEnv"),
];

/// The data of the loaded revision that a new one is compared with.
pub(crate) struct Loaded {
    /// The digest of its files.
    pub revision: String,
    /// The number of the last prepared revision.
    last_number: u32,
    /// The digests of the handlers of each index.
    pub(super) indexes: IndexPrints,
    startup: StartupSettings,
    /// The settings that need a restart, as they were logged.
    told: BTreeMap<(&'static str, &'static str), Value>,
}

impl Loaded {
    /// Describes the first revision. `settings` are those after the startup.
    pub(crate) fn first(operator: &Operator, program: &Program, settings: &Settings) -> Self {
        let startup = StartupSettings::of(&operator.settings, settings);
        let (revision, indexes) = (operator.revision(program), indexes_of(operator, program));
        Self { revision, last_number: 0, indexes, startup, told: BTreeMap::new() }
    }

    /// Returns the number of the next prepared revision.
    pub(super) fn next_number(&mut self) -> u32 {
        self.last_number += 1;
        self.last_number
    }

    /// Records that a revision has taken effect. Returns the digest of the one before.
    pub(super) fn replace(&mut self, revision: &str, indexes: &IndexPrints) -> String {
        self.indexes.clone_from(indexes);
        std::mem::replace(&mut self.revision, revision.to_owned())
    }

    /// Returns the settings of a new revision: those of its manifest, with the values that the startup functions have
    /// assigned.
    ///
    /// # Errors
    /// The mistakes, if they do not fit together.
    pub(crate) fn settings_of(&self, operator: &Operator) -> Result<Settings, ReloadError> {
        self.startup.laid_over(&operator.settings).map_err(ReloadError::Settings)
    }

    /// Warns of changes that need a restart, each once.
    pub(crate) fn warn_of_fixed_settings(&mut self, operator: &str, settings: &Settings) {
        let tree = settings_tree::to_value(settings);
        for (section, key) in FIXED {
            let (value, started_with) = (&tree[section][key], &self.startup.at_start[section][key]);
            if self.told.get(&(section, key)).unwrap_or(started_with) == value {
                continue;
            }
            self.told.insert((section, key), value.clone());
            if value != started_with {
                // The settings of a server may have passwords.
                let is_open = !value.is_object() && !started_with.is_object();
                let change =
                    if is_open { format!("change {started_with} to {value}") } else { "use the new one".to_owned() };
                warn!(
                    target: "kopfd::reload",
                    "The setting {section}.{key} of operator '{operator}' is read only at the start. Restart it to {change}."
                );
            }
        }
    }
}

/// The digests of the handlers of each index.
pub(super) type IndexPrints = BTreeMap<String, Vec<Fingerprint>>;

/// Returns the digests of an operator.
pub(super) fn indexes_of(operator: &Operator, program: &Program) -> IndexPrints {
    let mut indexes = IndexPrints::new();
    for handler in &operator.indexes {
        indexes.entry(handler.id.clone()).or_default().push(fingerprint::of_handler(handler, program));
    }
    indexes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_follow_are_told_once_for_each_change() {
        let (messages, _guard) = crate::telemetry::collect_messages(tracing::Level::WARN);
        let operator = Operator::default();
        let mut loaded = Loaded::first(&operator, &Program::default(), &Settings::default());
        let mut limited = Settings::default();
        limited.queueing.worker_limit = Some(3);
        for settings in [&Settings::default(), &limited, &limited, &Settings::default(), &limited] {
            loaded.warn_of_fixed_settings("demo", settings);
        }
        let line = "The setting queueing.workerLimit of operator 'demo' is read only at the start. Restart it to change null to 3.";
        assert_eq!(*messages.lock(), [line, line]);
    }

    #[test]
    fn the_passwords_of_a_changed_server_are_not_told() {
        let (messages, _guard) = crate::telemetry::collect_messages(tracing::Level::WARN);
        let mut loaded = Loaded::first(&Operator::default(), &Program::default(), &Settings::default());
        let text = "{apiVersion: kopfd.dev/v1, kind: Operator, metadata: {name: x}, spec: {settings: {admission: {server: {kind: ngrok, token: secret}}}}}";
        let operators = crate::manifest::read("operator.yaml", text).operators;
        loaded.warn_of_fixed_settings("demo", &operators[0].settings);
        let line =
            "The setting admission.server of operator 'demo' is read only at the start. Restart it to use the new one.";
        assert_eq!(*messages.lock(), [line]);
    }
}

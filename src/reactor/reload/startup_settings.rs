//! The settings that the startup functions have assigned, laid over those of a new manifest.

use serde_json::Value;

use crate::manifest::{Settings, settings_tree};

/// The settings that the startup functions have assigned.
pub(super) struct StartupSettings {
    /// All settings after the startup.
    pub at_start: Value,
    /// The assigned ones, by section and key.
    assigned: Vec<(String, String, Value)>,
}

impl StartupSettings {
    /// Compares the declared settings with those after the startup.
    pub(super) fn of(declared: &Settings, after: &Settings) -> Self {
        let (declared, at_start) = (settings_tree::to_value(declared), settings_tree::to_value(after));
        let sections = at_start.as_object().into_iter().flatten();
        let all = sections.flat_map(|(section, keys)| {
            keys.as_object().into_iter().flatten().map(move |(key, value)| (section, key, value))
        });
        let assigned = all.filter(|(section, key, value)| declared[section.as_str()][key.as_str()] != **value);
        let assigned = assigned.map(|(section, key, value)| (section.clone(), key.clone(), value.clone())).collect();
        Self { at_start, assigned }
    }

    /// Returns declared settings with the values that the startup functions have assigned.
    ///
    /// # Errors
    /// The mistakes, if they do not fit together.
    pub(super) fn laid_over(&self, declared: &Settings) -> Result<Settings, Vec<String>> {
        if self.assigned.is_empty() {
            return Ok(declared.clone());
        }
        let mut tree = settings_tree::to_value(declared);
        for (section, key, value) in &self.assigned {
            tree[section.as_str()][key.as_str()] = value.clone();
        }
        settings_tree::from_value(&tree)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_the_startup_has_assigned_is_laid_over_the_settings_of_a_new_manifest() {
        let mut after = Settings::default();
        after.posting.level = 40;
        after.execution.default_backoff = Duration::from_secs(7);
        let startup = StartupSettings::of(&Settings::default(), &after);
        let mut declared = Settings::default();
        declared.posting.enabled = false;
        declared.execution.default_backoff = Duration::from_secs(9);
        let laid_over = startup.laid_over(&declared).unwrap();
        let mut expected = declared;
        expected.posting.level = 40;
        expected.execution.default_backoff = Duration::from_secs(7);
        assert_eq!(laid_over, expected);
    }
}

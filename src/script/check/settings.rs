//! The names of all settings in scripts.

/// The groups of settings, with their keys.
pub(crate) const GROUPS: &[(&str, &[&str])] = &[
    ("admission", &["derivedConditions", "managed", "server"]),
    ("background", &["cancellationPolling", "instantExitTimeout", "instantExitZeroTimeCycles"]),
    ("execution", &["defaultBackoff", "lifecycle"]),
    ("hooks", &["server"]),
    ("networking", &["connectTimeout", "enforceRetryAfter", "errorBackoffs", "requestTimeout", "requests", "trustEnv"]),
    ("peering", &["clusterwide", "lifetime", "mandatory", "name", "priority", "standalone", "stealth"]),
    ("persistence", &["consistencyTimeout", "diffbaseStorage", "finalizer", "progressStorage", "secrets"]),
    (
        "posting",
        &["aggregated", "enabled", "eventNamePrefix", "level", "loggers", "reportingComponent", "reportingInstance"],
    ),
    ("process", &["ultimateExitingTimeout"]),
    ("queueing", &["breaker", "errorDelays", "exitTimeout", "idleTimeout", "workerLimit"]),
    ("reload", &["canary"]),
    ("scanning", &["disabled"]),
    ("scripts", &["memory"]),
    ("watching", &["clientTimeout", "connectTimeout", "inactivityTimeout", "reconnectBackoff", "serverTimeout"]),
];

/// A key that no setting has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// The index of the unknown key.
    pub depth: usize,
    /// The known keys at its position.
    pub known: Vec<&'static str>,
}

/// Checks that a path from `settings` is that of a setting or a group. The contents of settings are not checked.
///
/// # Errors
/// If a key of the path is unknown.
pub(crate) fn check(keys: &[&str]) -> Result<(), Unknown> {
    let Some(group) = keys.first() else { return Ok(()) };
    let Some((_, names)) = GROUPS.iter().find(|(name, _)| name == group) else {
        return Err(Unknown { depth: 0, known: GROUPS.iter().map(|(name, _)| *name).collect() });
    };
    match keys.get(1) {
        Some(name) if !names.contains(name) => Err(Unknown { depth: 1, known: names.to_vec() }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_are_known() {
        assert_eq!(check(&["posting", "level"]), Ok(()));
        assert_eq!(check(&["persistence", "progressStorage", "prefix"]), Ok(()));
        assert_eq!(check(&["posting", "levle"]).unwrap_err().depth, 1);
        assert_eq!(check(&["pasting"]).unwrap_err().depth, 0);
    }
}

//! The check of keys of config maps and secrets.

/// Returns the errors of a key of a ConfigMap or Secret.
pub(super) fn data_key_mistakes(key: &str) -> Vec<&'static str> {
    let rules = [
        (key.len() > 253, "must be no more than 253 characters"),
        (
            key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)),
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
        ),
        (key == ".", "must not be '.'"),
        (key.starts_with(".."), "must not start with '..'"),
    ];
    rules.into_iter().filter(|(is_broken, _)| *is_broken).map(|(_, why)| why).collect()
}

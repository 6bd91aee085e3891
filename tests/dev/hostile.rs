//! Hostile scripts in `kopfd dev`.

use super::{child, kopfd};
use crate::limits_operator::{LABEL, missing, write};

#[test]
fn hostile_scripts_are_ended_by_their_limits_and_others_are_served() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ids = write(folder.path(), "v1/configmaps");
    assert!(ids.len() > 50, "{}", ids.len());
    let object = |name: &str, label: &str| {
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{{LABEL}: {label}}}}}\n")
    };
    let objects: String = ids.iter().map(|id| object(id, id) + &object(&format!("beside-{id}"), "served")).collect();
    super::write(folder.path(), "objects.yaml", &objects);
    let run = child::output(kopfd(folder.path()).args([
        "operator.yaml",
        "--apply",
        "objects.yaml",
        "--once",
        "--timeout",
        "4m",
    ]));
    let account = String::from_utf8_lossy(&run.stderr);
    assert_eq!(missing(&ids, &account), "");
    assert_eq!(account.matches("] served").count(), ids.len());
    // The handlers have failed for good, nothing else.
    assert!(
        account.contains(&format!("error: {} handlers failed permanently: ", ids.len())),
        "{}",
        account.lines().last().unwrap_or_default()
    );
    assert_eq!(run.status.code(), Some(1));
}

//! What may differ between the embedded API server and a real one, and why: the list is `differences.yaml`. A difference that is no longer
//! met is taken off the list: one that is listed and not met fails the suite.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::excuse::Excuse;

/// One command whose output may differ somewhere, or one object.
#[derive(Debug, Deserialize)]
pub struct Difference {
    /// The title of the case.
    pub case: String,
    /// What the command or the place of the object begins with.
    pub command: String,
    /// Why.
    #[expect(dead_code, reason = "it is for the reader")]
    pub reason: String,
    /// Where.
    #[serde(flatten)]
    pub excuse: Excuse,
}

/// The list.
pub static DIFFERENCES: LazyLock<Vec<Difference>> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/differences.yaml");
    let text = fs::read_to_string(&path).expect("the list of differences can be read");
    let differences: Vec<Difference> = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for difference in &differences {
        if let Some(mistake) = difference.excuse.mistake() {
            panic!("{}: {}: {mistake}", difference.case, difference.command);
        }
    }
    differences
});

//! Allowed differences between the embedded API server and a real one, with reasons, in `differences.yaml`. A listed difference that does
//! not occur fails the suite.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::excuse::Excuse;

/// One command whose output may differ, or one object.
#[derive(Debug, Deserialize)]
pub(crate) struct Difference {
    /// The title of the case.
    pub(crate) case: String,
    /// The prefix of the command or of the object's path.
    pub(crate) command: String,
    /// The reason.
    #[expect(dead_code, reason = "it is for the reader")]
    pub(crate) reason: String,
    /// The allowed places.
    #[serde(flatten)]
    pub(crate) excuse: Excuse,
}

/// The list.
pub(crate) static DIFFERENCES: LazyLock<Vec<Difference>> = LazyLock::new(|| {
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

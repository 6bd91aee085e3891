//! Allowed differences between the embedded API server and a real one, with directions and reasons, in
//! `differences.yaml`. A listed difference that does not occur fails the suite.

use std::sync::LazyLock;

use serde::Deserialize;

use super::excuse::Excuse;

/// The list.
const LIST: &str = include_str!("differences.yaml");

/// The direction of a difference, as in `apiserver/tests/server/sameness/differences.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Direction {
    /// The embedded server does not serve something that the real one serves.
    RefusesValid,
    /// The embedded server accepts something that the real one refuses.
    AcceptsRefused,
    /// Both accept the command or both refuse it, but the outputs or the objects differ.
    AnswersOtherwise,
}

/// One command whose output may differ, or one object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Difference {
    /// The title of the case.
    pub(crate) case: String,
    /// The whole command, or the object's path.
    pub(crate) command: String,
    /// Which of the two servers refuses.
    pub(crate) direction: Direction,
    /// The reason.
    reason: String,
    /// The allowed places.
    #[serde(flatten)]
    pub(crate) excuse: Excuse,
}

impl Difference {
    /// Returns the error of the entry itself, if there is one.
    fn mistake(&self) -> Option<String> {
        let is_refusal = self.direction == Direction::RefusesValid;
        let says_missing = !self.excuse.missing().is_empty();
        let of_direction = match (is_refusal, says_missing) {
            (true, false) => Some("an entry of the direction refuses-valid lists what is not served in `missing`"),
            (false, true) => {
                Some("an entry with `missing` has the direction refuses-valid: the embedded server does not serve it")
            }
            _ => None,
        };
        let no_reason = self.reason.trim().is_empty().then_some("it has no reason");
        self.excuse.mistake().or_else(|| of_direction.or(no_reason).map(str::to_owned))
    }
}

/// Parses a list, and checks its entries.
pub(crate) fn parse(text: &str) -> Result<Vec<Difference>, String> {
    let differences: Vec<Difference> = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    match differences.iter().find_map(|one| Some((one, one.mistake()?))) {
        None => Ok(differences),
        Some((one, mistake)) => Err(format!("{}: {}: {mistake}", one.case, one.command)),
    }
}

/// The allowed differences.
pub(crate) static DIFFERENCES: LazyLock<Vec<Difference>> =
    LazyLock::new(|| parse(LIST).unwrap_or_else(|error| panic!("tests/clients/differences.yaml: {error}")));

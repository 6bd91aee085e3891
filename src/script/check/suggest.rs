//! Hints with the word that was probably meant.

use crate::kit::suggest;

pub(super) use crate::kit::suggest::nearest as closest;

/// Returns a hint with the nearest candidate.
pub(super) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    suggest::nearest(name, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

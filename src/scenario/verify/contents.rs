//! Verifies the contents of objects and indexes.

use crate::object::secret::Values;

use super::super::expressions::Answers;
use super::super::model::{IndexExpectation, ObjectExpectation};
use super::super::pattern::Mismatch;
use super::difference::{Difference, of_mismatch};
use super::observations::Observations;

pub(super) fn verify_object(
    observations: &impl Observations,
    object_expectation: &ObjectExpectation,
    answers: &mut Answers,
) -> Vec<Difference> {
    let ObjectExpectation { target, spot, is_absent, matches } = object_expectation;
    let value = match observations.object(target) {
        Ok(observed) => observed.value,
        Err(error) => return vec![Difference::new(*spot, error)],
    };
    match (value, is_absent) {
        (None, true) => Vec::new(),
        (Some(_), true) => vec![Difference::new(*spot, format!("{target}: expected to be absent, but it exists"))],
        (None, false) => vec![Difference::new(*spot, format!("{target}: expected to exist, but it does not"))],
        (Some(value), false) => {
            let mut mismatches = Vec::new();
            if let Some(pattern) = matches {
                pattern
                    .compare(Some(&value), "", &mut mismatches, &mut |predicate, value| answers.ask(predicate, value));
            }
            let values = Values::of(&value);
            let shown = |mismatch: Mismatch| {
                // The value itself is kept for `--update`, which writes it into the author's file.
                let hidden = values.as_ref().zip(mismatch.found.as_ref()).map(|(values, found)| {
                    let path: Vec<String> =
                        mismatch.path.split(['.', '[']).filter(|key| !key.is_empty()).map(str::to_owned).collect();
                    values.shown_at(&path, found)
                });
                of_mismatch(&target.to_string(), mismatch, hidden)
            };
            mismatches.into_iter().map(shown).collect()
        }
    }
}

pub(super) fn verify_index(
    observations: &impl Observations,
    index: &IndexExpectation,
    answers: &mut Answers,
) -> Vec<Difference> {
    let IndexExpectation { name, spot, matches } = index;
    let content = match observations.index(name) {
        Ok(content) => content,
        Err(error) => return vec![Difference::new(*spot, format!("index {name}: {error}"))],
    };
    let mut mismatches = Vec::new();
    matches.compare(Some(&content), "", &mut mismatches, &mut |predicate, value| answers.ask(predicate, value));
    mismatches.into_iter().map(|mismatch| of_mismatch(&format!("index {name}"), mismatch, None)).collect()
}

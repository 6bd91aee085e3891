//! Decisions that depend on expressions of scripts: `handling` asks, the scripts answer, and `handling` decides again.

use super::effects::Scripts;
use super::error::Error;
use crate::handling::plan::Obstacle;
use crate::handling::{Answers, Unsettled};
use crate::script::{Evaluation, Subject};

/// Repeats a decision as long as it needs further expressions, which are evaluated about a subject.
///
/// # Errors
/// If an expression fails, the object is malformed, or a record on it cannot be read.
pub(crate) async fn settled<T, E: Into<Obstacle>>(
    scripts: &(impl Scripts + ?Sized),
    subject: impl Fn() -> Subject,
    mut decide: impl FnMut(&Answers) -> Result<T, E>,
) -> Result<T, Error> {
    let mut answers = Answers::default();
    loop {
        let questions = match decide(&answers).map_err(Into::into) {
            Ok(decision) => return Ok(decision),
            Err(Obstacle::Unsettled(Unsettled::Questions(questions))) => questions,
            Err(Obstacle::Unsettled(Unsettled::Malformed(problem))) => return Err(Error::Malformed(problem)),
            Err(Obstacle::Broken(broken)) => return Err(Error::Stored(broken)),
        };
        // Most decisions need no expression, and so no subject.
        let subject = subject();
        for question in questions {
            let evaluation = Evaluation { predicate: question.predicate, candidate: question.candidate.clone() };
            let holds = scripts.evaluate(&subject, evaluation).await.map_err(Error::Filter)?;
            answers.keep(question, holds);
        }
    }
}

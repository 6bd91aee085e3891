//! Expressions in matchers. A comparison collects the expressions it needs, the script host evaluates them, and the
//! comparison is repeated.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::handling::{Candidate, Predicate, Reason};
use crate::kit::Clock;
use crate::object::Body;
use crate::script::check::{self, Scripts};
use crate::script::host::{self, Threads};
use crate::script::{
    Declaration, Evaluation, Expression, Host, Installed, Object, ObjectMemo, Problem, Program, Subject,
};

/// An expression applied to a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    predicate: Predicate,
    /// `None` if the value is absent.
    value: Option<Value>,
}

/// Known answers, and questions that are still open.
#[derive(Debug, Default)]
pub(super) struct Answers {
    known: Vec<(Question, bool)>,
    asked: Vec<Question>,
}

impl Answers {
    /// Returns whether an expression holds. An unanswered question is collected and assumed to hold.
    pub(super) fn ask(&mut self, predicate: Predicate, value: Option<&Value>) -> bool {
        let question = Question { predicate, value: value.cloned() };
        if let Some((_, holds)) = self.known.iter().find(|(known, _)| *known == question) {
            return *holds;
        }
        if !self.asked.contains(&question) {
            self.asked.push(question);
        }
        true
    }

    /// Takes the open questions.
    pub(super) fn questions(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.asked)
    }

    /// Stores an answer.
    pub(super) fn keep(&mut self, question: Question, holds: bool) {
        self.known.push((question, holds));
    }
}

/// The expressions of a scenario, read and checked.
#[derive(Debug, Clone, Default)]
pub struct Expressions {
    declaration: Declaration,
    scripts: Scripts,
}

impl Expressions {
    /// Reads and checks expressions.
    pub(super) fn read(expressions: Vec<Expression>) -> Self {
        if expressions.is_empty() {
            return Self::default();
        }
        let declaration = Declaration { expressions, operator: "scenario".to_owned(), ..Declaration::default() };
        let scripts = check::read(&declaration);
        Self { declaration, scripts }
    }

    /// Returns the problems that were found.
    pub(super) fn problems(&self) -> &[Problem] {
        &self.scripts.problems
    }
}

/// Evaluates the expressions of one scenario.
pub(super) struct Interpreter {
    host: Host,
    scripts: Installed,
}

impl Interpreter {
    /// Starts the script host on the current thread, which must run a `LocalSet`.
    ///
    /// # Errors
    /// If the expressions do not compile.
    pub(super) async fn start(expressions: &Expressions, clock: Clock, seed: u64) -> Result<Self, String> {
        let options = host::Options { threads: Threads::Current, clock, seed: Some(seed), ..host::Options::default() };
        let host = Host::start(options).map_err(|error| error.to_string())?;
        let messages =
            |problems: Vec<Problem>| problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ");
        let program = Program::load_again(expressions.declaration.clone(), &expressions.scripts).map_err(messages)?;
        let scripts = host.install(Arc::new(program)).await.map_err(messages)?;
        Ok(Self { host, scripts })
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// The text of its failure.
    pub(super) async fn evaluate(&self, question: &Question) -> Result<bool, String> {
        let candidate = question.value.clone().map_or(Candidate::Absent, Candidate::Value);
        // The expressions see only the value; the object is empty.
        let object =
            Object { resource: Arc::default(), body: Body::from(json!({})), memo: ObjectMemo::empty("expectations") };
        let subject = Subject::Change { object, reason: Reason::Noop, change: Arc::default() };
        self.host.evaluate(&self.scripts, &subject, Evaluation { predicate: question.predicate, candidate }).await
    }
}

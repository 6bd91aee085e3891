//! Expressions in matchers: asked for while a pattern is compared, and answered by the script host before it is compared again.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::handling::{Candidate, Predicate, Reason};
use crate::kit::Clock;
use crate::object::Body;
use crate::script::host::{self, Threads};
use crate::script::{Declaration, Evaluation, Expression, Host, Installed, Object, Program, Subject};

/// One expression about one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    predicate: Predicate,
    /// The value; none if there is none.
    value: Option<Value>,
}

/// The answers that are known so far, and the questions that came up.
#[derive(Debug, Default)]
pub struct Answers {
    known: Vec<(Question, bool)>,
    asked: Vec<Question>,
}

impl Answers {
    /// Returns whether an expression holds; what is not known yet is asked for, and taken to hold meanwhile.
    pub fn ask(&mut self, predicate: Predicate, value: Option<&Value>) -> bool {
        let question = Question { predicate, value: value.cloned() };
        if let Some((_, holds)) = self.known.iter().find(|(known, _)| *known == question) {
            return *holds;
        }
        if !self.asked.contains(&question) {
            self.asked.push(question);
        }
        true
    }

    /// Takes the questions that came up.
    pub fn questions(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.asked)
    }

    /// Keeps an answer.
    pub fn keep(&mut self, question: Question, holds: bool) {
        self.known.push((question, holds));
    }
}

/// The interpreter of the expressions of one scenario.
pub struct Interpreter {
    host: Host,
    scripts: Installed,
}

impl Interpreter {
    /// Starts the interpreter on the current thread, which must be running a `LocalSet`.
    ///
    /// # Errors
    /// What is wrong with the expressions.
    pub async fn start(expressions: Vec<Expression>, clock: Clock, seed: u64) -> Result<Self, String> {
        let options = host::Options { threads: Threads::Current, clock, seed: Some(seed), ..host::Options::default() };
        let host = Host::start(options).map_err(|error| error.to_string())?;
        let told =
            |problems: Vec<crate::script::Problem>| problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ");
        let program = Program::load(declaration(expressions)).map_err(told)?;
        let scripts = host.install(Arc::new(program)).await.map_err(told)?;
        Ok(Self { host, scripts })
    }

    /// Tells whether an expression holds.
    ///
    /// # Errors
    /// The text of its failure.
    pub async fn answer(&self, question: &Question) -> Result<bool, String> {
        let candidate = question.value.clone().map_or(Candidate::Absent, Candidate::Value);
        // The expressions are about a value alone; what they see of an object is empty.
        let object = Object { resource: Arc::default(), body: Body::from(json!({})), memo: Arc::from("expectations") };
        let subject = Subject::Change { object, reason: Reason::Noop, change: Arc::default() };
        self.host.evaluate(&self.scripts, &subject, Evaluation { predicate: question.predicate, candidate }).await
    }
}

/// Returns expressions as the script host wants them declared.
pub fn declaration(expressions: Vec<Expression>) -> Declaration {
    Declaration { expressions, operator: "scenario".to_owned(), ..Declaration::default() }
}

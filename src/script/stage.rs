//! What a handler and its sub-handlers share in one call, and what each attempt of them is made of.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;
use rhai::{Dynamic, Engine, EvalAltResult, ImmutableString};
use serde_json::Value;

use super::arguments::Outputs;
use super::budget::Budget;
use super::call::{Attempted, Subhandling};
use super::context::{Context, Mode};
use super::function::{Closure, Ended, Function};
use super::logger;
use super::scripts::Scripts;
use super::subject::Subject;
use crate::handling::{Handler, Message, Record};

/// What a handler and all its sub-handlers share in one call.
pub struct Stage {
    /// The generation that the call began with, and ends with.
    pub scripts: Rc<Scripts>,
    /// The interpreter.
    pub engine: Rc<Engine>,
    /// What the call may still use.
    pub budget: Rc<Budget>,
    /// What the call writes to.
    pub outputs: Outputs,
    /// What sub-handlers need; none where there are none.
    pub subhandling: Option<Subhandling>,
    /// The span of the call's log lines.
    pub span: tracing::Span,
    /// What code is running.
    pub mode: Mode,
    /// What is known of the sub-handlers.
    pub notes: RefCell<Notes>,
}

/// What a call has to report besides its verdict and its patch.
#[derive(Default)]
pub struct Notes {
    /// The records to store.
    pub records: BTreeMap<String, Record>,
    /// The ids of all sub-handlers of all levels.
    pub subrefs: Vec<String>,
    /// What was told.
    pub messages: Vec<Message>,
    /// The attempts that were made, in order.
    pub attempts: Vec<Attempted>,
}

/// The code of a handler, or of a sub-handler.
#[derive(Clone)]
pub enum Code {
    /// A function of the manifest.
    Binding(Rc<Function>),
    /// What a script has handed over.
    Closure(Closure),
}

/// One attempt of a handler or sub-handler.
pub struct Task<'a> {
    /// The handler, if it may have sub-handlers.
    pub handler: Option<Arc<Handler>>,
    /// The code.
    pub code: &'a Code,
    /// What it is called for.
    pub subject: Subject,
    /// What is passed as is.
    pub param: &'a Value,
    /// The attempts made before.
    pub retry: u64,
    /// When the handler was selected first.
    pub started: Timestamp,
}

impl Code {
    /// Returns the names of the parameters that get values.
    pub fn params(&self) -> &[ImmutableString] {
        match self {
            Self::Binding(function) => &function.params,
            Self::Closure(closure) => closure.params(),
        }
    }

    /// Returns the function, for messages.
    pub fn function(&self) -> &Function {
        match self {
            Self::Binding(function) => function,
            Self::Closure(closure) => &closure.function,
        }
    }

    /// Runs the code.
    ///
    /// # Errors
    /// Whatever the script throws.
    pub fn run(&self, engine: &Engine, context: &Context, values: Vec<Dynamic>) -> Result<Ended, Box<EvalAltResult>> {
        match self {
            Self::Binding(function) => function.run(engine, context, values),
            Self::Closure(closure) => closure.run(engine, context, values),
        }
    }
}

impl Stage {
    /// Returns the context of a call that belongs to the stage.
    pub fn context(&self, mode: Mode, subject: &Subject) -> Context {
        let environment = Rc::clone(&self.scripts.environment);
        Context::new(environment, Rc::clone(&self.budget), mode).about(subject.clone(), self.span.clone())
    }

    /// Logs a line about a sub-handler, and keeps it for the report.
    pub fn tell(&self, message: Message) {
        logger::tell(&self.span, message.level, &message.to_string());
        self.notes.borrow_mut().messages.push(message);
    }
}

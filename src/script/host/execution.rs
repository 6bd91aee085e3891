//! The shared state of a handler and its sub-handlers in one call, and the input of each attempt.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;
use rhai::{Dynamic, Engine, EvalAltResult, ImmutableString};
use serde_json::Value;

use crate::handling::{Handler, Message, Record};
use crate::script::interface::call::{Attempted, HookAnswer, Subhandling};
use crate::script::interface::subject::Subject;
use crate::script::interpreter::scripts::Scripts;
use crate::script::language::arguments::Outputs;
use crate::script::language::logger;
use crate::script::runtime::budget::Budget;
use crate::script::runtime::context::{Context, Mode};
use crate::script::runtime::function::{Closure, Ended, Function};
use crate::script::values::index::IndexEntries;

/// The shared state of a handler and all its sub-handlers in one call.
pub(super) struct Execution {
    /// The generation of the call, from its start to its end.
    pub scripts: Rc<Scripts>,
    /// The interpreter.
    pub engine: Rc<Engine>,
    /// The remaining budget.
    pub budget: Rc<Budget>,
    /// The outputs.
    pub outputs: Outputs,
    /// The context of sub-handlers, if there can be any.
    pub subhandling: Option<Subhandling>,
    /// The span of the call's log lines.
    pub span: tracing::Span,
    /// The kind of the running code.
    pub mode: Mode,
    /// The results of the sub-handlers.
    pub notes: RefCell<Notes>,
}

/// The results of a call besides its verdict and its patch.
#[derive(Default)]
pub(super) struct Notes {
    /// The records to store.
    pub records: BTreeMap<String, Record>,
    /// The ids of all sub-handlers on all levels.
    pub subrefs: Vec<String>,
    /// The messages.
    pub messages: Vec<Message>,
    /// The attempts, in order.
    pub attempts: Vec<Attempted>,
    /// The entries of an index; `None` if the function has returned nothing.
    pub entries: Option<IndexEntries>,
    /// The answer of a hook.
    pub answer: Option<HookAnswer>,
}

/// The code of a handler, or of a sub-handler.
#[derive(Clone)]
pub(super) enum Code {
    /// A function of the manifest.
    Binding(Rc<Function>),
    /// A function passed by a script.
    Closure(Closure),
}

/// One attempt of a handler or sub-handler.
pub(super) struct Task<'a> {
    /// The handler, if it may have sub-handlers.
    pub handler: Option<Arc<Handler>>,
    /// The code.
    pub code: &'a Code,
    /// The subject.
    pub subject: Subject,
    /// The value of `param`.
    pub param: &'a Value,
    /// The attempts made before.
    pub retry: u64,
    /// When the handler was selected first.
    pub started: Timestamp,
}

impl Code {
    /// Returns the names of the parameters that get values.
    pub(super) fn params(&self) -> &[ImmutableString] {
        match self {
            Self::Binding(function) => &function.params,
            Self::Closure(closure) => closure.params(),
        }
    }

    /// Returns the function, for messages.
    pub(super) fn function(&self) -> &Function {
        match self {
            Self::Binding(function) => function,
            Self::Closure(closure) => &closure.function,
        }
    }

    /// Runs the code.
    ///
    /// # Errors
    /// Errors of the script.
    pub(super) fn run(
        &self,
        engine: &Engine,
        context: &Context,
        values: Vec<Dynamic>,
    ) -> Result<Ended, Box<EvalAltResult>> {
        match self {
            Self::Binding(function) => function.run(engine, context, values),
            Self::Closure(closure) => closure.run(engine, context, values),
        }
    }
}

impl Execution {
    /// Returns the context of a call that belongs to the stage.
    pub(super) fn context(&self, mode: Mode, subject: &Subject) -> Context {
        let environment = Rc::clone(&self.scripts.environment);
        Context::new(environment, Rc::clone(&self.budget), mode).about(subject.clone(), self.span.clone())
    }

    /// Logs a line about a sub-handler, and keeps it for the report.
    pub(super) fn log_message(&self, subject: &Subject, message: Message) {
        let text = message.to_string();
        if self.budget.count_output(text.len() + logger::BYTES_PER_LINE).is_err() {
            // The call is ended; its sub-handlers go on in the next one.
            return;
        }
        logger::write(&self.span, message.level, &text);
        logger::post(&self.scripts.environment, subject, message.level, &text);
        self.notes.borrow_mut().messages.push(message);
    }
}

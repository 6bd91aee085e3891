//! Sub-handlers, registered by a handler while it runs. They run after it, or in `execute()`, on the same fiber.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rhai::{Dynamic, EvalAltResult, FnPtr, GlobalRuntimeState, ImmutableString, Map, NativeCallContext};

use super::execution::{Code, Execution, Task};
use super::suboptions::{Condition, Options, Written};
use crate::handling::attempt;
use crate::handling::filter::View;
use crate::handling::subhandling::{self, Pass};
use crate::handling::{Answers, Handler, Message, On, Outcome, Question, Unsettled, Verdict};
use crate::script::interface::call::Attempted;
use crate::script::interface::declaration::BindingKind;
use crate::script::interface::subject::Subject;
use crate::script::language::arguments::{self, Offer};
use crate::script::language::convert;
use crate::script::runtime::budget::Ending;
use crate::script::runtime::context::{Context, Mode, Subhandlers};
use crate::script::runtime::function::Closure;
use crate::script::runtime::progress_hook;
use crate::script::values::script_error::Failure;

/// The sub-handlers registered by one call of a function.
pub(super) struct Registry {
    execution: Rc<Execution>,
    parent: Arc<Handler>,
    subject: Subject,
    handlers: Vec<Handler>,
    codes: Vec<Code>,
    conditions: Vec<Condition>,
    is_executed: bool,
    subrefs: Vec<String>,
}

impl Registry {
    /// Returns the registry of a handler's call.
    pub(super) fn new(execution: Rc<Execution>, parent: Arc<Handler>, subject: Subject) -> Self {
        let (handlers, codes, conditions, subrefs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { execution, parent, subject, handlers, codes, conditions, is_executed: false, subrefs }
    }

    /// Takes the ids of all sub-handlers on all levels below.
    pub(super) fn take_subrefs(&mut self) -> Vec<String> {
        std::mem::take(&mut self.subrefs)
    }

    fn register(&mut self, name: &str, options: Options, code: Code) -> Result<(), Failure> {
        let id = format!("{}/{name}", self.parent.id);
        if !is_id(&id) {
            return Err(Failure::argument(format!(
                "{name:?} cannot be the id of a sub-handler: it becomes a part of an annotation's name"
            )));
        }
        let defaults =
            self.execution.subhandling.as_ref().map(|subhandling| subhandling.defaults.clone()).unwrap_or_default();
        let handler = Handler {
            id,
            function: code.function().title.clone(),
            // The target of a sub-handler is the number of its code, not the parent's binding.
            target: self.codes.len(),
            on: On::Sub { needs_change: self.parent.on.needs_change() },
            selectors: Vec::new(),
            field: options.field,
            filters: options.filters,
            policy: options.policy.or(&defaults),
            param: options.param,
        };
        self.handlers.push(handler);
        self.codes.push(code);
        self.conditions = options.conditions;
        Ok(())
    }
}

impl Subhandlers for RefCell<Registry> {
    fn register(
        &self,
        native: &NativeCallContext<'_>,
        id: &str,
        options: Map,
        function: &FnPtr,
    ) -> Result<(), Box<EvalAltResult>> {
        let global = native.global_runtime_state();
        let conditions = self.borrow().conditions.clone();
        let execution = Rc::clone(&self.borrow().execution);
        let closure = handed_over(
            function,
            global,
            &known(&execution, arguments::known(BindingKind::Change)),
            "the sub-handler",
        )?;
        let written = Written {
            options,
            conditions,
            compile: &mut |value, has_value| condition(&execution, value, has_value, global),
        };
        let options = written.read()?;
        self.borrow_mut().register(id, options, Code::Closure(closure))?;
        Ok(())
    }

    fn execute(&self, context: &Context) -> Result<(), Box<EvalAltResult>> {
        self.borrow_mut().is_executed = true;
        match run_pass(self)? {
            Some(delay) => Err(context.budget().end(Ending::Unfinished(delay))),
            None => Ok(()),
        }
    }
}

/// Ids become names of annotations.
fn is_id(id: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_alphanumeric();
    id.starts_with(is_edge) && id.ends_with(is_edge) && id.chars().all(|c| is_edge(c) || "_./<>-".contains(c))
}

/// Returns the names of arguments with those of the indexes.
fn known<'a>(execution: &'a Execution, arguments: Vec<&'static str>) -> Vec<&'a str> {
    arguments.into_iter().chain(execution.scripts.program.declaration.indexes.iter().map(String::as_str)).collect()
}

/// Returns a function passed by a script, if all its parameters have values.
fn handed_over(pointer: &FnPtr, global: &GlobalRuntimeState, known: &[&str], what: &str) -> Result<Closure, Failure> {
    let closure = Closure::of(pointer, global).map_err(Failure::argument)?;
    match closure.params().iter().find(|param| !known.contains(&param.as_str())) {
        Some(param) => {
            Err(Failure::argument(format!("unknown parameter `{param}` of {what}; there are {}", known.join(", "))))
        }
        None => Ok(closure),
    }
}

/// Returns a filter of a script: an expression as text, or a closure.
fn condition(
    execution: &Execution,
    value: &Dynamic,
    has_value: bool,
    global: &GlobalRuntimeState,
) -> Result<Condition, Failure> {
    if let Some(pointer) = value.read_lock::<FnPtr>() {
        let known = known(execution, arguments::known_in_expression(BindingKind::Change, has_value));
        return handed_over(&pointer, global, &known, "the filter").map(Condition::Closure);
    }
    let Some(text) = value.read_lock::<ImmutableString>() else {
        return Err(Failure::argument("`when` is an expression in a text, or a closure"));
    };
    let compiled = execution.scripts.condition(&execution.engine, &text, has_value, global);
    compiled.map(Condition::Expression).map_err(|error| Failure::argument(format!("`when` is no expression: {error}")))
}

/// Runs the registered sub-handlers, unless the function has run them itself. Returns the time until the next call, if
/// one is needed.
///
/// # Errors
/// Failures of filters, unreadable records on the object, and the end of the call.
pub(super) fn run_remaining(registry: &RefCell<Registry>) -> Result<Option<Duration>, Box<EvalAltResult>> {
    let is_done = registry.borrow().is_executed || registry.borrow().handlers.is_empty();
    if is_done { Ok(None) } else { run_pass(registry) }
}

fn run_pass(registry: &RefCell<Registry>) -> Result<Option<Duration>, Box<EvalAltResult>> {
    let running = Running::of(&registry.borrow());
    let (delay, subrefs) = running.run()?;
    registry.borrow_mut().subrefs.extend(subrefs);
    Ok(delay)
}

/// One pass over the sub-handlers. The registry is not borrowed during it, since sub-handlers are scripts.
struct Running {
    execution: Rc<Execution>,
    subject: Subject,
    handlers: Vec<Handler>,
    codes: Vec<Code>,
    conditions: Vec<Condition>,
}

impl Running {
    fn of(registry: &Registry) -> Self {
        let Registry { execution, subject, handlers, codes, conditions, .. } = registry;
        Self {
            execution: Rc::clone(execution),
            subject: subject.clone(),
            handlers: handlers.clone(),
            codes: codes.clone(),
            conditions: conditions.clone(),
        }
    }

    fn run(&self) -> Result<(Option<Duration>, Vec<String>), Box<EvalAltResult>> {
        let subhandling = self.execution.subhandling.as_ref().expect("there is no registry without it");
        let clock = &self.execution.scripts.environment.clock;
        let selected = self.select()?;
        let random_below =
            &mut |count: usize| self.execution.scripts.environment.rng.between(0, count.max(1) as i64 - 1) as usize;
        let pass = Pass::begin(
            &self.handlers,
            &selected,
            &*subhandling.records,
            subhandling.purpose,
            subhandling.lifecycle,
            clock.now(),
            random_below,
        );
        let pass = pass.map_err(|broken| Failure::host("records", broken.to_string()))?;
        let mut outcomes: Vec<(String, Outcome)> = Vec::new();
        for handler in &pass.run {
            if !progress_hook::pause() {
                break;
            }
            let outcome = self.attempt(handler, &pass)?;
            outcomes.push((handler.id.clone(), outcome));
        }
        let end = pass.end(&outcomes, clock.now());
        let mut notes = self.execution.notes.borrow_mut();
        notes.records.extend(end.store);
        notes.subrefs.extend(end.subrefs.iter().cloned());
        let mut patch = self.execution.outputs.patch.borrow_mut();
        end.results.into_iter().for_each(|(id, result)| patch.deliver(&id, result));
        drop((notes, patch));
        self.execution.budget.check()?;
        Ok((end.delay, end.subrefs))
    }

    fn attempt(&self, handler: &Handler, pass: &Pass<'_>) -> Result<Outcome, Box<EvalAltResult>> {
        let subhandling = self.execution.subhandling.as_ref().expect("there is no registry without it");
        let clock = &self.execution.scripts.environment.clock;
        let record = pass.record(&handler.id).expect("what is run has a record");
        self.execution.log_message(&self.subject, attempt::announce(handler));
        if let Some((outcome, message)) = attempt::check_limits(handler, record, clock.now()) {
            self.execution.log_message(&self.subject, message);
            return Ok(outcome);
        }
        let (verdict, subrefs) = self.call(handler, record.retries, record.started.at);
        if self.execution.budget.ending() == Some(Ending::Cancelled) {
            self.execution.log_message(
                &self.subject,
                Message::warning(format!("{} is cancelled. Will escalate.", handler.title())),
            );
            return Err(self.execution.budget.end(Ending::Cancelled));
        }
        let (mut outcome, message) = attempt::judge(handler, record, verdict, clock.now(), subhandling.default_backoff);
        outcome.subrefs = subrefs;
        self.execution.log_message(&self.subject, message);
        let attempted = Attempted { id: handler.id.clone(), retry: record.retries, outcome: outcome.clone() };
        self.execution.notes.borrow_mut().attempts.push(attempted);
        Ok(outcome)
    }

    fn call(&self, handler: &Handler, retry: u64, started: jiff::Timestamp) -> (Verdict, Vec<String>) {
        let subject =
            handler.field.as_ref().map_or_else(|| self.subject.clone(), |field| self.subject.reduced_to(field));
        let task = Task {
            handler: Some(Arc::new(handler.clone())),
            code: &self.codes[handler.target],
            subject,
            param: &handler.param,
            retry,
            started,
        };
        self.execution.attempt(task)
    }

    /// Selects the sub-handlers that take part, and evaluates the expressions of their filters.
    fn select(&self) -> Result<Vec<&Handler>, Box<EvalAltResult>> {
        let body = self.subject.body().expect("only handlers of changes have sub-handlers");
        let view = View { body: &body, change: self.subject.change().map(AsRef::as_ref) };
        let mut answers = Answers::default();
        loop {
            let questions = match subhandling::select(&self.handlers, view, &answers) {
                Ok(selected) => return Ok(selected),
                Err(Unsettled::Malformed(text)) => return Err(Failure::host("object", text).into()),
                Err(Unsettled::Questions(questions)) => questions,
            };
            for question in questions {
                let holds = self.answer(&question)?;
                answers.keep(question, holds);
            }
        }
    }

    fn answer(&self, question: &Question) -> Result<bool, Box<EvalAltResult>> {
        let condition = &self.conditions[question.predicate.0];
        let context = self.execution.context(Mode::Expression, &self.subject);
        let offer = Offer {
            subject: &self.subject,
            outputs: &self.execution.outputs,
            memos: &self.execution.scripts.environment.memos,
            indexes: &self.execution.scripts.environment.indexes,
            shared: &self.execution.scripts.environment.shared,
            is_writable: false,
            attempt: None,
            candidate: &question.candidate,
        };
        let values = |params: &[ImmutableString]| offer.values(params.iter().map(ImmutableString::as_str));
        let ended = match condition {
            Condition::Expression(function) => {
                function.run(&self.execution.engine, &context, values(&function.params)?)
            }
            Condition::Closure(closure) => closure.run(&self.execution.engine, &context, values(closure.params())?),
        };
        Ok(convert::is_true(&ended?.value()))
    }
}

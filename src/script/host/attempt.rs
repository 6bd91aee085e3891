//! One call of a function, and of the sub-handlers it registers, on the fiber of the call.

use std::cell::RefCell;
use std::rc::Rc;

use rhai::{Dynamic, ImmutableString};

use super::execution::{Code, Execution, Task};
use super::subhandlers::{self, Registry};
use super::verdict;
use crate::handling::{Candidate, Verdict};
use crate::script::interface::subject::Subject;
use crate::script::language::answer;
use crate::script::language::arguments::{Attempt, Offer};
use crate::script::language::index;
use crate::script::runtime::budget::Ending;
use crate::script::runtime::context::Subhandlers;
use crate::script::runtime::function::Ended;
use crate::script::values::script_error::Failure;

impl Execution {
    /// Makes one attempt, with the sub-handlers that it registers. Returns the verdict, and the ids of all its
    /// sub-handlers.
    pub(super) fn attempt(self: &Rc<Self>, task: Task<'_>) -> (Verdict, Vec<String>) {
        let mut context = self.context(self.mode, &task.subject);
        let registry = task
            .handler
            .clone()
            .filter(|_| self.subhandling.is_some())
            .map(|handler| Rc::new(RefCell::new(Registry::new(Rc::clone(self), handler, task.subject.clone()))));
        if let Some(registry) = &registry {
            context = context.with_subhandlers(Rc::clone(registry) as Rc<dyn Subhandlers>);
        }
        let values = self.values(&task).map_err(Into::into);
        let ended = values.and_then(|values| task.code.run(&self.engine, &context, values));
        self.budget.look_at_memory();
        let verdict = match ended {
            Ok(ended) if matches!(task.subject, Subject::Index { .. }) => self.conclude_index(ended),
            Ok(ended) if matches!(task.subject, Subject::Hook { .. }) => self.conclude_hook(ended),
            Ok(ended) => self.conclude(ended, registry.as_ref(), task.code),
            Err(error) => verdict::of_error(error, task.code.function(), self.scripts.origins(), &self.budget),
        };
        // Converting a result or an error may exceed a limit, too.
        self.budget.look_at_memory();
        let verdict = match self.budget.ending() {
            Some(ending @ Ending::Overrun(_)) if self.budget.overrun_limit().is_none() => {
                verdict::of_ending(ending, &self.budget, None)
            }
            _ => verdict,
        };
        let subrefs = registry.map(|registry| registry.borrow_mut().take_subrefs()).unwrap_or_default();
        (verdict, subrefs)
    }

    fn values(&self, task: &Task<'_>) -> Result<Vec<Dynamic>, Failure> {
        let environment = &self.scripts.environment;
        let now = environment.clock.now();
        let offer = Offer {
            subject: &task.subject,
            outputs: &self.outputs,
            memos: &environment.memos,
            indexes: &environment.indexes,
            shared: &environment.shared,
            is_writable: true,
            attempt: Some(Attempt { param: task.param, retry: task.retry, started: task.started, now }),
            candidate: &Candidate::Whole,
        };
        offer.values(task.code.params().iter().map(ImmutableString::as_str))
    }

    /// Keeps the entries of an index.
    fn conclude_index(&self, ended: Ended) -> Verdict {
        if let Some(ending) = self.budget.ending() {
            return verdict::of_ending(ending, &self.budget, None);
        }
        match index::entries_of(&ended.result()) {
            Ok(entries) => {
                self.notes.borrow_mut().entries = entries;
                Verdict::Returned(None)
            }
            Err(text) => verdict::failed(text, None),
        }
    }

    /// Keeps the answer of a hook.
    fn conclude_hook(&self, ended: Ended) -> Verdict {
        if let Some(ending) = self.budget.ending() {
            return verdict::of_ending(ending, &self.budget, None);
        }
        match answer::of(&ended.result()) {
            Ok(answer) => {
                self.notes.borrow_mut().answer = Some(answer);
                Verdict::Returned(None)
            }
            Err(text) => verdict::failed(text, None),
        }
    }

    /// Runs the registered sub-handlers after the function has returned, unless it has run them itself.
    fn conclude(&self, ended: Ended, registry: Option<&Rc<RefCell<Registry>>>, code: &Code) -> Verdict {
        if let Some(ending) = self.budget.ending() {
            return verdict::of_ending(ending, &self.budget, None);
        }
        let verdict = verdict::of_result(&ended.result());
        let Some(registry) = registry.filter(|_| matches!(verdict, Verdict::Returned(_))) else { return verdict };
        match subhandlers::run_remaining(registry) {
            Ok(None) => verdict,
            Ok(Some(delay)) => Verdict::Unfinished { delay },
            Err(error) => verdict::of_error(error, code.function(), self.scripts.origins(), &self.budget),
        }
    }
}

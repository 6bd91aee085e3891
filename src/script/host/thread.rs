//! One script thread: its interpreters, its generations, and its jobs. None of its state leaves the thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use rhai::{Dynamic, ImmutableString};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::spawn_local;

use super::execution::{self, Execution, Notes, Task};
use super::verdict;
use crate::kit::tasks::{panic_text, report_panic};
use crate::kit::{Clock, Stop, visible};
use crate::object::{ObjectKey, Patch};
use crate::script::interface::call::{Call, Evaluation, Returned};
use crate::script::interface::declaration::{Binding, BindingKind, Code};
use crate::script::interface::problem::Problem;
use crate::script::interface::subject::{Activity, Subject};
use crate::script::interpreter::engine::{self, Sizes};
use crate::script::interpreter::scripts::Scripts;
use crate::script::language::arguments::{Offer, Outputs};
use crate::script::language::{convert, trace};
use crate::script::limits::Limits;
use crate::script::limits::process_memory::ProcessMemory;
use crate::script::outside::Outside;
use crate::script::outside::api::{Api, Credentials};
use crate::script::runtime::budget::{Budget, Ending, Slices};
use crate::script::runtime::context::{Context, Environment, Mode};
use crate::script::runtime::fiber::Fiber;
use crate::script::runtime::object_turns::ObjectTurns;
use crate::script::runtime::rng::Rng;
use crate::script::sources::program::Program;
use crate::script::values::index::Indexes;
use crate::script::values::memo::{self, Memos};
use crate::script::values::script_error::Failure;
use crate::script::values::shared::SharedData;
use crate::script::values::time;
use crate::script::values::transforms::{TransformJob, Transforms};

/// The time limit of an expression.
const EXPRESSION_TIME: Duration = Duration::from_secs(1);

/// A job of a script thread.
pub(super) enum Job {
    /// Compile the scripts of an operator, and keep them under a number.
    Install {
        /// The number.
        generation: u64,
        /// The scripts.
        program: Arc<Program>,
        /// Their indexes.
        indexes: Arc<Indexes>,
        /// The receiver of the answer.
        reply: oneshot::Sender<Result<(), Vec<Problem>>>,
    },
    /// Drop a generation; running calls keep it until they end.
    Uninstall(u64),
    /// Call a function.
    Call(Box<CallJob>),
    /// Evaluate an expression of a filter.
    Evaluate(Box<EvaluateJob<bool>>),
    /// Evaluate an expression of a delay.
    EvaluateDelay(Box<EvaluateJob<Duration>>),
    /// Drop the memo of an object, by its key.
    Forget(Arc<str>),
    /// Apply or drop a transformation of a body.
    Transform(TransformJob),
    /// Count the kept state.
    Count(oneshot::Sender<MemoryCounts>),
}

/// Counts of the state that script threads keep between calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Memories of objects.
    pub memos: usize,
    /// Compiled conditions of sub-handlers.
    pub conditions: usize,
    /// Pending transformations of objects.
    pub transforms: usize,
    /// Generations of scripts.
    pub generations: usize,
}

impl std::ops::AddAssign for MemoryCounts {
    fn add_assign(&mut self, other: Self) {
        self.memos += other.memos;
        self.conditions += other.conditions;
        self.transforms += other.transforms;
        self.generations += other.generations;
    }
}

/// A call, and the receiver of its result.
pub(super) struct CallJob {
    /// The generation.
    pub generation: u64,
    /// The call.
    pub call: Box<Call>,
    /// The receiver of the answer; closing it ends the call.
    pub reply: oneshot::Sender<Returned>,
    /// The permit for a fiber.
    pub permit: OwnedSemaphorePermit,
}

/// An expression, and the receiver of its value.
pub(super) struct EvaluateJob<T> {
    /// The generation.
    pub generation: u64,
    /// The subject of the expression.
    pub subject: Subject,
    /// The expression and its value.
    pub evaluation: Evaluation,
    /// The receiver of the answer.
    pub reply: oneshot::Sender<Result<T, String>>,
    /// The permit for a fiber.
    pub permit: OwnedSemaphorePermit,
}

/// The dependencies of a thread.
#[derive(Clone)]
pub(super) struct ThreadSettings {
    /// The clock.
    pub clock: Clock,
    /// The seed of random numbers, for reproducible simulations.
    pub seed: Option<u64>,
    /// The cluster.
    pub api: Option<Arc<dyn Api>>,
    /// The credentials of the built-in logins.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// The world outside of the cluster.
    pub outside: Outside,
    /// The operator's memo.
    pub operator_memo: memo::Current,
    /// The operator's shared data.
    pub shared: Arc<SharedData>,
    /// The memory of all scripts of the process.
    pub process_memory: Arc<ProcessMemory>,
}

/// A script thread.
pub(super) struct Thread {
    settings: ThreadSettings,
    generations: RefCell<HashMap<u64, Rc<Scripts>>>,
    memos: Rc<Memos>,
    transforms: Rc<Transforms>,
    turns: Rc<ObjectTurns>,
    calls: Cell<u64>,
}

impl Thread {
    /// Returns a thread. `jobs` is a sender to itself.
    pub(super) fn new(settings: ThreadSettings, jobs: mpsc::WeakUnboundedSender<Job>) -> Rc<Self> {
        let memos = Rc::new(Memos::new(Arc::clone(&settings.operator_memo)));
        // If the thread has ended, its transformations are gone.
        let send = Arc::new(move |job| drop(jobs.upgrade().map(|jobs| jobs.send(Job::Transform(job)))));
        Rc::new(Self {
            settings,
            generations: RefCell::default(),
            memos,
            transforms: Rc::new(Transforms::new(send)),
            turns: Rc::default(),
            calls: Cell::new(0),
        })
    }

    /// Runs jobs until all senders are dropped.
    pub(super) async fn run(self: Rc<Self>, mut jobs: mpsc::UnboundedReceiver<Job>) {
        while let Some(job) = jobs.recv().await {
            // If the thread ended, all its objects would have no scripts.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.start(job))) {
                report_panic("script thread", &panic_text(&*panic));
            }
        }
    }

    fn start(self: &Rc<Self>, job: Job) {
        let thread = Rc::clone(self);
        match job {
            Job::Call(job) => spawn("call of a script", async move { thread.call(*job).await }),
            Job::Evaluate(job) => {
                spawn("evaluation of an expression", async move {
                    thread.evaluate(*job, |value| Ok(convert::is_true(value))).await;
                });
            }
            Job::EvaluateDelay(job) => {
                spawn("evaluation of a delay", async move { thread.evaluate(*job, time::duration).await });
            }
            Job::Install { generation, program, indexes, reply } => spawn("compilation of scripts", async move {
                let installed = thread.install(generation, program, indexes).await;
                // The receiver may be gone.
                let _ = reply.send(installed);
            }),
            Job::Transform(TransformJob::Apply { number, body, reply }) => {
                spawn("transformation of an object", async move {
                    let engine = engine::of_thread(Sizes::of(&Limits::default()));
                    reply(thread.transforms.apply(number, engine, body).await);
                });
            }
            Job::Uninstall(generation) => drop(self.generations.borrow_mut().remove(&generation)),
            Job::Forget(name) => self.memos.forget(&name),
            Job::Transform(TransformJob::Forget(number)) => self.transforms.forget(number),
            // The receiver may be gone.
            Job::Count(reply) => drop(reply.send(self.kept())),
        }
    }

    fn kept(&self) -> MemoryCounts {
        let generations = self.generations.borrow();
        MemoryCounts {
            memos: self.memos.len(),
            conditions: generations.values().map(|scripts| scripts.conditions()).sum(),
            transforms: self.transforms.len(),
            generations: generations.len(),
        }
    }

    async fn install(
        self: &Rc<Self>,
        generation: u64,
        program: Arc<Program>,
        indexes: Arc<Indexes>,
    ) -> Result<(), Vec<Problem>> {
        let engine = engine::of_thread(Sizes::of(&Limits::default()));
        let declaration = &program.declaration;
        let (root, allow, templates) =
            (declaration.root.clone(), declaration.allow.clone(), Arc::clone(&program.templates));
        let permissions = Arc::clone(&program.permissions);
        let ThreadSettings { clock, seed, api, credentials, outside, shared, .. } = self.settings.clone();
        let rng = seed.map_or_else(Rng::default, Rng::seeded);
        let (memos, transforms) = (Rc::clone(&self.memos), Rc::clone(&self.transforms));
        let environment = |modules| Environment {
            clock,
            rng,
            api,
            credentials,
            outside,
            root,
            allow,
            templates,
            permissions,
            modules,
            memos,
            indexes,
            shared,
            transforms,
            engine_like: engine::like,
        };
        let scripts = Scripts::compile(Arc::clone(&program), &engine, environment).await?;
        self.generations.borrow_mut().insert(generation, scripts);
        Ok(())
    }

    /// In virtual time, the order of calls must not depend on the machine.
    fn slices(&self) -> Slices {
        if self.settings.clock.is_virtual() { Slices::Operations } else { Slices::Time }
    }

    fn generation(&self, number: u64) -> Option<Rc<Scripts>> {
        self.generations.borrow().get(&number).cloned()
    }

    async fn call(self: Rc<Self>, job: CallJob) {
        let CallJob { generation, call, mut reply, permit } = job;
        self.calls.set(self.calls.get() + 1);
        let returned = tokio::select! {
            biased;
            // The call is no longer awaited: dropping it ends the script.
            () = reply.closed() => return,
            returned = self.run_call(generation, call) => returned,
        };
        drop(permit);
        // The receiver may be gone by now; nothing was stored on the object then.
        let _ = reply.send(returned);
    }

    async fn run_call(&self, generation: u64, call: Box<Call>) -> Returned {
        let uncalled = |patch, text: String| Returned::new(verdict::failed(text, None), patch);
        let Some(scripts) = self.generation(generation) else {
            return uncalled(call.patch, "the scripts of the operator are not there any more".to_owned());
        };
        let declaration = Rc::clone(&scripts);
        let Some((binding, function)) =
            declaration.program.declaration.bindings.get(call.target).zip(scripts.binding(call.target))
        else {
            return uncalled(call.patch, format!("the operator has no binding number {}", call.target));
        };
        if !call.subject.fits(binding.kind) {
            return uncalled(
                call.patch,
                format!("the binding number {} is not called for such a subject", call.target),
            );
        }
        let call_target = call.target;
        let Call { subject, patch, retry, started, param, subhandling, stop, span, .. } = *call;
        let budget = Budget::new(&binding.limits, stop).with_slices(self.slices()).titled(title(binding, &subject));
        let budget = budget.counted_in(Arc::clone(&self.settings.process_memory));
        let budget = match scripts.program.call_rates.get(call_target) {
            Some(call_rate) => budget.sharing(Arc::clone(call_rate)),
            None => budget,
        };
        let budget = Rc::new(if binding.kind == BindingKind::Daemon { budget.refilled_by_waits() } else { budget });
        let _end = EndOfCall(Rc::clone(&budget));
        let turn = subject.turn();
        let temporary_memo =
            subject.temporary_memo().map(|name| TemporaryMemo { memos: Rc::clone(&self.memos), name: name.to_owned() });
        let is_startup = matches!(subject, Subject::Activity { activity: Activity::Startup, .. });
        let execution = Rc::new(Execution {
            engine: engine::of_thread(Sizes::of(&binding.limits)),
            budget: Rc::clone(&budget),
            outputs: Outputs::of(&subject, patch),
            subhandling,
            span,
            mode: if binding.kind == BindingKind::Login { Mode::Login } else { Mode::Function },
            notes: RefCell::default(),
            scripts: Rc::clone(&scripts),
        });
        let code = execution::Code::Binding(Rc::clone(function));
        let attempt = {
            let execution = Rc::clone(&execution);
            move || {
                let handler = execution.subhandling.as_ref().map(|subhandling| Arc::clone(&subhandling.parent));
                execution.attempt(Task { handler, code: &code, subject, param: &param, retry, started }).0
            }
        };
        let verdict = match Fiber::new(Rc::clone(&budget), attempt) {
            Err(error) => verdict::failed(format!("no memory for running the script: {error}"), None),
            Ok(fiber) => match self.turns.take_turns(&turn, Rc::clone(&budget), fiber).await {
                Ok(verdict) => verdict,
                Err(panic) => verdict::failed(format!("the interpreter failed: {}", panic_text(&*panic)), None),
            },
        };
        let is_cancelled = budget.ending() == Some(Ending::Cancelled);
        let Notes { records, mut subrefs, messages, attempts, entries, answer } = execution.notes.take();
        subrefs.sort();
        subrefs.dedup();
        drop(temporary_memo);
        let (patch, warnings) = (execution.outputs.patch.take(), execution.outputs.warnings.take());
        let settings = is_startup.then(|| execution.outputs.settings.take());
        let (operations, overrun) = (budget.used_operations(), budget.overrun_limit());
        Returned {
            verdict,
            patch,
            records,
            subrefs,
            messages,
            attempts,
            entries,
            warnings,
            answer,
            settings,
            self_writes: budget.take_self_writes(),
            operations,
            overrun,
            is_cancelled,
        }
    }

    async fn evaluate<T: 'static>(self: Rc<Self>, job: EvaluateJob<T>, read: fn(&Dynamic) -> Result<T, Failure>) {
        let EvaluateJob { generation, subject, evaluation, mut reply, permit } = job;
        let value = tokio::select! {
            biased;
            () = reply.closed() => return,
            value = self.run_expression(generation, subject, evaluation, read) => value,
        };
        drop(permit);
        let _ = reply.send(value);
    }

    async fn run_expression<T: 'static>(
        &self,
        generation: u64,
        subject: Subject,
        evaluation: Evaluation,
        read: fn(&Dynamic) -> Result<T, Failure>,
    ) -> Result<T, String> {
        let scripts = self
            .generation(generation)
            .ok_or_else(|| "the scripts of the operator are not there any more".to_owned())?;
        let number = evaluation.predicate.0;
        let function = scripts
            .expression(number)
            .cloned()
            .ok_or_else(|| format!("the operator has no expression number {number}"))?;
        let limits = Limits { time: Some(EXPRESSION_TIME), ..Limits::default() };
        let budget =
            Budget::new(&limits, Stop::new()).with_slices(self.slices()).titled(about(&function.title, "", &subject));
        let budget = Rc::new(budget.counted_in(Arc::clone(&self.settings.process_memory)));
        let _end = EndOfCall(Rc::clone(&budget));
        let engine = engine::of_thread(Sizes::of(&limits));
        let memos = Rc::clone(&self.memos);
        let context_budget = Rc::clone(&budget);
        let run = move || {
            let environment = Rc::clone(&scripts.environment);
            let context = Context::new(environment, context_budget, Mode::Expression);
            let context = context.about(subject.clone(), tracing::Span::current());
            let environment = Rc::clone(&scripts.environment);
            let offer = Offer {
                subject: &subject,
                outputs: &Outputs::of(&subject, Patch::default()),
                memos: &memos,
                indexes: &environment.indexes,
                shared: &environment.shared,
                is_writable: false,
                attempt: None,
                candidate: &evaluation.candidate,
            };
            let values = offer.values(function.params.iter().map(ImmutableString::as_str));
            let ended = values.map_err(Into::into).and_then(|values| function.run(&engine, &context, values));
            let explained = |error| {
                let report = trace::describe(
                    error,
                    &function.title,
                    function.global.source().unwrap_or_default(),
                    scripts.origins(),
                );
                format!("{}\n{}", report.text, report.trace)
            };
            ended.and_then(|ended| Ok(read(&ended.value())?)).map_err(explained)
        };
        let fiber = Fiber::new(budget, run).map_err(|error| format!("no memory for an expression: {error}"))?;
        fiber.await.unwrap_or_else(|panic| Err(format!("the interpreter failed: {}", panic_text(&*panic))))
    }
}

/// Spawns a task on the current thread. A panic drops the sender of its answer, and is logged.
fn spawn(name: &'static str, task: impl Future<Output = ()> + 'static) {
    // Combinators: an `async` block would have a place for the task before its first poll, and another one for the time
    // after it.
    drop(spawn_local(AssertUnwindSafe(task).catch_unwind().map(move |ended| {
        if let Err(panic) = ended {
            report_panic(name, &panic_text(&*panic));
        }
    })));
}

/// Returns the script, the handler and the object of a call, for the report of a stack overflow. Names of objects come
/// from users of the cluster, so control characters are escaped.
fn title(binding: &Binding, subject: &Subject) -> String {
    let code = match &binding.code {
        Code::Function { file, name } => format!("{}, function `{name}`", file.display()),
        Code::Inline { place, .. } => format!("{}:{}", place.file.display(), place.line),
    };
    about(&format!("`{}`", binding.id), &code, subject)
}

fn about(handler: &str, code: &str, subject: &Subject) -> String {
    let object = subject.body().map(|body| format!("object {}", ObjectKey::of(&body)));
    let details: Vec<&str> =
        [code, object.as_deref().unwrap_or_default()].into_iter().filter(|detail| !detail.is_empty()).collect();
    visible::one_line(&[handler, " (", &details.join(", "), ")"].concat()).into_owned()
}

/// Releases the shared state that a call holds, however it ends.
struct EndOfCall(Rc<Budget>);

impl Drop for EndOfCall {
    fn drop(&mut self) {
        self.0.held().release();
        self.0.report(0);
    }
}

/// Forgets a memo at the end of its call, however that ends.
struct TemporaryMemo {
    memos: Rc<Memos>,
    name: String,
}

impl Drop for TemporaryMemo {
    fn drop(&mut self) {
        self.memos.forget(&self.name);
    }
}

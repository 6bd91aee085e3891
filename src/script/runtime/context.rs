//! The context of a call for host functions: it travels with the call as the interpreter's tag.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rhai::{Dynamic, Engine, EvalAltResult, FnPtr, Map, NativeCallContext};

use super::budget::Budget;
use super::fiber;
use super::rng::Rng;
use crate::kit::Clock;
use crate::object::Body;
use crate::script::interface::declaration::Allow;
use crate::script::interface::rights::Permissions;
use crate::script::interface::subject::Subject;
use crate::script::outside::Outside;
use crate::script::outside::api::{Api, Credentials};
use crate::script::sources::modules::Modules;
use crate::script::sources::template_files::Templates;
use crate::script::values::index::Indexes;
use crate::script::values::memo::Memos;
use crate::script::values::script_error::Failure;
use crate::script::values::shared::SharedData;
use crate::script::values::transforms::Transforms;

/// One call of a script. Cheap to clone; it never leaves its thread.
#[derive(Clone)]
pub(crate) struct Context(Rc<Inner>);

struct Inner {
    environment: Rc<Environment>,
    budget: Rc<Budget>,
    mode: Mode,
    span: tracing::Span,
    subject: Option<Subject>,
    subhandlers: Option<Rc<dyn Subhandlers>>,
}

/// Access of host functions to the sub-handlers of one call.
pub(crate) trait Subhandlers {
    /// Registers a sub-handler.
    ///
    /// # Errors
    /// If its id, its options or its function cannot be used.
    fn register(
        &self,
        native: &NativeCallContext<'_>,
        id: &str,
        options: Map,
        function: &FnPtr,
    ) -> Result<(), Box<EvalAltResult>>;

    /// Runs all registered sub-handlers. Returns only if all of them have finished.
    ///
    /// # Errors
    /// The end of the call if one of them has not finished, and failures of filters.
    fn execute(&self, context: &Context) -> Result<(), Box<EvalAltResult>>;
}

/// The shared state of all calls of one operator on one thread.
pub(crate) struct Environment {
    /// The clock.
    pub clock: Clock,
    /// The random number generator.
    pub rng: Rng,
    /// The cluster, if there is one.
    pub api: Option<Arc<dyn Api>>,
    /// The credentials of the built-in logins, if there are any.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// The world outside of the cluster.
    pub outside: Outside,
    /// The root of scripts, imports and templates.
    pub root: PathBuf,
    /// The allowed access beyond the cluster.
    pub allow: Allow,
    /// The templates, as they were when the scripts were loaded.
    pub templates: Arc<Templates>,
    /// The requests to the cluster that the scripts may send.
    pub permissions: Arc<Permissions>,
    /// The importable modules.
    pub modules: Modules,
    /// The memories of objects.
    pub memos: Rc<Memos>,
    /// The indexes of the operator.
    pub indexes: Arc<Indexes>,
    /// The shared data of the operator.
    pub shared: Arc<SharedData>,
    /// The transformations registered by scripts.
    pub transforms: Rc<Transforms>,
    /// Returns the interpreter of the thread with the sizes of another one.
    pub engine_like: fn(&Engine) -> Rc<Engine>,
}

/// The kind of the running code, which decides what it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A function: no restrictions.
    Function,
    /// The function of a login activity: there is no cluster yet.
    Login,
    /// An expression: it may only read its arguments.
    Expression,
    /// The top level of a file, which runs once per load: it may read only environment variables.
    TopLevel,
    /// A transformation of a body, which may run several times: it must not wait.
    Transform,
}

impl Mode {
    fn title(self) -> &'static str {
        match self {
            Self::Function => "functions",
            Self::Login => "login functions",
            Self::Expression => "expressions",
            Self::TopLevel => "the top level of a file",
            Self::Transform => "transformations",
        }
    }
}

impl Context {
    /// Returns the context of a call.
    pub(crate) fn new(environment: Rc<Environment>, budget: Rc<Budget>, mode: Mode) -> Self {
        let span = tracing::Span::none();
        Self(Rc::new(Inner { environment, budget, mode, span, subject: None, subhandlers: None }))
    }

    /// Returns the context of a call for a subject.
    pub(crate) fn about(self, subject: Subject, span: tracing::Span) -> Self {
        let Inner { environment, budget, mode, .. } = &*self.0;
        let (environment, budget) = (Rc::clone(environment), Rc::clone(budget));
        Self(Rc::new(Inner { environment, budget, mode: *mode, span, subject: Some(subject), subhandlers: None }))
    }

    /// Returns the context of a call that may have sub-handlers.
    pub(crate) fn with_subhandlers(self, subhandlers: Rc<dyn Subhandlers>) -> Self {
        let Inner { environment, budget, mode, span, subject, .. } = &*self.0;
        Self(Rc::new(Inner {
            environment: Rc::clone(environment),
            budget: Rc::clone(budget),
            mode: *mode,
            span: span.clone(),
            subject: subject.clone(),
            subhandlers: Some(subhandlers),
        }))
    }

    /// Returns the context of a closure that runs on a fiber of its own, with the budget of that fiber.
    pub(crate) fn of_child(&self, budget: Rc<Budget>) -> Self {
        let Inner { environment, mode, span, subject, .. } = &*self.0;
        let (environment, span, subject) = (Rc::clone(environment), span.clone(), subject.clone());
        Self(Rc::new(Inner { environment, budget, mode: *mode, span, subject, subhandlers: None }))
    }

    /// Returns the context that a host function is called in.
    ///
    /// # Errors
    /// If the interpreter was started without one, which is a bug of kopfd.
    pub(crate) fn of(native: &NativeCallContext<'_>) -> Result<Self, Box<EvalAltResult>> {
        let tag = native.tag().and_then(|tag| tag.read_lock::<Self>().map(|context| context.clone()));
        tag.ok_or_else(|| Failure::host("internal", "this function was called outside of any call of a handler").into())
    }

    /// Returns the interpreter's tag for the call.
    pub(crate) fn tag(&self) -> Dynamic {
        Dynamic::from(self.clone())
    }

    /// Returns the shared state of the operator's calls.
    pub(crate) fn environment(&self) -> &Rc<Environment> {
        &self.0.environment
    }

    /// Returns the budget of the call.
    pub(crate) fn budget(&self) -> &Rc<Budget> {
        &self.0.budget
    }

    /// Returns the kind of the running code.
    pub(crate) fn mode(&self) -> Mode {
        self.0.mode
    }

    /// Returns the span that the call's log lines belong to.
    pub(crate) fn span(&self) -> &tracing::Span {
        &self.0.span
    }

    /// Returns the sub-handlers of the call; `None` if it cannot have any.
    pub(crate) fn subhandlers(&self) -> Option<&Rc<dyn Subhandlers>> {
        self.0.subhandlers.as_ref()
    }

    /// Returns the subject of the call; `None` for the top level of a file.
    pub(crate) fn subject(&self) -> Option<&Subject> {
        self.0.subject.as_ref()
    }

    /// Returns the object that is handled.
    pub(crate) fn body(&self) -> Option<Body> {
        self.subject().and_then(Subject::body)
    }

    /// Returns the namespace of the object that is handled.
    pub(crate) fn namespace(&self) -> Option<String> {
        self.body().and_then(|body| body.namespace().map(str::to_owned))
    }

    /// Returns the clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.0.environment.clock
    }

    /// Returns the templates.
    pub(crate) fn templates(&self) -> &Arc<Templates> {
        &self.0.environment.templates
    }

    /// Returns the root of scripts and templates.
    pub(crate) fn root(&self) -> &Path {
        &self.0.environment.root
    }

    /// Returns the allowed access beyond the cluster.
    pub(crate) fn allow(&self) -> &Allow {
        &self.0.environment.allow
    }

    /// Returns the world outside of the cluster.
    pub(crate) fn outside(&self) -> &Outside {
        &self.0.environment.outside
    }

    /// Returns the permissions of the scripts in the cluster.
    pub(crate) fn permissions(&self) -> &Permissions {
        &self.0.environment.permissions
    }

    /// Returns the credentials of the built-in logins.
    ///
    /// # Errors
    /// Outside of login functions.
    pub(crate) fn credentials(&self, function: &str) -> Result<Arc<dyn Credentials>, Box<EvalAltResult>> {
        if self.mode() != Mode::Login {
            return Err(
                Failure::host("unavailable", format!("`{function}` is available in login functions only")).into()
            );
        }
        let credentials = self.0.environment.credentials.clone();
        credentials.ok_or_else(|| {
            Failure::host("unavailable", format!("`{function}` has no credentials to look for here")).into()
        })
    }

    /// Returns the cluster.
    ///
    /// # Errors
    /// If there is no cluster, or this code may not call it.
    pub(crate) fn cluster(&self, function: &str) -> Result<Arc<dyn Api>, Box<EvalAltResult>> {
        if self.mode() != Mode::Function {
            return Err(self.refusal(function));
        }
        let api = self.0.environment.api.clone();
        let is_of_leader = self.subject().is_none_or(Subject::is_of_leader);
        let api = api.map(|api| api.of_every_replica().filter(|_| !is_of_leader).unwrap_or(api));
        api.ok_or_else(|| {
            Failure::host("unavailable", format!("`{function}` needs a cluster, and there is none")).into()
        })
    }

    /// Returns the cluster, and counts a call of it.
    ///
    /// # Errors
    /// If there is no cluster, this code may not call it, or the budget of calls is used up.
    pub(crate) fn api(&self, function: &str) -> Result<Arc<dyn Api>, Box<EvalAltResult>> {
        let api = self.cluster(function)?;
        self.budget().count_api_call()?;
        Ok(api)
    }

    /// Checks that a host function may write, wait or log.
    ///
    /// # Errors
    /// In code that may only read.
    pub(crate) fn acts(&self, function: &str) -> Result<(), Box<EvalAltResult>> {
        match self.mode() {
            Mode::Function | Mode::Login => Ok(()),
            Mode::Transform if is_log(function) => Ok(()),
            _ => Err(self.refusal(function)),
        }
    }

    /// Checks that a host function may depend on time or randomness.
    ///
    /// # Errors
    /// In expressions, which must give the same answer for the same object, and at the top level, which runs once per
    /// thread.
    pub(crate) fn varies(&self, function: &str) -> Result<(), Box<EvalAltResult>> {
        match self.mode() {
            Mode::Function | Mode::Login | Mode::Transform => Ok(()),
            Mode::Expression | Mode::TopLevel => Err(self.refusal(function)),
        }
    }

    fn refusal(&self, function: &str) -> Box<EvalAltResult> {
        Failure::host("unavailable", format!("`{function}` is not available in {}", self.mode().title())).into()
    }
}

fn is_log(function: &str) -> bool {
    // Methods have only their bare name here: the levels of the logger, and the printing functions.
    matches!(function, "print" | "debug" | "info" | "warning" | "error")
}

/// How long a wait is for which the stack of the script is tidied up.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// Waits for a future on behalf of a host function, as long as the call may last. The thread runs other tasks in the
/// meantime.
///
/// The caller must not hold anything that other scripts of the thread need: no borrowed cell, no lock.
///
/// # Errors
/// If the call must end; the script cannot catch it.
pub(crate) fn wait_in<F: Future>(context: &Context, future: F) -> Result<F::Output, Box<EvalAltResult>> {
    let budget = prepare_wait(context)?;
    fiber::wait(unless_ended(budget, future))
}

/// Waits like [`wait_in`] for a future that takes this long, unless something else ends it; `None` is a wait without an
/// end.
///
/// # Errors
/// If the call must end; the script cannot catch it.
pub(crate) fn wait_at_most<F: Future>(
    context: &Context,
    limit: Option<Duration>,
    future: F,
) -> Result<F::Output, Box<EvalAltResult>> {
    let budget = prepare_wait(context)?;
    if let Some(live) = context.subject().and_then(Subject::live) {
        live.rest(limit);
    }
    let waiting = unless_ended(budget, future);
    if limit.is_none_or(|limit| limit >= LONG_WAIT) { fiber::rest(waiting) } else { fiber::wait(waiting) }
}

fn prepare_wait(context: &Context) -> Result<&Budget, Box<EvalAltResult>> {
    if !fiber::is_fiber() {
        return Err(Failure::host("internal", "this code cannot wait here").into());
    }
    let budget = context.budget();
    budget.check()?;
    if budget.held().is_updating() {
        let text =
            "the function of `shared.update` must not wait: take a lock by `shared.lock`, then use `get` and `set`";
        return Err(Failure::host("unavailable", text).into());
    }
    budget.held().release_for_wait();
    Ok(budget)
}

/// Waits for a future, unless the call must end before.
///
/// # Errors
/// If the call must end.
pub(crate) async fn unless_ended<F: Future>(budget: &Budget, future: F) -> Result<F::Output, Box<EvalAltResult>> {
    tokio::select! {
        biased;
        ending = budget.ended() => Err(ending),
        output = future => Ok(output),
    }
}

/// Runs scripts for tests of host functions.
#[cfg(test)]
pub(crate) mod testing {
    use std::rc::Rc;
    use std::sync::Arc;

    use rhai::{Dynamic, EvalAltResult};

    use super::super::budget::Budget;
    use super::super::fiber::Fiber;
    use super::super::rng::Rng;
    use super::{Context, Environment, Mode};
    use crate::kit::{Clock, Stop};
    use crate::script::interface::declaration::Allow;
    use crate::script::interface::rights::Permissions;
    use crate::script::interpreter::engine::{Sizes, build};
    use crate::script::limits::Limits;
    use crate::script::outside::Outside;
    use crate::script::sources::modules::Modules;
    use crate::script::values::memo::Memos;
    use crate::script::values::transforms::Transforms;

    /// Returns an environment without a cluster, at the beginning of 2020.
    pub(crate) fn environment() -> Environment {
        Environment {
            clock: Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap()),
            rng: Rng::seeded(1),
            api: None,
            credentials: None,
            outside: Outside::default(),
            root: "tests".into(),
            allow: Allow::default(),
            templates: Arc::default(),
            permissions: Arc::new(Permissions::everything()),
            modules: Modules::default(),
            memos: Rc::new(Memos::new(Arc::default())),
            indexes: Arc::default(),
            shared: Arc::default(),
            transforms: Rc::new(Transforms::new(Arc::new(drop))),
            engine_like: crate::script::interpreter::engine::like,
        }
    }

    /// Runs a script in a call of this kind, on a fiber, with the default limits.
    pub(crate) async fn run_in(context: Context, script: &str) -> Result<Dynamic, Box<EvalAltResult>> {
        let script = script.to_owned();
        let budget = Rc::clone(context.budget());
        let run = move || {
            let mut engine = build(Sizes::of(&Limits::default()));
            engine.set_default_tag(context.tag());
            engine.eval::<Dynamic>(&script)
        };
        Fiber::new(budget, run).unwrap().await.unwrap()
    }

    /// Runs a script in the mode of functions.
    pub(crate) async fn run(script: &str) -> Result<Dynamic, Box<EvalAltResult>> {
        run_as(Mode::Function, environment(), script).await
    }

    /// Runs a script in an environment.
    pub(crate) async fn run_as(
        mode: Mode,
        environment: Environment,
        script: &str,
    ) -> Result<Dynamic, Box<EvalAltResult>> {
        let budget = Rc::new(Budget::new(&Limits::default(), Stop::new()));
        run_in(Context::new(Rc::new(environment), budget, mode), script).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_script_sleeps_in_virtual_time() {
        let begun = tokio::time::Instant::now();
        assert!(run("sleep(1); sleep(0.5); sleep(`30m`)").await.unwrap().is_unit());
        assert_eq!(begun.elapsed().as_millis() / 100, 18_015);
        assert!(run_as(Mode::Expression, environment(), "sleep(1)").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn terminations_cannot_be_caught() {
        let limits = Limits { operations: 100_000, ..Limits::default() };
        let budget = Rc::new(Budget::new(&limits, Stop::new()));
        let spinning =
            run_in(Context::new(Rc::new(environment()), budget, Mode::Function), "try { loop {} } catch {} 42");
        for ended in [spinning.await, run("try { sleep(`2h`) } catch {} 42").await] {
            let error = ended.unwrap_err();
            assert!(matches!(*error, EvalAltResult::ErrorTerminated(..)), "{error}");
        }
    }
}

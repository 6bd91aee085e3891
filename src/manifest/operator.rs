//! A checked operator: the contents of its manifest.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use crate::handling::admission::{SideEffects, Webhook};
pub(crate) use crate::handling::hook::Hook;
pub(crate) use crate::handling::schedule::CronSchedule;
pub(crate) use crate::handling::timer::{Rhythm, Ticks};
use crate::handling::{Handler, Policy, Predicate};
use crate::kit::source::SourcePosition;
use crate::object::Selector;
use crate::script::check::Scripts;
use crate::script::interface::access::Calls;
use crate::script::{Declaration, Problem, Program};

use super::diagnostic::{Diagnostic, Severity, Snippet};
use super::settings::Settings;

/// One operator.
#[derive(Debug, Clone, Default)]
pub struct Operator {
    /// Its name, which is its field manager.
    pub name: String,
    /// The file of its manifest.
    pub file: PathBuf,
    /// The text of that file.
    pub text: Arc<str>,
    /// The position of its name.
    pub place: SourcePosition,
    /// Handlers of changes and of raw events, in the order of declaration.
    pub handlers: Vec<Handler>,
    /// Timers.
    pub timers: Vec<Timer>,
    /// Daemons.
    pub daemons: Vec<Daemon>,
    /// Indexes; their ids are their names.
    pub indexes: Vec<Handler>,
    /// Validating and mutating webhooks.
    pub webhooks: Vec<Webhook>,
    /// Conversion webhooks.
    pub conversions: Vec<Handler>,
    /// Level-triggered reconciliations.
    pub reconciles: Vec<Reconcile>,
    /// Activities.
    pub activities: Vec<Activity>,
    /// Schedules.
    pub schedules: Vec<Schedule>,
    /// Hooks.
    pub hooks: Vec<Hook>,
    /// All code; bindings and expressions are referred to by number.
    pub declaration: Declaration,
    /// The requests to the cluster that the check finds in the code.
    pub calls: Calls,
    /// The files of the code as they were read and checked with the manifest.
    pub scripts: Option<Arc<Scripts>>,
    /// The default error policy, also of sub-handlers.
    pub defaults: Policy,
    /// The settings.
    pub settings: Settings,
    /// The kinds in the manifest, with their positions.
    pub kinds: Vec<NamedKind>,
    /// The files of custom resource definitions.
    pub crds: Vec<PathBuf>,
    /// The texts of these files.
    pub definitions: Vec<Arc<str>>,
    /// All files that were read: the manifest, definitions of kinds, scripts with their imports, and templates.
    pub files: Vec<PathBuf>,
    /// The error for webhooks without a server, for runs on a cluster; the embedded API server needs none.
    pub missing_server: Option<Diagnostic>,
    /// The line of the manifest with its name.
    pub snippet: Option<Snippet>,
    /// The declared parts that this version does not support.
    pub unsupported: Vec<Unsupported>,
}

/// A kind in a manifest.
#[derive(Debug, Clone)]
pub struct NamedKind {
    /// The selector.
    pub selector: Selector,
    /// Its text.
    pub text: String,
    /// Its position, as a diagnostic without a message.
    pub place: Diagnostic,
}

/// A part that this version cannot run, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// Its name, in the plural.
    pub what: &'static str,
    /// Its position, as a diagnostic without a message.
    pub place: Diagnostic,
}

impl Unsupported {
    fn refusal(&self) -> Diagnostic {
        let message = if self.place.severity == Severity::Error {
            format!("{} are not supported by this version", self.what)
        } else {
            format!("{} are not supported by this version and have no effect", self.what)
        };
        Diagnostic { message, ..self.place.clone() }
    }

    fn warning(&self) -> Diagnostic {
        if self.place.severity != Severity::Error {
            return self.refusal();
        }
        let message = format!(
            "{} are checked, but this version does not run them: `run`, `dev` and `test` refuse them",
            self.what
        );
        Diagnostic { message, severity: Severity::Warning, ..self.place.clone() }
    }
}

/// A function that is called at intervals for an object.
#[derive(Debug, Clone)]
pub struct Timer {
    /// The common part of all handlers.
    pub handler: Handler,
    /// When it is called.
    pub rhythm: Rhythm,
    /// How long the object must be unchanged before it is called.
    pub idle: Option<Duration>,
    /// The delay after the first event of the object.
    pub initial_delay: Option<Delay>,
}

/// A fixed or computed delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delay {
    /// A constant.
    Fixed(Duration),
    /// The value of the expression.
    Expression(Predicate),
}

/// A function that runs as long as an object exists.
#[derive(Debug, Clone)]
pub struct Daemon {
    /// The common part of all handlers.
    pub handler: Handler,
    /// The delay after the first event of the object.
    pub initial_delay: Option<Delay>,
    /// The time to stop by itself.
    pub cancellation_backoff: Option<Duration>,
    /// The time after which it is abandoned.
    pub cancellation_timeout: Option<Duration>,
    /// The interval of checks on a stopping daemon.
    pub cancellation_polling: Option<Duration>,
}

/// A level-triggered reconciliation.
#[derive(Debug, Clone)]
pub struct Reconcile {
    /// The common part of all handlers.
    pub handler: Handler,
    /// The kinds of children.
    pub owns: Vec<Selector>,
    /// Related kinds, and the numbers of the bindings that map them.
    pub watches: Vec<(Selector, usize)>,
    /// The interval of runs without a change.
    pub resync: Option<Duration>,
    /// Whether obsolete children are deleted.
    pub prune: bool,
    /// The number of the binding that is called at the deletion.
    pub finalize: Option<usize>,
}

/// A function that is called once or repeatedly for the operator.
#[derive(Debug, Clone)]
pub struct Activity {
    /// The common part of all handlers.
    pub handler: Handler,
    /// When it is called.
    pub moment: Moment,
}

/// When an activity is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before anything else.
    Startup,
    /// After everything else.
    Cleanup,
    /// When credentials are needed.
    Login,
    /// When the liveness is probed.
    Probe,
}

/// A function that is called by a cron expression.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// The common part of all handlers.
    pub handler: Handler,
    /// When it is called.
    pub schedule: CronSchedule,
}

impl Operator {
    /// Returns a short digest of all files of the operator, the same on all machines.
    pub fn revision(&self, program: &Program) -> String {
        program.revision(&self.text, self.definitions.iter().map(AsRef::as_ref))
    }

    /// Loads its code.
    ///
    /// # Errors
    /// All problems, including warnings, if there is an error among them.
    pub fn program(&self) -> Result<Program, Vec<Problem>> {
        match &self.scripts {
            Some(scripts) => Program::load_again(self.declaration.clone(), scripts),
            None => Program::load(self.declaration.clone()),
        }
    }

    /// Returns an error for each part that this version cannot run.
    pub fn refuse_unsupported(&self) -> Vec<Diagnostic> {
        self.unsupported.iter().map(Unsupported::refusal).collect()
    }

    /// Returns a warning for each part that this version checks but does not run.
    pub fn warn_of_unsupported(&self) -> Vec<Diagnostic> {
        self.unsupported.iter().map(Unsupported::warning).collect()
    }

    /// Returns the handlers that are called for objects: of changes, raw events, timers and daemons.
    pub fn object_handlers(&self) -> impl Iterator<Item = &Handler> {
        let timers = self.timers.iter().map(|timer| &timer.handler);
        self.handlers.iter().chain(timers).chain(self.daemons.iter().map(|daemon| &daemon.handler))
    }

    /// Returns the kinds on whose objects it stores a finalizer or progress.
    pub fn persisting_selectors(&self) -> impl Iterator<Item = &Selector> {
        self.object_handlers()
            .filter(|handler| handler.on.is_changing() || handler.on.is_spawning())
            .flat_map(|handler| &handler.selectors)
            .chain(self.reconciles.iter().flat_map(|reconcile| &reconcile.handler.selectors))
    }
}

#[cfg(test)]
mod tests {
    use crate::manifest;

    const MANIFEST: &str = "\
apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: things}
spec:
  resources:
    - resource: v1/configmaps
      script: a.rhai
      handlers: [{on: create, fn: made}]
";

    #[test]
    fn its_code_is_read_again_only_if_a_file_has_changed_since_the_manifest_was_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("operator.yaml", MANIFEST);
        write("a.rhai", "import \"b\" as b; fn made() { b::f(); template(\"t.yaml\"); }");
        write("b.rhai", "fn f() {}");
        write("t.yaml", "a: 1");
        let mut loaded = manifest::load(&[folder.path().join("operator.yaml")]);
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        let operator = loaded.operators.remove(0);
        let text_of_b = || operator.program().map(|program| program.sources["b.rhai"].to_string());

        let known = &operator.scripts.as_ref().unwrap().sources["b.rhai"];
        assert!(std::sync::Arc::ptr_eq(known, &operator.program().unwrap().sources["b.rhai"]), "nothing has changed");

        write("b.rhai", "fn f() { 1 }");
        assert_eq!(text_of_b().unwrap(), "fn f() { 1 }");
        write("t.yaml", "a: 2");
        assert_eq!(&*operator.program().unwrap().templates["t.yaml"], "a: 2");
        write("b.rhai", "fn f( {}");
        let problems = text_of_b().unwrap_err();
        assert!(problems.iter().any(|problem| problem.place.file.ends_with("b.rhai")), "{problems:?}");
        std::fs::remove_file(folder.path().join("b.rhai")).unwrap();
        assert!(text_of_b().is_err(), "the import is missing");
        write("b.rhai", "fn f() {}");
        assert_eq!(text_of_b().unwrap(), "fn f() {}");
    }
}

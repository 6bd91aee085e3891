//! A checked operator: everything that its manifest declares.

use std::path::PathBuf;
use std::time::Duration;

use croner::Cron;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::handling::{Handler, Policy, Predicate};
use crate::kit::source::SourcePosition;
use crate::object::Selector;
use crate::script::Declaration;

use super::diagnostic::{Diagnostic, Severity, Snippet};
use super::settings::Settings;

/// One operator.
#[derive(Debug, Clone, Default)]
pub struct Operator {
    /// Its name, which is its field manager.
    pub name: String,
    /// The file of its manifest.
    pub file: PathBuf,
    /// Where its name stands.
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
    /// All code; bindings and expressions are meant by their number.
    pub declaration: Declaration,
    /// How errors are taken where nothing else is said; sub-handlers take it from here.
    pub defaults: Policy,
    /// The settings.
    pub settings: Settings,
    /// The kinds that the manifest names, and where.
    pub kinds: Vec<NamedKind>,
    /// The files of custom resource definitions.
    pub crds: Vec<PathBuf>,
    /// The error that webhooks are declared without a server, which matters where the engine brings none.
    pub missing_server: Option<Diagnostic>,
    /// The line of the manifest with its name.
    pub snippet: Option<Snippet>,
    /// What is declared and checked, and not supported by this version.
    pub unsupported: Vec<Unsupported>,
}

/// A kind that a manifest names.
#[derive(Debug, Clone)]
pub struct NamedKind {
    /// Which kinds are meant.
    pub selector: Selector,
    /// How it is written.
    pub text: String,
    /// Where, as a diagnostic without words.
    pub place: Diagnostic,
}

/// Something that this version cannot run, and where it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// What it is, in the plural.
    pub what: &'static str,
    /// Where it is, as a diagnostic without words.
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
        let message = format!("{} are checked, but this version does not run them: `run`, `dev` and `test` refuse them", self.what);
        Diagnostic { message, severity: Severity::Warning, ..self.place.clone() }
    }
}

/// A function that is called at intervals for an object.
#[derive(Debug, Clone)]
pub struct Timer {
    /// What is common to all handlers.
    pub handler: Handler,
    /// When it is called.
    pub rhythm: Rhythm,
    /// How long the object must be unchanged before it is called.
    pub idle: Option<Duration>,
    /// How long after the first sight of the object it begins.
    pub initial_delay: Option<Delay>,
}

/// When a timer is called.
#[derive(Debug, Clone)]
pub enum Rhythm {
    /// Once.
    Once,
    /// After each interval.
    Interval {
        /// The interval.
        pause: Duration,
        /// Whether they count from the beginning of a call, not from its end.
        is_sharp: bool,
    },
    /// At the ticks of a clock.
    Cron(Box<Ticks>),
}

/// The ticks of a cron expression in a time zone.
#[derive(Debug, Clone)]
pub struct Ticks {
    /// The expression.
    pub cron: Cron,
    /// The time zone.
    pub timezone: TimeZone,
}

/// A delay that is known, or is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delay {
    /// This one.
    Fixed(Duration),
    /// What the expression yields.
    Expression(Predicate),
}

/// A function that runs along with an object.
#[derive(Debug, Clone)]
pub struct Daemon {
    /// What is common to all handlers.
    pub handler: Handler,
    /// How long after the first sight of the object it begins.
    pub initial_delay: Option<Delay>,
    /// The time that it has to stop by itself.
    pub cancellation_backoff: Option<Duration>,
    /// The time after which it is abandoned.
    pub cancellation_timeout: Option<Duration>,
    /// The interval at which one that does not stop is checked.
    pub cancellation_polling: Option<Duration>,
}

/// A validating or mutating webhook.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// What is common to all handlers.
    pub handler: Handler,
    /// Whether it may change the object.
    pub is_mutating: bool,
    /// The operations in capitals; empty for all.
    pub operations: Vec<String>,
    /// The subresource; none for the object itself.
    pub subresource: Option<String>,
    /// Whether it stays in the configuration when the operator is gone.
    pub is_persistent: bool,
    /// What is told about side effects.
    pub side_effects: SideEffects,
    /// Whether the API server goes on if the webhook fails.
    pub ignores_failures: bool,
    /// Conditions that the API server checks, as they are written.
    pub match_conditions: Vec<Value>,
    /// How long the API server waits for the answer: whole seconds.
    pub timeout: Duration,
}

/// What a webhook tells about side effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SideEffects {
    /// There are none.
    #[default]
    None,
    /// There are none on dry runs.
    NoneOnDryRun,
}

/// A level-triggered reconciliation.
#[derive(Debug, Clone)]
pub struct Reconcile {
    /// What is common to all handlers.
    pub handler: Handler,
    /// The kinds of children.
    pub owns: Vec<Selector>,
    /// Related kinds, and the numbers of the bindings that map them.
    pub watches: Vec<(Selector, usize)>,
    /// The interval of runs without any change.
    pub resync: Option<Duration>,
    /// Whether children that are no longer wanted are deleted.
    pub prune: bool,
    /// The number of the binding that is called at the deletion.
    pub finalize: Option<usize>,
}

/// A function that is called in the life of the operator.
#[derive(Debug, Clone)]
pub struct Activity {
    /// What is common to all handlers.
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
    /// When the liveness is asked for.
    Probe,
}

/// A function that is called at the ticks of a clock.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// What is common to all handlers.
    pub handler: Handler,
    /// When it is called.
    pub ticks: Ticks,
    /// Whether one missed tick is made up for.
    pub catches_up: bool,
}

impl Operator {
    /// Returns what keeps this version from running the operator: an error for each part that it cannot run.
    pub fn refuse_unsupported(&self) -> Vec<Diagnostic> {
        self.unsupported.iter().map(Unsupported::refusal).collect()
    }

    /// Returns a warning for each part that is checked, and that this version does not run.
    pub fn warn_of_unsupported(&self) -> Vec<Diagnostic> {
        self.unsupported.iter().map(Unsupported::warning).collect()
    }

    /// Returns the kinds on whose objects it keeps something: a finalizer or progress.
    pub fn persisting_selectors(&self) -> impl Iterator<Item = &Selector> {
        let handlers = self.handlers.iter().filter(|handler| handler.on.is_changing());
        handlers
            .chain(self.timers.iter().map(|timer| &timer.handler))
            .chain(self.daemons.iter().map(|daemon| &daemon.handler))
            .flat_map(|handler| &handler.selectors)
            .chain(self.reconciles.iter().flat_map(|reconcile| &reconcile.handler.selectors))
    }
}

//! What the engine tells about itself: the set-up of logging, and the form of its lines.

pub mod layer;
pub mod line;
pub mod reference;
pub mod tone;

use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

pub use tracing::subscriber::DefaultGuard;

use crate::kit::Clock;

pub use line::{Format, Line};
pub use reference::{ObjectReference, object_span};

/// The target of all lines about objects.
pub const OBJECTS: &str = "kopfd::objects";

/// How logging is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The form of the lines.
    pub format: Format,
    /// Which lines are shown.
    pub verbosity: Verbosity,
    /// The key of the object's reference in JSON lines.
    pub reference_key: String,
    /// Whether lines begin with the object; by default only lines for people do.
    pub prefix: Option<bool>,
    /// Whether lines that are told as an account have colours.
    pub has_colours: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: Format::default(),
            verbosity: Verbosity::default(),
            reference_key: "object".to_owned(),
            prefix: None,
            has_colours: false,
        }
    }
}

/// Which lines are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Warnings and errors.
    Quiet,
    /// What a user would notice.
    #[default]
    Normal,
    /// Why the engine takes its paths.
    Verbose,
    /// Everything, of the libraries too.
    Debug,
}

/// Starts logging to the standard error stream. Only the first call has an effect.
pub fn start(options: Options, clock: Clock) {
    let own = match options.verbosity {
        Verbosity::Quiet => Level::WARN,
        Verbosity::Normal => Level::INFO,
        Verbosity::Verbose | Verbosity::Debug => Level::DEBUG,
    };
    let others = if options.verbosity == Verbosity::Debug { LevelFilter::DEBUG } else { LevelFilter::WARN };
    // The client of Kubernetes tells every failed attempt as an error; the engine tells what it makes of them.
    let kube = if options.verbosity == Verbosity::Debug { LevelFilter::DEBUG } else { LevelFilter::OFF };
    let targets = Targets::new().with_default(others).with_target("kopfd", own).with_target("kube_client", kube);
    let _ = tracing_subscriber::registry().with(layer::Lines::new(options, clock).with_filter(targets)).try_init();
}

/// Hands what is told on the current thread to somebody, from the given level up, until the guard is dropped.
pub fn listen(level: Level, clock: Clock, hear: impl Fn(Line) + Send + Sync + 'static) -> DefaultGuard {
    let targets = Targets::new().with_default(LevelFilter::OFF).with_target("kopfd", level);
    tracing_subscriber::registry().with(layer::Hearing::new(hear, clock).with_filter(targets)).set_default()
}

//! What the engine tells about itself: the set-up of logging, and the form of its lines.

pub mod layer;
pub mod line;
pub mod reference;
pub mod tone;
pub mod writer;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

pub use tracing::subscriber::DefaultGuard;

use crate::kit::Clock;

pub use line::{Format, Line};
pub use reference::{ObjectReference, object_span};
pub use writer::Patience;

use layer::Printer;
use writer::Writer;

/// The writer of the standard error stream.
static STDERR: OnceLock<Writer> = OnceLock::new();

/// How long the end of the process waits for the reader of its lines.
pub const AT_END: Patience = Patience { stall: Duration::from_secs(1), total: Duration::from_secs(5) };

/// How long it waits if it is to end at once.
pub const AT_ONCE: Patience = Patience { stall: Duration::from_millis(200), total: Duration::from_secs(1) };

/// The target of all lines about objects.
pub const OBJECTS: &str = "kopfd::objects";

/// The target of those of them that tell the steps of an account, and are for debugging elsewhere.
const STEPS: &str = "kopfd::objects::steps";

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
    /// Whether lines of an account have colours.
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
    let steps = if options.format == Format::Account && own == Level::INFO { Level::DEBUG } else { own };
    let targets = Targets::new().with_default(others).with_target("kopfd", own).with_target("kube_client", kube);
    let targets = targets.with_target(STEPS, steps);
    let printer = Arc::new(Printer::new(options, std::io::stderr().is_terminal(), clock));
    start_writer(&printer);
    let _ = tracing_subscriber::registry().with(layer::Lines::new(printer).with_filter(targets)).try_init();
}

/// The writer has the stream for itself: whoever holds the lock of the standard library's would wait for the reader, too.
fn start_writer(printer: &Arc<Printer>) {
    let printer = Arc::clone(printer);
    let started = std::io::stderr()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|stream| Writer::start(File::from(stream), move |dropped| printer.notice(dropped)));
    if let Ok(writer) = started {
        let _ = STDERR.set(writer);
        std::panic::set_hook(Box::new(|panic| write(&panic_report(panic))));
    }
}

/// The default hook writes to the stream itself, and would wait for its reader.
fn panic_report(panic: &std::panic::PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let backtrace = Backtrace::capture();
    let backtrace = if backtrace.status() == BacktraceStatus::Captured { format!("{backtrace}\n") } else { String::new() };
    format!("thread '{}' {panic}\n{backtrace}", thread.name().unwrap_or("unnamed"))
}

/// Writes whole lines to the standard error stream, without waiting for its reader once logging has started.
pub fn write(lines: &str) {
    match STDERR.get() {
        Some(writer) => writer.write(lines),
        // There is nobody left to tell that the stream for telling is broken.
        None => drop(std::io::stderr().lock().write_all(lines.as_bytes())),
    }
}

/// Waits until all lines are written, as long as there is patience.
pub fn flush(patience: Patience) {
    if let Some(writer) = STDERR.get() {
        writer.flush(patience);
    }
}

/// Hands what is told on the current thread to somebody, from the given level up, until the guard is dropped.
pub fn listen(level: Level, clock: Clock, hear: impl Fn(Line) + Send + Sync + 'static) -> DefaultGuard {
    let targets = Targets::new().with_default(LevelFilter::OFF).with_target("kopfd", level);
    tracing_subscriber::registry().with(layer::Hearing::new(hear, clock).with_filter(targets)).set_default()
}

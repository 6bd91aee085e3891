//! Logging: its set-up, and the form of log lines. Metrics.

pub(crate) mod credentials;
pub(crate) mod layer;
pub(crate) mod line;
pub mod metrics;
pub(crate) mod options;
pub(crate) mod reference;
pub(crate) mod stderr;
pub(crate) mod style;
pub(crate) mod targets;
pub mod writer;

use std::io::IsTerminal as _;
use std::sync::Arc;

use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

pub use tracing::subscriber::DefaultGuard;

use crate::kit::Clock;

pub use line::{Format, Line};
pub use metrics::{KindMetrics, Metrics, OperatorMetrics};
pub use options::{Options, Verbosity};
pub use reference::{ObjectReference, object_span};
pub use stderr::{AT_END, AT_ONCE, flush, write};
pub(crate) use stderr::{batch_lines_of, write_lines_of_this_thread};
pub use writer::FlushLimits;

use layer::Printer;
use targets::STEPS;

/// Starts logging to standard error. Only the first call has an effect.
pub fn start(options: Options, clock: Clock) {
    let own = match options.verbosity {
        Verbosity::Quiet => Level::WARN,
        Verbosity::Normal => Level::INFO,
        Verbosity::Verbose | Verbosity::Debug => Level::DEBUG,
    };
    let others = if options.verbosity == Verbosity::Debug { LevelFilter::DEBUG } else { LevelFilter::WARN };
    // The Kubernetes client logs every failed attempt as an error; the engine logs the outcome.
    let kube = if options.verbosity == Verbosity::Debug { LevelFilter::DEBUG } else { LevelFilter::OFF };
    let steps = if options.format == Format::ChangeLog && own == Level::INFO { Level::DEBUG } else { own };
    let targets = Targets::new().with_default(others).with_target("kopfd", own).with_target("kube_client", kube);
    let targets = targets.with_target(STEPS, steps);
    let printer = Arc::new(Printer::new(options, std::io::stderr().is_terminal(), clock));
    stderr::start({
        let printer = Arc::clone(&printer);
        move |dropped| printer.notice(dropped)
    });
    let _ = tracing_subscriber::registry().with(layer::Lines::new(printer).with_filter(targets)).try_init();
}

/// Passes log lines of the current thread, of the given level and above, to a callback until the guard is dropped.
pub fn listen(level: Level, clock: Clock, callback: impl Fn(Line) + Send + Sync + 'static) -> DefaultGuard {
    let targets = Targets::new().with_default(LevelFilter::OFF).with_target("kopfd", level);
    tracing_subscriber::registry().with(layer::Callback::new(callback, clock).with_filter(targets)).set_default()
}

/// Collects the lines logged by this thread, of the given level and above, until the guard is dropped.
#[cfg(test)]
pub(crate) fn collect_lines(level: Level) -> (Arc<parking_lot::Mutex<Vec<Line>>>, DefaultGuard) {
    collect(level, |line| line)
}

/// Collects the messages of such lines.
#[cfg(test)]
pub(crate) fn collect_messages(level: Level) -> (Arc<parking_lot::Mutex<Vec<String>>>, DefaultGuard) {
    collect(level, |line| line.message)
}

#[cfg(test)]
fn collect<T: Send + 'static>(level: Level, part: fn(Line) -> T) -> (Arc<parking_lot::Mutex<Vec<T>>>, DefaultGuard) {
    let parts = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let collected = Arc::clone(&parts);
    let guard = listen(level, Clock::system(), move |line| collected.lock().push(part(line)));
    (parts, guard)
}

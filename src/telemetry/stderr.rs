//! Writes lines to standard error without waiting for its reader.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::sync::OnceLock;
use std::time::Duration;

use super::writer::{FlushLimits, Writer, batch_lines_of_this_thread};

/// Writes to standard error.
static STDERR: OnceLock<Writer> = OnceLock::new();

/// Time limits for the last lines at a normal exit of the process.
pub const AT_END: FlushLimits = FlushLimits { stall: Duration::from_secs(1), total: Duration::from_secs(5) };

/// Time limits for the last lines at an immediate exit.
pub const AT_ONCE: FlushLimits = FlushLimits { stall: Duration::from_millis(200), total: Duration::from_secs(1) };

/// Starts the writer thread, and installs a panic hook that uses it.
///
/// The writer owns a copy of the stream: code that holds the lock of `std::io::stderr` would wait for a slow reader,
/// too.
pub fn start(notice: impl Fn(u64) -> String + Send + 'static) {
    let started = std::io::stderr().as_fd().try_clone_to_owned().and_then(|stream| Writer::start(File::from(stream), notice));
    if let Ok(writer) = started {
        let _ = STDERR.set(writer);
        std::panic::set_hook(Box::new(|panic| write(&panic_report(panic))));
    }
}

/// Returns the text of the standard panic hook, which itself would write to the stream and wait for its reader.
fn panic_report(panic: &std::panic::PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let backtrace = Backtrace::capture();
    let backtrace = if backtrace.status() == BacktraceStatus::Captured { format!("{backtrace}\n") } else { String::new() };
    format!("thread '{}' {panic}\n{backtrace}", thread.name().unwrap_or("unnamed"))
}

/// Writes whole lines to standard error. Once logging has started, this never waits for the reader.
pub fn write(lines: &str) {
    match STDERR.get() {
        Some(writer) => writer.write(lines),
        // An error of standard error cannot be reported anywhere.
        None => drop(std::io::stderr().lock().write_all(lines.as_bytes())),
    }
}

/// Writes the lines of each thread of a runtime together, whenever the thread has nothing else to do.
pub(crate) fn batch_lines_of(runtime: &mut tokio::runtime::Builder) {
    // Threads of blocking work never park this way, so they are not told to batch.
    runtime.on_thread_park(|| {
        batch_lines_of_this_thread();
        if let Some(writer) = STDERR.get() {
            writer.announce();
        }
    });
}

/// Waits until all lines are written, within limits.
pub fn flush(limits: FlushLimits) {
    if let Some(writer) = STDERR.get() {
        writer.flush(limits);
    }
}

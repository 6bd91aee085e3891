//! Writes lines to standard error without waiting for its reader.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::OnceLock;
use std::time::Duration;

#[cfg(target_os = "linux")]
use {rustix::io::ReadWriteFlags, std::io::IoSlice};

use crate::kit::visible::{self, CONTINUATION};

use super::credentials;
use super::writer::{FlushLimits, WriteAtOnce, Writer, batch_lines_of_this_thread};

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
pub(crate) fn start(notice: impl Fn(u64) -> String + Send + 'static) {
    let stream = || std::io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let started = stream().and_then(|sink| Writer::start(sink, stream().ok().and_then(write_at_once), notice));
    if let Ok(writer) = started {
        let _ = STDERR.set(writer);
        std::panic::set_hook(Box::new(|panic| write(&panic_report(panic))));
    }
}

/// Returns how to write to the stream without waiting. Pipes can be asked to accept as much as they have space for,
/// since Linux 6.5; regular files have no reader to wait for. Terminals and sockets have none.
fn write_at_once(stream: File) -> Option<WriteAtOnce> {
    let file_type = stream.metadata().ok()?.file_type();
    if file_type.is_fifo() {
        return write_to_pipe_at_once(stream);
    }
    file_type.is_file().then(|| -> WriteAtOnce { Box::new(move |text| (&stream).write(text)) })
}

#[cfg(target_os = "linux")]
#[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
fn write_to_pipe_at_once(stream: File) -> Option<WriteAtOnce> {
    /// Stands for the current position.
    const NO_OFFSET: u64 = u64::MAX;
    Some(Box::new(move |text| {
        Ok(rustix::io::pwritev2(&stream, &[IoSlice::new(text)], NO_OFFSET, ReadWriteFlags::NOWAIT)?)
    }))
}

#[cfg(not(target_os = "linux"))]
fn write_to_pipe_at_once(_stream: File) -> Option<WriteAtOnce> {
    None
}

/// Returns the text of the standard panic hook, which itself would write to the stream and wait for its reader.
fn panic_report(panic: &std::panic::PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let backtrace = Backtrace::capture();
    let backtrace =
        if backtrace.status() == BacktraceStatus::Captured { format!("{backtrace}\n") } else { String::new() };
    let report = format!("thread '{}' {panic}\n{backtrace}", thread.name().unwrap_or("unnamed"));
    // The message may have been made from the data of objects.
    visible::lines(credentials::hidden(report.trim_end()).as_ref(), CONTINUATION).into_owned() + "\n"
}

/// Writes whole lines to standard error. Once logging has started, this never waits for the reader.
pub fn write(lines: &str) {
    match STDERR.get() {
        Some(writer) => writer.write(lines),
        // An error of standard error cannot be reported anywhere.
        None => drop(std::io::stderr().lock().write_all(lines.as_bytes())),
    }
}

/// Writes the lines of each thread of a runtime together, whenever the thread becomes idle.
pub(crate) fn batch_lines_of(runtime: &mut tokio::runtime::Builder) {
    // Threads of blocking work never park this way, so they do not batch.
    runtime.on_thread_park(write_lines_of_this_thread);
}

/// Writes the lines of this thread, and those to come together, whenever this is called.
pub(crate) fn write_lines_of_this_thread() {
    batch_lines_of_this_thread();
    if let Some(writer) = STDERR.get() {
        writer.announce();
    }
}

/// Waits until all lines are written, within limits.
pub fn flush(limits: FlushLimits) {
    if let Some(writer) = STDERR.get() {
        writer.flush(limits);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _};
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn a_full_pipe_is_not_waited_for() {
        let (mut reader, pipe) = std::io::pipe().unwrap();
        let write = write_at_once(File::from(OwnedFd::from(pipe))).unwrap();
        let line = [b'x'; 512];
        // Before Linux 6.5, pipes cannot be asked at all.
        let refused = (0..10_000).find_map(|_| write(&line).err()).unwrap();
        assert!(matches!(refused.kind(), ErrorKind::WouldBlock | ErrorKind::Unsupported), "{refused}");
        if refused.kind() == ErrorKind::WouldBlock {
            reader.read_exact(&mut [0; 8192]).unwrap();
            assert_eq!(write(&line).unwrap(), line.len());
        }
    }

    #[test]
    fn files_are_written_at_once_and_devices_are_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = write_at_once(file.reopen().unwrap()).unwrap();
        assert_eq!((write(b"a\n").unwrap(), write(b"b\n").unwrap()), (2, 2));
        assert_eq!(std::fs::read(file.path()).unwrap(), b"a\nb\n");
        assert!(write_at_once(File::open("/dev/null").unwrap()).is_none());
    }
}

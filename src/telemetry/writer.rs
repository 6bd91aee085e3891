//! Writes log lines so that a slow or stopped reader does not delay the engine: a thread of its own waits for the
//! reader. Lines that the stream accepts at once are written by the thread that logs them, before it blocks: waking
//! another thread costs more than the write.

use std::cell::Cell;
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Limit of buffered bytes. Handling 10,000 objects at once logs about 5 MB.
const PENDING_BYTES: usize = 8 << 20;

/// Largest single write. Pipes accept up to `PIPE_BUF` bytes atomically, so that lines are not torn.
const CHUNK: usize = 4096;

/// Capacity that a buffer keeps after it was written.
const KEPT_CAPACITY: usize = 64 << 10;

/// Pause before writing again to a full non-blocking stream.
const RETRY: Duration = Duration::from_millis(10);

thread_local! {
    /// Whether this thread calls [`Writer::announce`] before it blocks.
    static ANNOUNCES: Cell<bool> = const { Cell::new(false) };
}

/// Promises that this thread calls [`Writer::announce`] before it blocks: the lines up to then are written together,
/// with one wake-up of the writer instead of one for each.
pub(crate) fn batch_lines_of_this_thread() {
    ANNOUNCES.set(true);
}

/// Time limits of a flush.
#[derive(Debug, Clone, Copy)]
pub struct FlushLimits {
    /// Limit of the time in which the reader takes nothing.
    pub stall: Duration,
    /// Limit of the whole time.
    pub total: Duration,
}

/// Writes to the stream without waiting, as much as it accepts. Fails with [`ErrorKind::WouldBlock`] if that is
/// nothing; after other errors it is not called again.
pub(super) type WriteAtOnce = Box<dyn Fn(&[u8]) -> std::io::Result<usize> + Send + Sync>;

/// A handle to the writer thread. Cheap to clone.
#[derive(Clone)]
pub struct Writer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when there are lines to write.
    arrived: Condvar,
    /// Notified when the reader has read from the stream.
    progressed: Condvar,
    /// Whether there are lines that the writer was not notified of.
    is_unannounced: AtomicBool,
    write_at_once: Option<WriteAtOnce>,
}

#[derive(Default)]
struct State {
    pending: Vec<u8>,
    /// Dropped lines. No further line is accepted until the notice about them is being written.
    dropped: u64,
    is_writing: bool,
    /// Whether the stream cannot be written to without waiting.
    needs_thread: bool,
}

impl Writer {
    /// Starts the thread. `notice` formats the line that reports dropped lines.
    ///
    /// # Errors
    /// If the operating system cannot create the thread.
    pub fn start(
        sink: impl Write + Send + 'static,
        write_at_once: Option<WriteAtOnce>,
        notice: impl Fn(u64) -> String + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { write_at_once, ..Shared::default() });
        let writer = Self { shared: Arc::clone(&shared) };
        std::thread::Builder::new().name("kopfd-log".to_owned()).spawn(move || shared.run(sink, notice))?;
        Ok(writer)
    }

    /// Appends whole lines, or drops them if the buffer is full.
    pub fn write(&self, lines: &str) {
        let mut state = self.shared.state.lock();
        if state.dropped > 0 || state.pending.len() + lines.len() > PENDING_BYTES {
            state.dropped += lines.bytes().filter(|byte| *byte == b'\n').count() as u64;
        } else {
            state.pending.extend_from_slice(lines.as_bytes());
        }
        if state.is_writing {
            return;
        }
        if ANNOUNCES.get() && state.pending.len() < CHUNK {
            self.shared.is_unannounced.store(true, Ordering::Relaxed);
        } else {
            self.shared.arrived.notify_one();
        }
    }

    /// Writes the lines that the writer was not yet notified of, or notifies it of those that the stream does not
    /// accept at once.
    pub(crate) fn announce(&self) {
        if self.shared.is_unannounced.swap(false, Ordering::Relaxed) && !self.shared.write_pending_at_once() {
            self.shared.arrived.notify_one();
        }
    }

    /// Waits until everything is written, as long as the reader makes progress within the limits. Returns whether
    /// everything is written.
    pub fn flush(&self, limits: FlushLimits) -> bool {
        let started_at = Instant::now();
        self.announce();
        let mut state = self.shared.state.lock();
        while state.is_writing || !state.is_empty() {
            let left = limits.total.saturating_sub(started_at.elapsed()).min(limits.stall);
            if left.is_zero() || self.shared.progressed.wait_for(&mut state, left).timed_out() {
                return false;
            }
        }
        true
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.dropped == 0
    }
}

impl Shared {
    /// Writes the pending lines without waiting. Returns whether that is all.
    fn write_pending_at_once(&self) -> bool {
        let Some(write) = &self.write_at_once else { return false };
        let mut state = self.state.lock();
        if state.is_writing || state.needs_thread || state.dropped > 0 {
            return false;
        }
        while !state.pending.is_empty() {
            let length = chunk_length(&state.pending);
            match write(&state.pending[..length]) {
                Ok(written) if written > 0 => drop(state.pending.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                ended => {
                    state.needs_thread = ended.is_err_and(|error| error.kind() != ErrorKind::WouldBlock);
                    return false;
                }
            }
        }
        true
    }

    fn run(&self, mut sink: impl Write, notice: impl Fn(u64) -> String) {
        let mut batch = Vec::new();
        loop {
            let dropped = self.take(&mut batch);
            if dropped > 0 {
                batch.extend_from_slice(notice(dropped).as_bytes());
            }
            let mut remaining = batch.as_slice();
            while !remaining.is_empty() {
                let (chunk, others) = remaining.split_at(chunk_length(remaining));
                // An error of the stream cannot be reported anywhere.
                let _ = write_all(&mut sink, chunk);
                remaining = others;
                self.progressed.notify_all();
            }
        }
    }

    /// Waits for lines and takes all of them. Returns how many were dropped after them.
    fn take(&self, batch: &mut Vec<u8>) -> u64 {
        batch.clear();
        batch.shrink_to(KEPT_CAPACITY);
        let mut state = self.state.lock();
        state.is_writing = false;
        self.progressed.notify_all();
        while state.is_empty() {
            self.arrived.wait(&mut state);
        }
        state.is_writing = true;
        std::mem::swap(batch, &mut state.pending);
        std::mem::take(&mut state.dropped)
    }
}

/// Returns the length of the whole lines that fit into one write.
fn chunk_length(text: &[u8]) -> usize {
    let limit = text.len().min(CHUNK);
    text[..limit].iter().rposition(|byte| *byte == b'\n').map_or(limit, |end| end + 1)
}

/// Another process may have opened the stream in non-blocking mode.
fn write_all(sink: &mut impl Write, mut text: &[u8]) -> std::io::Result<()> {
    while !text.is_empty() {
        match sink.write(text) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => text = &text[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(RETRY),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    sink.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::sync::mpsc::Receiver;

    const SOON: FlushLimits = FlushLimits { stall: Duration::from_millis(50), total: Duration::from_millis(50) };
    const LONG: FlushLimits = FlushLimits { stall: Duration::from_secs(20), total: Duration::from_mins(1) };

    fn notice(dropped: u64) -> String {
        format!("{dropped} dropped\n")
    }

    fn start() -> (Writer, BufReader<std::io::PipeReader>) {
        let (reader, writer) = std::io::pipe().unwrap();
        let writer = Writer::start(writer, None, notice).unwrap();
        (writer, BufReader::new(reader))
    }

    #[test]
    fn lines_are_written_in_their_order() {
        let (writer, reader) = start();
        for number in 0..10 {
            writer.write(&format!("line {number}\n"));
        }
        assert!(writer.flush(LONG));
        let read: Vec<String> = reader.lines().take(10).map(Result::unwrap).collect();
        assert_eq!(read, (0..10).map(|number| format!("line {number}")).collect::<Vec<_>>());
    }

    /// Starts a writer whose thread sends what it writes to the channel, and waits until the thread waits for lines:
    /// one that only begins would take the first line without a notification.
    fn start_recorded(write_at_once: Option<WriteAtOnce>) -> (Writer, Receiver<String>) {
        let (sender, by_thread) = std::sync::mpsc::channel();
        let writer = Writer::start(Recorder(sender), write_at_once, notice).unwrap();
        writer.write("started\n");
        assert_eq!(by_thread.recv_timeout(Duration::from_secs(20)).unwrap(), "started\n");
        assert!(writer.flush(LONG));
        (writer, by_thread)
    }

    #[test]
    fn lines_of_a_thread_that_announces_them_are_written_together() {
        let (writer, received) = start_recorded(None);
        let announcing = writer.clone();
        std::thread::spawn(move || {
            batch_lines_of_this_thread();
            announcing.write("a\n");
            announcing.write("b\n");
            announcing.announce();
        });
        assert_eq!(received.recv_timeout(Duration::from_secs(20)).unwrap(), "a\nb\n");
        writer.write("c\n");
        assert_eq!(received.recv_timeout(Duration::from_secs(20)).unwrap(), "c\n");
    }

    /// A writer whose stream accepts `accepted` bytes at once, and the texts that are written at once and by its
    /// thread.
    fn start_accepting(accepted: std::io::Result<usize>) -> (Writer, Receiver<String>, Receiver<String>) {
        let (at_once_sender, at_once) = std::sync::mpsc::channel();
        let accepted = Mutex::new(accepted);
        let write = move |text: &[u8]| {
            let mut left = accepted.lock();
            match &mut *left {
                Ok(0) => Err(ErrorKind::WouldBlock.into()),
                Ok(left) => {
                    let written = text.len().min(*left);
                    *left -= written;
                    at_once_sender.send(String::from_utf8_lossy(&text[..written]).into_owned()).unwrap();
                    Ok(written)
                }
                Err(error) => Err(error.kind().into()),
            }
        };
        let (writer, by_thread) = start_recorded(Some(Box::new(write)));
        (writer, at_once, by_thread)
    }

    fn announce(writer: &Writer, lines: &'static str) {
        let writer = writer.clone();
        let announcing = std::thread::spawn(move || {
            batch_lines_of_this_thread();
            writer.write(lines);
            writer.announce();
        });
        announcing.join().unwrap();
    }

    #[test]
    fn lines_that_the_stream_accepts_are_written_at_once_and_the_others_by_the_thread() {
        let (writer, at_once, by_thread) = start_accepting(Ok(5));
        announce(&writer, "a\n");
        assert_eq!(at_once.try_recv().unwrap(), "a\n");
        announce(&writer, "bcdef\n");
        assert_eq!(at_once.try_recv().unwrap(), "bcd");
        assert_eq!(by_thread.recv_timeout(Duration::from_secs(20)).unwrap(), "ef\n");
        assert!(writer.flush(LONG));
    }

    #[test]
    fn a_stream_that_cannot_be_asked_is_asked_once() {
        let (writer, _, by_thread) = start_accepting(Err(ErrorKind::Unsupported.into()));
        announce(&writer, "a\n");
        assert_eq!(by_thread.recv_timeout(Duration::from_secs(20)).unwrap(), "a\n");
        assert!(writer.shared.state.lock().needs_thread);
        announce(&writer, "b\n");
        assert_eq!(by_thread.recv_timeout(Duration::from_secs(20)).unwrap(), "b\n");
    }

    #[test]
    fn many_lines_and_flushes_need_no_announcement() {
        let (writer, received) = start_recorded(None);
        let batching = std::thread::spawn(move || {
            batch_lines_of_this_thread();
            writer.write("a\n");
            assert!(writer.flush(LONG));
            writer.write(&format!("{}\n", "x".repeat(CHUNK)));
            // The thread stays, so that only the length can have led to the write.
            received.iter().map(|text: String| text.len()).find(|length| *length >= CHUNK)
        });
        assert!(batching.join().unwrap().is_some());
    }

    /// Sends each write to a channel.
    struct Recorder(std::sync::mpsc::Sender<String>);

    impl Write for Recorder {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            // The receiver may be gone.
            let _ = self.0.send(String::from_utf8_lossy(text).into_owned());
            Ok(text.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stopped_reader_delays_no_writer_and_gets_the_number_of_dropped_lines() {
        let (writer, reader) = start();
        let line = format!("{}\n", "x".repeat(99));
        let sent = 3 * PENDING_BYTES / line.len();
        for _ in 0..sent {
            writer.write(&line);
        }
        assert!(!writer.flush(SOON), "nobody reads");
        let mut kept = 0;
        let mut dropped = 0;
        for read in reader.lines().map(Result::unwrap) {
            match read.strip_suffix(" dropped") {
                None => kept += 1,
                Some(number) => dropped += number.parse::<usize>().unwrap(),
            }
            if kept + dropped == sent {
                break;
            }
        }
        assert!(dropped > 0 && kept >= PENDING_BYTES / 100, "{kept} were kept, {dropped} dropped");
        assert!(writer.flush(LONG));
    }

    #[test]
    fn a_flush_continues_while_the_reader_makes_progress() {
        let (writer, mut reader) = start();
        let line = format!("{}\n", "x".repeat(999));
        for _ in 0..1000 {
            writer.write(&line);
        }
        let slow = std::thread::spawn(move || {
            let mut read = String::new();
            for _ in 0..1000 {
                std::thread::sleep(Duration::from_micros(200));
                reader.read_line(&mut read).unwrap();
            }
            read.len()
        });
        assert!(writer.flush(LONG));
        assert_eq!(slow.join().unwrap(), 1_000_000);
    }

    #[test]
    fn a_write_holds_whole_lines_where_they_fit() {
        assert_eq!(chunk_length(b"a\nb\n"), 4);
        let long = [b"a\n".as_slice(), &[b'x'; CHUNK]].concat();
        assert_eq!(chunk_length(&long), 2);
        assert_eq!(chunk_length(&long[2..]), CHUNK);
    }
}

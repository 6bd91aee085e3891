//! A thread that writes log lines, so that a slow or stopped reader does not delay the engine.

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

/// Promises that this thread calls [`Writer::announce`] before it blocks: the lines up to then are written together, with one wake-up of
/// the writer instead of one for each.
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

/// A handle to the writer thread. Cheap to clone.
#[derive(Clone)]
pub struct Writer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when there is something to write.
    arrived: Condvar,
    /// Notified when the reader has taken something.
    progressed: Condvar,
    /// Whether there are lines that the writer was not notified of.
    is_unannounced: AtomicBool,
}

#[derive(Default)]
struct State {
    pending: Vec<u8>,
    /// Dropped lines. No further line is accepted until the notice about them is being written.
    dropped: u64,
    is_writing: bool,
}

impl Writer {
    /// Starts the thread. `notice` formats the line that reports dropped lines.
    ///
    /// # Errors
    /// If the operating system cannot create the thread.
    pub fn start(sink: impl Write + Send + 'static, notice: impl Fn(u64) -> String + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
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

    /// Notifies the writer of lines that it was not yet notified of.
    pub(crate) fn announce(&self) {
        if self.shared.is_unannounced.swap(false, Ordering::Relaxed) {
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

    const SOON: FlushLimits = FlushLimits { stall: Duration::from_millis(50), total: Duration::from_millis(50) };
    const LONG: FlushLimits = FlushLimits { stall: Duration::from_secs(20), total: Duration::from_mins(1) };

    fn start() -> (Writer, BufReader<std::io::PipeReader>) {
        let (reader, writer) = std::io::pipe().unwrap();
        let writer = Writer::start(writer, |dropped| format!("{dropped} dropped\n")).unwrap();
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

    #[test]
    fn lines_of_a_thread_that_announces_them_are_written_together() {
        let (sender, received) = std::sync::mpsc::channel();
        let writer = Writer::start(Recorder(sender), |dropped| format!("{dropped} dropped\n")).unwrap();
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

    #[test]
    fn many_lines_and_flushes_need_no_announcement() {
        let (sender, received) = std::sync::mpsc::channel();
        let writer = Writer::start(Recorder(sender), |dropped| format!("{dropped} dropped\n")).unwrap();
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
        assert!(dropped > 0 && kept > PENDING_BYTES / 100, "{kept} were kept, {dropped} dropped");
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

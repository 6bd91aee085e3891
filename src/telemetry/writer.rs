//! The thread that writes log lines, so that a reader that is slow, or has stopped, delays nothing but the lines.

use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Bytes that wait to be written. A burst of 10,000 handled objects logs about 5 MB.
const PENDING_BYTES: usize = 8 << 20;

/// The most bytes of one write: pipes take so many at once or not at all (`PIPE_BUF`), and so lines are not torn.
const CHUNK: usize = 4096;

/// What a buffer may keep once it is written.
const KEPT_CAPACITY: usize = 64 << 10;

/// How long the writer rests when a stream that does not block is full.
const RETRY: Duration = Duration::from_millis(10);

/// How long a flush waits.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The longest time in which the reader takes nothing.
    pub stall: Duration,
    /// The longest time in all.
    pub total: Duration,
}

/// Takes lines without ever waiting for their reader.
#[derive(Clone)]
pub struct Writer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to write.
    arrived: Condvar,
    /// The reader has taken something.
    progressed: Condvar,
}

#[derive(Default)]
struct State {
    pending: Vec<u8>,
    /// Lines that found no space. They come after all that is pending: nothing is taken until that is on its way.
    dropped: u64,
    is_writing: bool,
}

impl Writer {
    /// Starts the thread. Lines that are dropped are counted, and told by a line that `notice` makes of their number.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(sink: impl Write + Send + 'static, notice: impl Fn(u64) -> String + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let writer = Self { shared: Arc::clone(&shared) };
        std::thread::Builder::new().name("kopfd-log".to_owned()).spawn(move || shared.run(sink, notice))?;
        Ok(writer)
    }

    /// Takes whole lines, or drops them if too much is waiting.
    pub fn write(&self, lines: &str) {
        let mut state = self.shared.state.lock();
        if state.dropped > 0 || state.pending.len() + lines.len() > PENDING_BYTES {
            state.dropped += lines.bytes().filter(|byte| *byte == b'\n').count() as u64;
        } else {
            state.pending.extend_from_slice(lines.as_bytes());
        }
        if !state.is_writing {
            self.shared.arrived.notify_one();
        }
    }

    /// Waits until everything is written, as long as the reader takes something and there is patience. Returns whether it is.
    pub fn flush(&self, patience: Patience) -> bool {
        let began = Instant::now();
        let mut state = self.shared.state.lock();
        while state.is_writing || !state.is_empty() {
            let left = patience.total.saturating_sub(began.elapsed()).min(patience.stall);
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
            let mut rest = batch.as_slice();
            while !rest.is_empty() {
                let (chunk, others) = rest.split_at(chunk_length(rest));
                // There is nobody left to tell that the stream for telling is broken.
                let _ = write_all(&mut sink, chunk);
                rest = others;
                self.progressed.notify_all();
            }
        }
    }

    /// Waits for lines, and takes all of them. Returns how many were dropped after them.
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

/// Whole lines, as far as they fit into one write.
fn chunk_length(text: &[u8]) -> usize {
    let most = text.len().min(CHUNK);
    text[..most].iter().rposition(|byte| *byte == b'\n').map_or(most, |end| end + 1)
}

/// The stream may have been opened by another process so that it does not block.
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

    const SOON: Patience = Patience { stall: Duration::from_millis(50), total: Duration::from_millis(50) };
    const LONG: Patience = Patience { stall: Duration::from_secs(20), total: Duration::from_mins(1) };

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
    fn a_reader_that_has_stopped_delays_nobody_and_finds_out_what_it_has_missed() {
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
    fn a_flush_goes_on_while_the_reader_takes_something() {
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

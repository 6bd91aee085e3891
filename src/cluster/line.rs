//! Splits chunks of bytes into lines. No line is copied twice, and no byte is searched twice.

/// The longest accepted line. API servers refuse objects above a few megabytes, so a longer line is a broken stream.
pub(crate) const LINE_LIMIT: usize = 64 << 20;

/// Capacity of the buffer that is kept after a long line.
const KEPT_CAPACITY: usize = 1 << 20;

/// Collects chunks and returns whole lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// The offset of the next line.
    start: usize,
    /// The position up to which there is no line end.
    searched: usize,
}

/// A line is longer than [`LINE_LIMIT`].
#[derive(Debug, thiserror::Error)]
#[error("a line is longer than {LINE_LIMIT} bytes")]
pub(crate) struct TooLong;

impl Lines {
    /// Takes a chunk.
    ///
    /// # Errors
    /// If the unfinished line has become too long.
    pub(crate) fn feed(&mut self, chunk: &[u8]) -> Result<(), TooLong> {
        self.compact();
        self.buffer.extend_from_slice(chunk);
        let is_unfinished = self.buffer.len() > LINE_LIMIT && memchr::memchr(b'\n', chunk).is_none();
        if is_unfinished { Err(TooLong) } else { Ok(()) }
    }

    /// Returns the next whole line, without its end.
    pub(crate) fn next_line(&mut self) -> Option<&[u8]> {
        let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return None;
        };
        let (start, end) = (self.start, self.searched + found);
        self.start = end + 1;
        self.searched = self.start;
        Some(&self.buffer[start..end])
    }

    /// Returns the bytes after the last line end.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    fn compact(&mut self) {
        if self.start == 0 {
            return;
        }
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.buffer.len() < KEPT_CAPACITY {
            self.buffer.shrink_to(KEPT_CAPACITY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(chunks: &[&[u8]]) -> (Vec<String>, String) {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for chunk in chunks {
            lines.feed(chunk).unwrap();
            while let Some(line) = lines.next_line() {
                found.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        (found, String::from_utf8(lines.rest().to_vec()).unwrap())
    }

    #[test]
    fn lines_are_put_together_from_any_chunks() {
        let text = b"one\n\ntwo\nthree\nrest";
        let expected = (vec!["one".to_owned(), String::new(), "two".into(), "three".into()], "rest".to_owned());
        for size in 1..=text.len() {
            assert_eq!(lines_of(&text.chunks(size).collect::<Vec<_>>()), expected, "in chunks of {size}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_for_ever() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 1 << 20];
        assert!((0..64).all(|_| lines.feed(&chunk).is_ok()));
        assert!(lines.feed(&chunk).is_err());
    }
}

//! The output of a program, up to a limit.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStderr, ChildStdout};

/// The bytes that are read at once.
const PIECE: usize = 16 << 10;

/// The output so far.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// The end of the reading of both pipes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All processes have closed them.
    Closed,
    /// There is more than the limit.
    Limit,
}

impl Output {
    /// Returns the bytes read so far.
    pub(super) fn len(&self) -> usize {
        self.stdout.len() + self.stderr.len()
    }

    /// Reads both pipes to their ends. Beyond the limit nothing is kept.
    ///
    /// *Cancel safety*: the read part is kept.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) async fn read(&mut self, pipes: &mut Pipes, limit: usize) -> io::Result<End> {
        let (mut out, mut err) = (vec![0; PIECE], vec![0; PIECE]);
        while pipes.stdout.is_some() || pipes.stderr.is_some() {
            let left = limit - self.len();
            tokio::select! {
                read = piece(&mut pipes.stdout, &mut out) => {
                    if !keep(&mut self.stdout, &out[..read?], left) {
                        return Ok(End::Limit);
                    }
                }
                read = piece(&mut pipes.stderr, &mut err) => {
                    if !keep(&mut self.stderr, &err[..read?], left) {
                        return Ok(End::Limit);
                    }
                }
            }
        }
        Ok(End::Closed)
    }
}

/// The pipes that are not at their end yet.
pub(super) struct Pipes {
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
}

/// Reads from a pipe, and forgets it at its end. A pipe at its end is never ready.
async fn piece<P: AsyncRead + Unpin>(pipe: &mut Option<P>, buffer: &mut [u8]) -> io::Result<usize> {
    let Some(open) = pipe else { return std::future::pending().await };
    let read = open.read(buffer).await?;
    if read == 0 {
        *pipe = None;
    }
    Ok(read)
}

/// Keeps the part that fits, and returns whether that is all of it.
fn keep(kept: &mut Vec<u8>, piece: &[u8], left: usize) -> bool {
    kept.extend_from_slice(&piece[..piece.len().min(left)]);
    piece.len() <= left
}

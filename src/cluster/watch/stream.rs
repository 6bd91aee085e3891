//! Reads a stream piece by piece, and reports the reason of its end.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use super::super::error::Error;
use super::super::transport::ByteStream;

/// The reason why the reading of a stream ends.
pub(super) enum End {
    /// It ended, which is normal at any time.
    Closed,
    /// There was no data for too long.
    Silent,
    /// The server does not have the history since our version.
    Lost,
    /// The server reported an error, or sent something unreadable.
    Failed(Error),
}

/// Returns the next piece of a stream, unless the time is over before.
pub(super) async fn next_within(
    stream: &mut ByteStream,
    until: Option<Instant>,
) -> Result<Option<<ByteStream as futures::Stream>::Item>, Elapsed> {
    match until {
        Some(until) => timeout_at(until, stream.next()).await,
        None => Ok(stream.next().await),
    }
}

/// Returns the end of a time limit; `None` without a limit, or beyond the range of the timer.
pub(super) fn after(limit: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(limit?)
}

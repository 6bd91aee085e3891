//! Faulty bodies of answers: late, slow, incomplete, or with an error at the end.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use tokio::time::Instant;

use crate::faults::Drop;
use crate::faults::injection::Broken;
use crate::http::api_error::ApiError;
use crate::storage::store::line;

/// Time for sent data to leave the machine before a break.
const FLUSH: Duration = Duration::from_millis(20);
/// Chunks per second of a slow body.
const STEPS: u64 = 10;
/// The beginning of an incomplete line.
const HALF_A_LINE: &[u8] = b"{\"type\":\"MODIFIED\",\"object\":{\"apiVersion\":\"";

/// Returns the body with a callback for each chunk.
pub(super) fn observed(body: Body, mut observe: impl FnMut(&Bytes) + Send + 'static) -> Body {
    Body::from_stream(body.into_data_stream().inspect(move |piece| {
        if let Ok(piece) = piece {
            observe(piece);
        }
    }))
}

/// Returns the first half of the first chunk, followed by an error.
pub(super) fn broken_in_the_middle(body: Body) -> Body {
    let halves = halves(body).take(1).chain(stream::once(broken()));
    Body::from_stream(halves)
}

/// Returns the body, with a pause in its first chunk.
pub(super) fn paused_in_the_middle(body: Body, pause: Duration) -> Body {
    let pieces = halves(body).enumerate().then(move |(index, piece)| async move {
        if index == 1 {
            tokio::time::sleep(pause).await;
        }
        piece
    });
    Body::from_stream(pieces)
}

/// Returns the chunks of a body, with the first one split.
fn halves(body: Body) -> impl stream::Stream<Item = Result<Bytes, axum::Error>> + Send {
    body.into_data_stream().enumerate().flat_map(|(index, piece)| {
        let parts = match piece {
            Ok(mut piece) if index == 0 => {
                let first = piece.split_to(piece.len() / 2);
                vec![Ok(first), Ok(piece)]
            }
            piece => vec![piece],
        };
        stream::iter(parts)
    })
}

/// Returns the body with a limit of bytes per second.
pub(super) fn slow(body: Body, bytes_per_sec: u64) -> Body {
    let speed = bytes_per_sec.max(1);
    let step = usize::try_from(speed / STEPS).unwrap_or(usize::MAX).max(1);
    let pause = Duration::from_secs(1) / u32::try_from(speed.min(STEPS)).unwrap_or(1);
    let pieces = body.into_data_stream().flat_map(move |piece| {
        let parts: Vec<Result<Bytes, axum::Error>> = match piece {
            Ok(piece) => (0..piece.len())
                .step_by(step)
                .map(|begin| Ok(piece.slice(begin..piece.len().min(begin + step))))
                .collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(parts)
    });
    Body::from_stream(pieces.then(move |piece| async move {
        tokio::time::sleep(pause).await;
        piece
    }))
}

/// Returns the body after a pause, or an endless pause.
pub(super) fn stalled(body: Body, silence: Option<Duration>) -> Body {
    let wait = async move {
        match silence {
            Some(silence) => tokio::time::sleep(silence).await,
            None => std::future::pending().await,
        }
        body.into_data_stream()
    };
    Body::from_stream(stream::once(wait).flatten())
}

/// Returns the body, with each chunk delayed.
pub(super) fn late(body: Body, delay: Duration) -> Body {
    Body::from_stream(body.into_data_stream().then(move |piece| async move {
        tokio::time::sleep(delay).await;
        piece
    }))
}

/// Returns the body of a watch with one error event.
pub(super) fn error_event(failure: &ApiError) -> Body {
    Body::from(line("ERROR", &failure.to_json()))
}

/// Returns the body of a watch that ends after some events or some time, whichever is first; at once if neither is
/// given.
pub(super) fn dropped(body: Body, after_events: Option<u64>, after: Option<Duration>, how: Drop) -> Body {
    let left = if after.is_none() { Some(after_events.unwrap_or(0)) } else { after_events };
    let ends_at = after.map(|after| Instant::now() + after);
    let dropped = Dropped { pieces: body.into_data_stream(), left, ends_at, how, is_over: false };
    Body::from_stream(
        stream::unfold(dropped, |mut dropped| async move { dropped.next().await.map(|piece| (piece, dropped)) })
            .flatten(),
    )
}

struct Dropped {
    pieces: BodyDataStream,
    left: Option<u64>,
    ends_at: Option<Instant>,
    how: Drop,
    is_over: bool,
}

/// Chunks of a body.
type Pieces = stream::BoxStream<'static, Result<Bytes, axum::Error>>;

impl Dropped {
    async fn next(&mut self) -> Option<Pieces> {
        if self.is_over {
            return None;
        }
        if self.left != Some(0) {
            let ends_at = self.ends_at;
            let end = async move {
                match ends_at {
                    Some(ends_at) => tokio::time::sleep_until(ends_at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                piece = self.pieces.next() => {
                    let piece = piece?.map(|piece| self.cut(piece));
                    return Some(stream::once(async move { piece }).boxed());
                }
                () = end => {}
            }
        }
        self.is_over = true;
        Some(match self.how {
            Drop::Clean => stream::empty().boxed(),
            Drop::Rst => stream::once(broken()).boxed(),
            Drop::MidLine => {
                stream::once(async { Ok(Bytes::from_static(HALF_A_LINE)) }).chain(stream::once(broken())).boxed()
            }
        })
    }

    /// Takes the lines up to the limit. Bookmarks are not counted.
    fn cut(&mut self, piece: Bytes) -> Bytes {
        let Some(left) = &mut self.left else { return piece };
        let mut end = 0;
        for text in piece.split_inclusive(|byte| *byte == b'\n') {
            if *left == 0 {
                break;
            }
            end += text.len();
            if !text.starts_with(b"{\"type\":\"BOOKMARK\"") {
                *left -= 1;
            }
        }
        piece.slice(..end)
    }
}

async fn broken() -> Result<Bytes, axum::Error> {
    tokio::time::sleep(FLUSH).await;
    Err(axum::Error::new(Broken))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(body: Body) -> (String, bool) {
        let mut pieces = body.into_data_stream();
        let mut text = String::new();
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) => text.push_str(std::str::from_utf8(&piece).unwrap()),
                Err(_) => return (text, true),
            }
        }
        (text, false)
    }

    fn lines() -> Body {
        let all = ["{\"type\":\"BOOKMARK\"}\na\nb\n", "c\n"]
            .map(|piece| Ok::<_, axum::Error>(Bytes::from_static(piece.as_bytes())));
        Body::from_stream(stream::iter(all).chain(stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_watch_ends_after_its_events_or_its_time() {
        let begin = "{\"type\":\"BOOKMARK\"}\na\n".to_owned();
        assert_eq!(text(dropped(lines(), Some(1), None, Drop::Clean)).await, (begin.clone(), false));
        assert_eq!(text(dropped(lines(), Some(1), None, Drop::Rst)).await, (begin.clone(), true));
        let half = String::from_utf8(HALF_A_LINE.to_vec()).unwrap();
        assert_eq!(text(dropped(lines(), Some(1), None, Drop::MidLine)).await, (begin.clone() + &half, true));
        assert_eq!(
            text(dropped(lines(), None, Some(Duration::from_secs(9)), Drop::Clean)).await,
            (begin + "b\nc\n", false)
        );
        assert_eq!(text(dropped(lines(), None, None, Drop::Clean)).await, (String::new(), false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_body_ends_in_the_middle() {
        assert_eq!(text(broken_in_the_middle(Body::from("abcdef"))).await, ("abc".to_owned(), true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_takes_its_time() {
        let took = async |body: Body| {
            let begun_at = Instant::now();
            let (text, _) = text(body).await;
            (text, begun_at.elapsed().as_secs())
        };
        assert_eq!(took(slow(Body::from("x".repeat(100)), 50)).await, ("x".repeat(100), 2));
        assert_eq!(took(slow(Body::from("abc"), 1)).await, ("abc".to_owned(), 3));
        assert_eq!(took(paused_in_the_middle(Body::from("abc"), Duration::from_secs(7))).await, ("abc".to_owned(), 7));
        assert_eq!(took(stalled(Body::from("abc"), Some(Duration::from_secs(5)))).await, ("abc".to_owned(), 5));
        assert_eq!(took(late(Body::from("abc"), Duration::from_secs(4))).await, ("abc".to_owned(), 4));
    }
}

//! A watch as a stream of changes, for the scripts that wait for an object.

use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::cluster;
use crate::cluster::watch::{Seen, Sink, Watcher};
use crate::kit::Stop;
use crate::object::EventKind;
use crate::script::outside::api::{ApiError, Change};

/// Changes that wait for the script. While there are as many, nothing more is read from the server.
const PENDING: usize = 16;

type Item = Result<Change, ApiError>;

/// Returns the changes that a watcher sees. It runs only while the stream is polled, and ends when the stream is
/// dropped.
pub(super) fn changes(mut watcher: Watcher, api_error: fn(&cluster::Error) -> ApiError) -> BoxStream<'static, Item> {
    let (sender, mut receiver) = mpsc::channel(PENDING);
    let run = async move {
        let mut changes = Changes { sender, api_error };
        watcher.run(&mut changes, &Stop::new()).await;
    };
    let received = stream::poll_fn(move |context| receiver.poll_recv(context));
    // The watcher yields nothing itself; it never ends before the receiver.
    let run = stream::once(run).filter_map(|()| async { None });
    stream::select(received, run).boxed()
}

struct Changes {
    sender: mpsc::Sender<Item>,
    api_error: fn(&cluster::Error) -> ApiError,
}

impl Changes {
    async fn pass(&self, item: Item) {
        // Without a receiver, the stream is being dropped.
        drop(self.sender.send(item).await);
    }
}

impl Sink for Changes {
    async fn seen(&mut self, seen: Seen<'_>) {
        let object = match seen.body() {
            Ok(body) => Value::clone(&body.shared()),
            Err(error) => {
                let message = format!("an event cannot be read: {error}");
                return self.pass(Err(ApiError { message, status: None, reason: None, details: None })).await;
            }
        };
        let change = if seen.event_kind == EventKind::Deleted { Change::Gone(object) } else { Change::Present(object) };
        self.pass(Ok(change)).await;
    }

    async fn listed(&mut self) {
        self.pass(Ok(Change::Listed)).await;
    }

    fn request_failed(&mut self, error: &cluster::Error) {
        // Everything else may pass: the watcher tries again.
        let is_final = error.status().is_some_and(|status| matches!(status, 400 | 403 | 404 | 405 | 422));
        if is_final {
            // A full channel has changes that come first; the error will come again.
            drop(self.sender.try_send(Err((self.api_error)(error))));
        }
    }
}

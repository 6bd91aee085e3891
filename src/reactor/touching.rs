//! `touch` of scripts: has an object handled as if it had changed. Nothing is written.
//!
//! The object is read by the rights of its watch, and passed on to that watch, which alone knows the order of the
//! object's states.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::cluster::object_client::ObjectClient;
use crate::cluster::selection::Selection;
use crate::cluster::{self, Touch};
use crate::engines::effects::Effects;
use crate::object::Resource;

use super::status::ServedKinds;

/// How long a watch that is busy is waited for. The object is handled in any case, when the watch goes on.
const TAKEN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a watch with many waiting touches is waited for.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// The touches of one operator's scripts. Cheap to clone.
#[derive(Clone, Default)]
pub struct Touches(Arc<OnceLock<Arc<dyn Watches>>>);

impl fmt::Debug for Touches {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Touches").field("is_watching", &self.0.get().is_some()).finish()
    }
}

/// Finds the watch of an object.
trait Watches: Send + Sync {
    /// Returns the watch, and the version of the kind that it watches.
    fn find(&self, resource: &Resource, namespace: Option<&str>) -> Option<(Arc<Resource>, mpsc::Sender<Touch>)>;
}

struct WatchesOfKinds<W: Effects>(watch::Receiver<ServedKinds<W>>);

impl<W: Effects + 'static> Watches for WatchesOfKinds<W> {
    fn find(&self, resource: &Resource, namespace: Option<&str>) -> Option<(Arc<Resource>, mpsc::Sender<Touch>)> {
        let kinds = self.0.borrow();
        let is_same = |other: &Resource| other.group == resource.group && other.plural == resource.plural;
        let mut found = kinds.iter().filter(|kind| is_same(&kind.resource));
        found.find_map(|kind| Some((Arc::clone(&kind.resource), kind.touches_in(namespace)?)))
    }
}

impl Touches {
    /// Lets the touches reach the watches of these kinds.
    pub(super) fn follow<W: Effects + 'static>(&self, kinds: watch::Receiver<ServedKinds<W>>) {
        // The kinds of an operator are given once.
        drop(self.0.set(Arc::new(WatchesOfKinds(kinds))));
    }

    /// Passes an object on, to be handled once more. Returns whether the operator handles such an object.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) async fn touch(
        &self,
        objects: &ObjectClient,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<bool, cluster::Error> {
        let found = self.0.get().and_then(|watches| watches.find(resource, namespace));
        let Some((watched, sender)) = found else { return Ok(false) };
        // A list needs no other rights than the watch has.
        let selection = Selection { labels: None, fields: Some(format!("metadata.name={name}")) };
        let Some(object) = objects.list(&watched, namespace, &selection).await?.pop() else { return Ok(false) };
        let (taken, is_taken) = oneshot::channel();
        let touch = Touch { text: object.to_string(), taken };
        match tokio::time::timeout(QUEUE_TIMEOUT, sender.send(touch)).await {
            // The watch has ended.
            Ok(Err(_)) => return Ok(false),
            Ok(Ok(())) => {}
            Err(_) => {
                return Err(cluster::Error::Connection(
                    format!("too many touches of {watched} wait for its watch").into(),
                ));
            }
        }
        drop(tokio::time::timeout(TAKEN_TIMEOUT, is_taken).await);
        Ok(true)
    }
}

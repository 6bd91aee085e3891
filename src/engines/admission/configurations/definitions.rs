//! Follows the kinds that are converted: each of their definitions has a task that keeps it up to date.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{FuturesUnordered, StreamExt as _};
use tracing::{error, warn};

use super::declared::{ConfigurationError, Definitions, Upkeep};
use super::managed::Managed;
use super::task::Task;
use crate::handling::conversion::definition;
use crate::kit::Stop;
use crate::object::Resource;

impl Definitions {
    /// Manages the definitions until the stop is requested.
    ///
    /// # Errors
    /// If the API server refuses a request. Other failures are logged, and the request is repeated.
    pub async fn run(self, stop: Stop) -> Result<(), ConfigurationError> {
        let Self { mut upkeep, unwritten } = self;
        let mut running =
            Running { stop: &stop, tasks: FuturesUnordered::new(), stops: BTreeMap::new(), taken: BTreeSet::new() };
        // Held until the first kinds are known; their tasks hold it then.
        let mut unwritten = Some(unwritten);
        loop {
            upkeep.revisions.mark_unchanged();
            upkeep.kinds.mark_unchanged();
            if let Some(wanted) = wanted(&upkeep) {
                let first = unwritten.take().unwrap_or_else(|| Arc::new(()));
                running.follow(&upkeep, wanted, &first);
            }
            tokio::select! {
                biased;
                () = stop.requested() => break,
                Some(ended) = running.tasks.next() => ended?,
                Ok(()) = upkeep.revisions.changed() => {}
                Ok(()) = upkeep.kinds.changed() => {}
            }
        }
        while let Some(ended) = running.tasks.next().await {
            ended?;
        }
        Ok(())
    }
}

/// Returns the wanted definitions; `None` before the kinds are known.
fn wanted(upkeep: &Upkeep) -> Option<definition::Definitions> {
    let kinds = upkeep.kinds.borrow().clone()?;
    let resources: Vec<&Resource> = kinds.iter().map(AsRef::as_ref).collect();
    Some(definition::Definitions::of(&upkeep.revisions.borrow().conversions, resources.iter().copied()))
}

/// The tasks of the definitions.
struct Running<'a> {
    stop: &'a Stop,
    tasks: FuturesUnordered<BoxFuture<'static, Result<(), ConfigurationError>>>,
    /// The stops of the tasks, by the name of the definition and the id of the function.
    stops: BTreeMap<(String, String), Stop>,
    /// The reported functions whose definition belongs to another function.
    taken: BTreeSet<(String, String)>,
}

impl Running<'_> {
    fn follow(&mut self, upkeep: &Upkeep, wanted: definition::Definitions, unwritten: &Arc<dyn Any + Send + Sync>) {
        let wanted_keys: BTreeSet<(String, String)> = wanted.by_name.into_iter().collect();
        let gone: Vec<_> = self.stops.keys().filter(|key| !wanted_keys.contains(*key)).cloned().collect();
        for key in gone {
            if let Some(stop) = self.stops.remove(&key) {
                stop.request("the conversion is not declared any more");
            }
            let is_replaced = wanted_keys.iter().any(|(name, _)| *name == key.0);
            let is_declared = upkeep.revisions.borrow().conversion(&key.1).is_some();
            if !is_replaced && !is_declared {
                warn!(
                    target: "kopfd::admission",
                    "The CustomResourceDefinition '{}' still names the removed conversion '{}': change its `spec.conversion`.", key.0, key.1
                );
            }
        }
        for key in wanted_keys {
            if self.stops.contains_key(&key) {
                continue;
            }
            let stop = self.stop.child();
            self.tasks.push(keep(upkeep.clone(), key.clone(), Arc::clone(unwritten), stop.clone()).boxed());
            self.stops.insert(key, stop);
        }
        for (id, name) in &wanted.taken {
            if self.taken.insert((id.clone(), name.clone())) {
                error!(target: "kopfd::admission", "The conversion '{id}' is not used: another one converts the kind of '{name}'.");
            }
        }
    }
}

async fn keep(
    upkeep: Upkeep,
    (name, id): (String, String),
    unwritten: Arc<dyn Any + Send + Sync>,
    stop: Stop,
) -> Result<(), ConfigurationError> {
    Task::new(Managed::Definition { name: &name, id: &id }, &upkeep, unwritten, stop).run().await
}

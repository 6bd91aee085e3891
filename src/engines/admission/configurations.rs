//! Keeps the webhook configurations of an operator up to date: created, updated when anything about the webhooks
//! changes, restored after edits and deletions by others, and narrowed to the persistent webhooks at the end. The
//! definitions of converted kinds are kept true in the same way.

mod declared;
mod definitions;
mod managed;
mod observe;
mod task;

use std::sync::Arc;

use crate::handling::admission::ConfigurationKind;
use crate::kit::Stop;

use managed::Managed;

pub use declared::{ConfigurationError, Configurations, Definitions, Upkeep};

impl Configurations {
    /// Manages both configurations until the stop is requested.
    ///
    /// # Errors
    /// If the API server refuses a request. Other failures are logged, and the request is repeated.
    pub async fn run(mut self, stop: Stop) -> Result<(), ConfigurationError> {
        // Only the tasks keep it.
        let unwritten = std::mem::replace(&mut self.unwritten, Arc::new(()));
        let begin = |kind| {
            task::Task::new(Managed::Configuration(&self, kind), &self.upkeep, Arc::clone(&unwritten), stop.clone())
                .run()
        };
        let [validating, mutating] = ConfigurationKind::ALL.map(begin);
        drop(unwritten);
        tokio::try_join!(validating, mutating).map(drop)
    }
}

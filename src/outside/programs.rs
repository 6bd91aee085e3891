//! Runs programs of this machine: each in a group of processes and a directory of its own, which end with the run.

mod directory;
mod group;
mod output;
#[cfg(target_os = "linux")]
mod parent_death;
mod run;
mod spawn;
mod stragglers;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;

use crate::script::outside::programs::{Finished, ProgramError, ProgramRequest, Programs};

pub use group::end_all;

/// Limit of the programs of one operator that run at once; further ones wait.
const MAX_PROGRAMS: usize = 8;

/// The programs of this machine.
pub(super) struct LocalPrograms {
    places: Arc<Semaphore>,
}

impl Default for LocalPrograms {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_PROGRAMS)) }
    }
}

impl Programs for LocalPrograms {
    fn run(&self, request: ProgramRequest) -> BoxFuture<'_, Result<Finished, ProgramError>> {
        async {
            let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
            run::run(request, place).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;

//! The work that begins and ends with the leadership of a replica.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::super::live_effects::LiveEffects;
use crate::engines::leading::Led;
use crate::engines::peering::Terms;

/// The work of an operator while its replica leads, besides the handling of events: timers and daemons, and its record
/// among its peers.
pub(super) struct LedOperator {
    pub effects: Arc<LiveEffects>,
    pub terms: Terms,
}

impl Led for LedOperator {
    fn announce(&self) -> BoxFuture<'_, ()> {
        self.terms.begin().boxed()
    }

    fn begin(&self) {
        self.effects.resume_background();
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        self.terms.end();
        self.effects.suspend_background()
    }
}

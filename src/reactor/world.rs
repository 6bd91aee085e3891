//! What a cycle needs of the world around it: somebody who runs scripts, somebody who sends patches, a clock, and an ear.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::cluster::Applied;
use crate::handling::spawning::Companions;
use crate::handling::{Handler, Outcome, Telling};
use crate::kit::Clock;
use crate::object::{Body, Patch, Resource, Sighting};
use crate::script::{Call, Evaluation, Object, Returned, Subject};

use super::Error;

/// The world around the cycles of one operator.
pub trait World: Send + Sync {
    /// Calls a handler.
    fn call<'a>(&'a self, handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned>;

    /// Evaluates an expression of a filter. The error is a text.
    fn evaluate<'a>(&'a self, subject: &'a Subject, evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>>;

    /// Sends a patch.
    fn apply<'a>(&'a self, resource: &'a Resource, body: &'a Body, patch: &'a Patch) -> BoxFuture<'a, Result<Applied, Error>>;

    /// Starts and stops what runs along with the object, and says what the cycle has to wait for.
    fn accompany<'a>(&'a self, object: &'a Object, sighting: Sighting, is_reset: bool) -> BoxFuture<'a, Result<Companions, Error>>;

    /// Puts an object into the indexes, or takes it out of them, before anything is handled.
    ///
    /// Asked only for kinds that have handlers of indexes; a world without indexes has none of those.
    fn index<'a>(&'a self, _object: &'a Object, _sighting: Sighting) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Tells a line about an object.
    fn tell(&self, telling: Telling);

    /// Tells whether debugging lines are heard, so that costly ones need not be made.
    fn is_debugging(&self) -> bool;

    /// The clock.
    fn clock(&self) -> &Clock;

    /// Returns a number below the bound, by chance.
    fn chance(&self, bound: usize) -> usize;

    /// Notes that an object was taken up, for those who follow the engine step by step.
    fn taken_up(&self, _sighting: Sighting, _body: &Body, _consistency_in: Option<f64>) {}

    /// Notes what an attempt of a handler has come to.
    fn concluded(&self, _body: &Body, _handler: &Handler, _retry: u64, _outcome: &Outcome) {}

    /// Notes how a cycle of an object has ended: with an error, or well.
    fn cycled(&self, _uid: &str, _body: &Body, _error: Option<&str>) {}

    /// Notes the seconds until the next attempts, as a cycle has left them, for those who follow the engine step by step.
    fn waits(&self, _delays: &[f64]) {}

    /// Notes that an object is gone for good.
    fn forget(&self, _memo: &Arc<str>) {}
}

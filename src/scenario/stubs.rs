//! Stubs: what a scenario answers in place of the world outside of the cluster. A call that no stub answers fails the scenario.

mod http;
mod read;
mod recording;
mod unexpected;

use std::sync::Arc;

pub use http::HttpStub;
pub(super) use http::HttpStubs;
pub(super) use read::{is_stubbed_given, read};
pub(super) use unexpected::UnexpectedCalls;

use super::timeline::Timeline;

/// The stubs of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Stubs {
    /// The answers of HTTP servers.
    pub http: Vec<HttpStub>,
}

impl Stubs {
    /// Returns the servers of one run, in which every sequence is at its beginning. They may ask real servers, and record the answers.
    pub(super) fn servers(&self, records: bool, timeline: &Arc<Timeline>, unexpected: &Arc<UnexpectedCalls>) -> Arc<HttpStubs> {
        Arc::new(HttpStubs::new(self.http.clone(), records, Arc::clone(timeline), Arc::clone(unexpected)))
    }
}

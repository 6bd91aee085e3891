//! Stubs: what a scenario answers in place of the world outside of the cluster. A call that no stub answers fails the scenario.

mod http;
mod read;
mod unexpected;

use std::sync::Arc;

pub use http::HttpStub;
pub(super) use read::{is_stubbed_given, read};
pub(super) use unexpected::UnexpectedCalls;

use super::timeline::Timeline;
use crate::script::Outside;

/// The stubs of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Stubs {
    /// The answers of HTTP servers.
    pub http: Vec<HttpStub>,
}

impl Stubs {
    /// Returns the world of one run, in which every sequence is at its beginning.
    pub(super) fn world(&self, timeline: &Arc<Timeline>, unexpected: &Arc<UnexpectedCalls>) -> Outside {
        Outside::with_http(Arc::new(http::HttpStubs::new(self.http.clone(), Arc::clone(timeline), Arc::clone(unexpected))))
    }
}

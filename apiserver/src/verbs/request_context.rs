//! The context of one request for objects.

use bytes::Bytes;
use http::{Method, header};
use jiff::Timestamp;

use crate::auth::access::User;
use crate::faults::Fault;
use crate::http::request::{Accept, Options, Query, ResourcePath};
use crate::verbs::admission_chain::Requester;

/// One request, with its user.
pub(crate) struct RequestContext {
    /// The HTTP method.
    pub method: Method,
    /// The parsed path.
    pub resource_path: ResourcePath,
    /// The parameters.
    pub query: Query,
    /// The headers.
    pub headers: http::HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The user.
    pub user: User,
    /// The requested encoding of the answer.
    pub accept: Accept,
    /// The time of the request.
    pub now: Timestamp,
    /// The fault to apply during its execution.
    pub fault: Option<Fault>,
}

impl RequestContext {
    /// Returns the request without its body, for work after the start of the answer.
    pub(crate) fn copy(&self) -> Self {
        Self {
            method: self.method.clone(),
            resource_path: self.resource_path.clone(),
            query: self.query.clone(),
            headers: self.headers.clone(),
            body: Bytes::new(),
            user: self.user.clone(),
            accept: self.accept,
            now: self.now,
            fault: self.fault.clone(),
        }
    }

    /// Returns the requester for the admission chain.
    pub(crate) fn requester<'a>(&'a self, options: &'a Options) -> Requester<'a> {
        Requester { user: &self.user, options, fault: self.fault.as_ref() }
    }

    /// Returns the field manager: from the request, or the beginning of the user agent.
    pub(crate) fn manager(&self, named: Option<&str>) -> String {
        let agent = || self.headers.get(header::USER_AGENT)?.to_str().ok()?.split('/').next().map(str::to_owned);
        named.map(str::to_owned).or_else(agent).filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
    }
}

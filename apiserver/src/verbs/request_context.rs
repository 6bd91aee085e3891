//! One request for objects, as its handlers see it.

use bytes::Bytes;
use http::{Method, header};
use jiff::Timestamp;

use crate::auth::access::User;
use crate::faults::Fault;
use crate::http::request::{Accept, Options, Place, Query};
use crate::verbs::admission_chain::By;

/// One request, with who asks.
pub struct Call {
    /// The HTTP method.
    pub method: Method,
    /// What it is about.
    pub place: Place,
    /// The parameters.
    pub query: Query,
    /// The headers.
    pub headers: http::HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Who asks.
    pub user: User,
    /// How the answer is to be written.
    pub accept: Accept,
    /// When it came.
    pub now: Timestamp,
    /// What goes wrong with it while it is carried out.
    pub fault: Option<Fault>,
}

impl Call {
    /// Returns the request without its body, for what goes on after the answer has begun.
    pub fn copy(&self) -> Self {
        Self {
            method: self.method.clone(),
            place: self.place.clone(),
            query: self.query.clone(),
            headers: self.headers.clone(),
            body: Bytes::new(),
            user: self.user.clone(),
            accept: self.accept,
            now: self.now,
            fault: self.fault.clone(),
        }
    }

    /// Returns who writes, for the webhooks on the way.
    pub fn by<'a>(&'a self, options: &'a Options) -> By<'a> {
        By { user: &self.user, options, fault: self.fault.as_ref() }
    }

    /// Returns who writes, in managed fields: as the request says, or the beginning of the user agent.
    pub fn manager(&self, named: Option<&str>) -> String {
        let agent = || self.headers.get(header::USER_AGENT)?.to_str().ok()?.split('/').next().map(str::to_owned);
        named.map(str::to_owned).or_else(agent).filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
    }
}

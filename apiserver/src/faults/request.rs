//! The attributes of requests for fault rules.

use jiff::Timestamp;

/// The attributes of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// The verb of the API.
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The plural name.
    pub resource: &'a str,
    /// The subresource; empty for none.
    pub subresource: &'a str,
    /// The namespace; empty for none.
    pub namespace: &'a str,
    /// The object's name; empty for collections.
    pub name: &'a str,
    /// The user agent.
    pub user_agent: &'a str,
    /// The user.
    pub user: &'a str,
    /// The bearer token; empty for none.
    pub token: &'a str,
    /// When the definition of the resource was created or changed; `None` for built-in kinds.
    pub defined_at: Option<Timestamp>,
    /// The time of the request.
    pub at: Timestamp,
}

impl Request<'_> {
    /// Returns the plural name with the group, which is the name of the definition of a custom resource.
    pub fn full_resource(&self) -> String {
        format!("{}.{}", self.resource, self.group)
    }
}

//! Authorization checks.

use std::fmt;
use std::sync::Arc;

/// Decides a check for a verb.
pub(crate) type Decide = Arc<dyn Fn(&Check, &str) -> bool + Send + Sync>;

/// The variable `authorizer`, for the user of the request or for a service account.
#[derive(Clone)]
pub(crate) struct Authorizer {
    /// The decision function.
    pub(crate) decide: Decide,
    /// The namespace and name of the service account to check, if it is not the user.
    pub(crate) account: Option<(Arc<str>, Arc<str>)>,
}

/// The attributes of a check.
#[derive(Clone)]
pub(crate) struct Check {
    /// The user.
    pub(crate) authorizer: Authorizer,
    /// A non-resource path.
    pub(crate) path: Option<Arc<str>>,
    /// The API group.
    pub(crate) group: Arc<str>,
    /// The resource; `None` if only the group is known.
    pub(crate) resource: Option<Arc<str>>,
    /// The subresource.
    pub(crate) subresource: Arc<str>,
    /// The namespace.
    pub(crate) namespace: Arc<str>,
    /// The name.
    pub(crate) name: Arc<str>,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Whether it is allowed.
    pub(in crate::cel) is_allowed: bool,
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authorizer").field("account", &self.account).finish_non_exhaustive()
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Check")
            .field("group", &self.group)
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

impl Check {
    /// Returns a check without attributes.
    pub(crate) fn new(authorizer: Authorizer) -> Self {
        let nothing: Arc<str> = "".into();
        Self {
            authorizer,
            path: None,
            group: Arc::clone(&nothing),
            resource: None,
            subresource: Arc::clone(&nothing),
            namespace: Arc::clone(&nothing),
            name: nothing,
        }
    }
}

//! A stop signal with a reason, which is passed to all its children.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// A handle to a stop signal: every holder may request the stop and wait for it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    token: CancellationToken,
    reason: Arc<OnceLock<String>>,
    parent: Option<Arc<Stop>>,
}

impl Stop {
    /// Returns a signal that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a signal that is set with this one, but can also be set alone.
    pub fn child(&self) -> Self {
        Self { token: self.token.child_token(), reason: Arc::default(), parent: Some(Arc::new(self.clone())) }
    }

    /// Requests the stop. The first reason is kept.
    pub fn request(&self, reason: impl Into<String>) {
        let _ = self.reason.set(reason.into());
        self.token.cancel();
    }

    /// Tells whether the stop was requested.
    pub fn is_requested(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns the reason, once the stop was requested.
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str).or_else(|| self.parent.as_ref()?.reason())
    }

    /// Waits until the stop is requested.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub async fn requested(&self) {
        self.token.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_reaches_children_but_not_the_parent() {
        let parent = Stop::new();
        let (one, other) = (parent.child(), parent.child());
        one.request("only me");
        assert!(!parent.is_requested() && !other.is_requested());
        parent.request("a signal");
        assert!(other.is_requested());
        assert_eq!((one.reason(), other.reason()), (Some("only me"), Some("a signal")));
    }
}

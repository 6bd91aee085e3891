//! A signal to stop, with its reason, that everything below the giver hears.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// One end of a stop signal: anybody who holds it may ask for the stop, and hear of it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    token: CancellationToken,
    reason: Arc<OnceLock<String>>,
    parent: Option<Arc<Stop>>,
}

impl Stop {
    /// Returns a signal that has not been given yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a signal that is given with this one, but can also be given alone.
    pub fn child(&self) -> Self {
        Self { token: self.token.child_token(), reason: Arc::default(), parent: Some(Arc::new(self.clone())) }
    }

    /// Asks to stop. The first reason is kept.
    pub fn request(&self, reason: impl Into<String>) {
        let _ = self.reason.set(reason.into());
        self.token.cancel();
    }

    /// Tells whether the stop was asked for.
    pub fn is_requested(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns why, once the stop was asked for.
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str).or_else(|| self.parent.as_ref()?.reason())
    }

    /// Waits until the stop is asked for.
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
    fn a_child_hears_its_parent_but_not_the_other_way_round() {
        let parent = Stop::new();
        let (one, other) = (parent.child(), parent.child());
        one.request("only me");
        assert!(!parent.is_requested() && !other.is_requested());
        parent.request("a signal");
        assert!(other.is_requested());
        assert_eq!((one.reason(), other.reason()), (Some("only me"), Some("a signal")));
    }
}

//! The election as others see it.

use std::sync::Arc;

use parking_lot::Mutex;

/// The role of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Another replica leads, or none.
    #[default]
    Standby,
    /// This replica leads.
    Leader,
}

impl Role {
    /// Returns the name of the role.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standby => "standby",
            Self::Leader => "leader",
        }
    }
}

/// The last observed state of an election, for other tasks. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LeadingView(Arc<Mutex<Seen>>);

/// The last observed state of an election.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The namespace and the name of the Lease.
    pub lease: String,
    /// The identity of this replica.
    pub identity: String,
    /// Its role.
    pub role: Role,
    /// The identity of the leader, if it is known.
    pub holder: Option<String>,
    /// How often the leader has changed.
    pub transitions: i64,
}

impl LeadingView {
    /// Returns the last observed state.
    pub fn get(&self) -> Seen {
        self.0.lock().clone()
    }

    pub(super) fn set(&self, seen: Seen) {
        *self.0.lock() = seen;
    }
}

//! `stopped`: asks a timer, a daemon or a reconciliation to stop, with the reason.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::kit::Stop;

/// The reason why a function must stop, or the stage of its stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopFlag {
    /// The object no longer matches the filters.
    FiltersMismatch,
    /// The object is deleted.
    ResourceDeleted,
    /// The operator pauses.
    OperatorPausing,
    /// The operator exits.
    OperatorExiting,
    /// The declaration or its code has changed.
    OperatorReloading,
    /// The function was asked to stop, and has its back-off.
    DaemonSignalled,
    /// The function was cancelled.
    DaemonCancelled,
    /// The function is no longer awaited.
    DaemonAbandoned,
    /// The function has ended.
    Done,
}

impl StopFlag {
    /// Returns kopf's name of the flag.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FiltersMismatch => "FILTERS_MISMATCH",
            Self::ResourceDeleted => "RESOURCE_DELETED",
            Self::OperatorPausing => "OPERATOR_PAUSING",
            Self::OperatorExiting => "OPERATOR_EXITING",
            Self::OperatorReloading => "OPERATOR_RELOADING",
            Self::DaemonSignalled => "DAEMON_SIGNALLED",
            Self::DaemonCancelled => "DAEMON_CANCELLED",
            Self::DaemonAbandoned => "DAEMON_ABANDONED",
            Self::Done => "DONE",
        }
    }
}

/// The flags of one running function, in the order in which they were raised; they only grow. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Stopped(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    raised: Mutex<Vec<StopFlag>>,
    stop: Stop,
}

impl Stopped {
    /// Raises a flag, if it is not raised yet.
    pub fn raise(&self, flag: StopFlag) {
        let mut raised = self.0.raised.lock();
        if !raised.contains(&flag) {
            raised.push(flag);
        }
        drop(raised);
        self.0.stop.request(flag.as_str());
    }

    /// Tells whether any flag is raised.
    pub fn is_set(&self) -> bool {
        self.0.stop.is_requested()
    }

    /// Returns the flags that are raised.
    pub fn flags(&self) -> Vec<StopFlag> {
        self.0.raised.lock().clone()
    }

    /// Waits until a flag is raised.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub async fn raised(&self) {
        self.0.stop.requested().await;
    }
}

//! Delays of actions that real servers do asynchronously. Without delays, by default; but a server without them hides
//! bugs of operators.

use std::time::Duration;

use jiff::Timestamp;

use crate::storage::work_item::WorkItem;

/// The delays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latency {
    /// How long events are kept after their last write; `None` means always.
    pub events: Option<Duration>,
    /// Delay of garbage collection.
    pub collection: Duration,
    /// Delay before a deleted namespace is emptied.
    pub namespaces: Duration,
    /// How long the kinds of a new definition are not served.
    pub unserved: Duration,
    /// How long their storage is not ready afterwards.
    pub unready: Duration,
}

/// The progress of a new definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Its kinds are not served yet.
    Unserved,
    /// Its kinds are served, but their storage is not ready.
    Unready,
    /// Its kinds can be used.
    Ready,
}

impl Latency {
    /// How long real servers keep events.
    pub const EVENTS: Duration = Duration::from_hours(1);

    /// Returns the latency measured on real servers.
    pub fn realistic() -> Self {
        Self {
            events: Some(Self::EVENTS),
            collection: Duration::from_millis(500),
            namespaces: Duration::from_secs(5),
            unserved: Duration::from_millis(100),
            unready: Duration::from_millis(200),
        }
    }

    /// Returns the delay of a work item.
    pub fn delay(&self, item: &WorkItem, is_namespace_leaving: bool) -> Duration {
        match item {
            WorkItem::Owned(..) | WorkItem::Owner(_) | WorkItem::Kind { .. } => self.collection,
            WorkItem::Namespace(_) if is_namespace_leaving => self.namespaces,
            WorkItem::Namespace(_) | WorkItem::Definition(_) | WorkItem::Event(_) => Duration::ZERO,
        }
    }

    /// Returns the progress of a definition.
    pub fn progress(&self, created_at: Option<Timestamp>, now: Timestamp) -> Progress {
        let age = created_at.and_then(|created_at| Duration::try_from(now.duration_since(created_at)).ok());
        match age {
            Some(age) if age < self.unserved => Progress::Unserved,
            Some(age) if age < self.unserved + self.unready => Progress::Unready,
            _ => Progress::Ready,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_definition_is_missing_then_not_ready_then_there() {
        let at = |ms: i64| Timestamp::from_millisecond(ms).unwrap();
        let latency = Latency::realistic();
        let progress = |now: i64| latency.progress(Some(at(1000)), at(now));
        assert_eq!(
            [progress(1050), progress(1150), progress(1300)],
            [Progress::Unserved, Progress::Unready, Progress::Ready]
        );
        assert_eq!(latency.progress(None, at(0)), Progress::Ready);
        assert_eq!(Latency::default().progress(Some(at(0)), at(0)), Progress::Ready);
    }
}

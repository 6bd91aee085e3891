//! Repetitions of Events: which ones are counted on an existing Event.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::rules::{KubernetesEvent, time};

/// How long after the last repetition an equal Event is counted on the same one, as in Kubernetes' own components.
const WINDOW: Duration = Duration::from_mins(10);

/// Limit of remembered Events; the oldest ones are forgotten.
const MAX_REMEMBERED: usize = 4_096;

/// The posted Events of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct Posted {
    entries: HashMap<Arc<KubernetesEvent>, Entry>,
    order: VecDeque<Arc<KubernetesEvent>>,
}

/// A posted Event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    count: u64,
    last: Timestamp,
}

impl Posted {
    /// Remembers a new Event.
    pub(crate) fn remember(&mut self, event: KubernetesEvent, namespace: &str, name: &str, now: Timestamp) {
        let entry = Entry { namespace: namespace.to_owned(), name: name.to_owned(), count: 1, last: now };
        let event = Arc::new(event);
        if self.entries.insert(Arc::clone(&event), entry).is_none() {
            self.order.push_back(event);
        }
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    /// Counts a repetition. Returns the existing Event and its patch; `None` if the Event is a new one.
    pub(crate) fn repeat(&mut self, event: &KubernetesEvent, now: Timestamp) -> Option<(Entry, Value)> {
        let entry = self.entries.get_mut(event)?;
        let age = now.duration_since(entry.last);
        if age.is_negative() || age.unsigned_abs() > WINDOW {
            return None;
        }
        entry.count += 1;
        entry.last = now;
        let patch = json!({
            "count": entry.count,
            "lastTimestamp": time(now),
            "series": {"count": entry.count, "lastObservedTime": time(now)},
        });
        Some((entry.clone(), patch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(message: &str) -> KubernetesEvent {
        let text = |text: &str| text.to_owned();
        KubernetesEvent {
            reference: json!({"uid": "u"}),
            event_type: text("Normal"),
            reason: text("R"),
            message: text(message),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn repetitions_within_ten_minutes_are_counted() {
        let mut posted = Posted::default();
        assert_eq!(posted.repeat(&event("a"), at(0)), None);
        posted.remember(event("a"), "ns", "e1", at(0));
        assert_eq!(posted.repeat(&event("b"), at(1)), None, "another message is another Event");
        let (entry, patch) = posted.repeat(&event("a"), at(600)).unwrap();
        assert_eq!((entry.namespace.as_str(), entry.name.as_str()), ("ns", "e1"));
        let last = "1970-01-01T00:10:00.000000+00:00";
        assert_eq!(patch, json!({"count": 2, "lastTimestamp": last, "series": {"count": 2, "lastObservedTime": last}}));
        assert_eq!(posted.repeat(&event("a"), at(1_201)), None, "the last repetition is too old");
        posted.remember(event("a"), "ns", "e2", at(1_201));
        assert_eq!(posted.repeat(&event("a"), at(1_202)).unwrap().1["count"], 2);
    }

    #[test]
    fn the_oldest_events_are_forgotten() {
        let mut posted = Posted::default();
        for number in 0..=MAX_REMEMBERED {
            posted.remember(event(&number.to_string()), "ns", "e", at(0));
        }
        assert_eq!(posted.repeat(&event("0"), at(1)), None);
        assert!(posted.repeat(&event("1"), at(1)).is_some());
        assert_eq!(posted.entries.len(), posted.order.len());
    }
}

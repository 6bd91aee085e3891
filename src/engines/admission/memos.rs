//! The memos of objects that only webhooks know: the operator does not watch their kind, so their deletion is not
//! reported.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::object::Resource;
use crate::script::OperatorMemo;

/// How many objects that are not watched may have memos. An object beyond that makes the operator forget the one that
/// was reviewed longest ago.
pub const MAX_UNWATCHED: usize = 10_000;

/// The objects that an operator watches.
pub trait WatchedObjects: Send + Sync {
    /// Returns the operator's memo at the first event of an object; `None` if the object is not watched.
    fn origin(&self, resource: &Resource, uid: &str) -> Option<Arc<OperatorMemo>>;
}

/// No object is watched.
#[derive(Debug, Clone, Copy)]
pub struct NothingWatched;

impl WatchedObjects for NothingWatched {
    fn origin(&self, _: &Resource, _: &str) -> Option<Arc<OperatorMemo>> {
        None
    }
}

/// The objects that had reviews, and are not watched.
#[derive(Debug, Default)]
pub(super) struct UnwatchedObjects {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// The number of the last review of each object, by the key of its memo.
    last: HashMap<Arc<str>, u64>,
    /// The objects by these numbers.
    order: BTreeMap<u64, (Arc<str>, Unwatched)>,
    reviews: u64,
}

/// An object that had a review.
#[derive(Debug, Clone)]
pub(super) struct Unwatched {
    pub(super) resource: Arc<Resource>,
    pub(super) uid: String,
}

impl UnwatchedObjects {
    /// Records a review of an object, by the key of its memo. Returns the object to forget, if there are too many.
    pub(super) fn note(&self, key: &Arc<str>, object: Unwatched) -> Option<(Arc<str>, Unwatched)> {
        let Table { last, order, reviews } = &mut *self.table.lock();
        *reviews += 1;
        if let Some(before) = last.insert(Arc::clone(key), *reviews) {
            order.remove(&before);
        }
        order.insert(*reviews, (Arc::clone(key), object));
        if order.len() <= MAX_UNWATCHED {
            return None;
        }
        let (_, oldest) = order.pop_first()?;
        last.remove(&oldest.0);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_that_was_reviewed_longest_ago_is_forgotten() {
        let objects = UnwatchedObjects::default();
        let note = |uid: usize| {
            let object = Unwatched { resource: Arc::default(), uid: uid.to_string() };
            objects.note(&uid.to_string().into(), object).map(|(key, object)| (key.to_string(), object.uid))
        };
        for uid in 0..MAX_UNWATCHED {
            assert_eq!(note(uid), None);
        }
        assert_eq!(note(0), None, "it is known already");
        assert_eq!(note(MAX_UNWATCHED), Some(("1".to_owned(), "1".to_owned())));
        assert_eq!(objects.table.lock().last.len(), MAX_UNWATCHED);
    }
}

//! The memory of each object between its events. It may vanish at any moment; the object in the cluster is the truth.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::handling::cause;
use crate::object::Transform;
use crate::script::OperatorMemo;

use super::looping::RecentCycles;
use super::throttle::Throttle;

/// The memories of all objects of one kind, by unique id.
#[derive(Debug, Default)]
pub struct Memories {
    table: Mutex<Table>,
    declared: Mutex<Declared>,
}

/// The handlers of resumptions of the kind, over the revisions of the operator.
#[derive(Debug, Default)]
struct Declared {
    /// The current revision.
    revision: u32,
    /// The revision since which each handler is declared, by id; 0 for those that were declared when the kind was first
    /// served.
    resumptions: BTreeMap<String, u32>,
    /// Whether a revision was recorded.
    is_complete: bool,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Box<str>, Entry>,
    origins: Origins,
}

/// The memory of one object. Most objects need only the flags and the number.
#[derive(Debug)]
struct Entry {
    flags: cause::Memory,
    /// The number of the state of the operator at the first event of the object.
    origin: u32,
    retry_state: Option<Box<RetryState>>,
}

/// Facts of an object that are kept in memory since its first event.
#[derive(Debug, Clone)]
pub struct Noticed {
    /// The flags for the detection of causes.
    pub flags: cause::Memory,
    /// The operator's memo at the first event of the object.
    pub operator_memo: Arc<OperatorMemo>,
}

/// The state of an object between its cycles, after failures or own writes; most objects have none.
#[derive(Debug, Default, Clone)]
pub struct RetryState {
    /// Functions that could not be applied yet.
    pub remaining: Vec<Transform>,
    /// The throttling after errors.
    pub throttle: Throttle,
    /// Whether the last state of the object could not be parsed, which was reported.
    pub is_unreadable: bool,
    /// The cycles of an object that may keep triggering itself.
    pub recent: RecentCycles,
}

impl RetryState {
    fn is_needed(&self) -> bool {
        !self.remaining.is_empty() || !self.throttle.is_idle() || self.is_unreadable || self.recent.is_needed()
    }
}

impl Memories {
    /// Records an event of an object, and returns the remembered facts of the object. Only the first event decides
    /// whether the object was first seen in a list, and which state of the operator's memo it begins with.
    pub fn notice(&self, uid: &str, by_listing: bool, operator_memo: impl FnOnce() -> Arc<OperatorMemo>) -> Noticed {
        let Table { entries, origins } = &mut *self.table.lock();
        if !entries.contains_key(uid) {
            let flags = cause::Memory { noticed_by_listing: by_listing, fully_handled_once: false };
            let origin = origins.take(operator_memo(), self.declared.lock().revision);
            entries.insert(uid.into(), Entry { flags, origin, retry_state: None });
        }
        let entry = &entries[uid];
        Noticed { flags: entry.flags, operator_memo: Arc::clone(&origins.get(entry.origin).operator_memo) }
    }

    /// Begins anew, as after a start of the process: everything known was there before. Returns the unique ids of the
    /// objects.
    pub fn begin_anew(&self, operator_memo: &Arc<OperatorMemo>) -> Vec<Box<str>> {
        let revision = self.declared.lock().revision;
        let Table { entries, origins } = &mut *self.table.lock();
        for entry in entries.values_mut() {
            origins.give_back(entry.origin);
            entry.origin = origins.take(Arc::clone(operator_memo), revision);
            entry.flags = cause::Memory { noticed_by_listing: true, fully_handled_once: false };
            entry.retry_state = None;
        }
        entries.keys().cloned().collect()
    }

    /// Records the ids of the handlers of resumptions in a revision.
    pub fn declare<'a>(&self, revision: u32, resumptions: impl Iterator<Item = &'a str>) {
        let mut declared = self.declared.lock();
        let since = if std::mem::replace(&mut declared.is_complete, true) { revision } else { 0 };
        let known = std::mem::take(&mut declared.resumptions);
        declared.resumptions = resumptions.map(|id| (id.to_owned(), known.get(id).copied().unwrap_or(since))).collect();
        declared.revision = revision;
    }

    /// Returns the ids of handlers of resumptions that were added after an object was first seen: they are not for it.
    pub fn late_resumptions(&self, uid: &str) -> BTreeSet<String> {
        let seen_in = self.table.lock().revision(uid);
        let declared = self.declared.lock();
        let seen_in = seen_in.unwrap_or(declared.revision);
        declared.resumptions.iter().filter(|(_, since)| **since > seen_in).map(|(id, _)| id.clone()).collect()
    }

    /// Returns the operator's memo at the first event of an object; `None` if it was not noticed.
    pub fn origin(&self, uid: &str) -> Option<Arc<OperatorMemo>> {
        let table = self.table.lock();
        table.entries.get(uid).map(|entry| Arc::clone(&table.origins.get(entry.origin).operator_memo))
    }

    /// Tells whether an object was noticed, and is not forgotten.
    pub fn knows(&self, uid: &str) -> bool {
        self.table.lock().entries.contains_key(uid)
    }

    /// Records the end of a handling cycle.
    pub fn mark_handled(&self, uid: &str) {
        #[cfg(test)]
        if super::defects::is_on(super::defects::Defect::ForgetsHandling) {
            return;
        }
        if let Some(entry) = self.table.lock().entries.get_mut(uid) {
            entry.flags.fully_handled_once = true;
        }
    }

    /// Returns the retry state. It stays stored in case the worker fails.
    pub fn retry_state(&self, uid: &str) -> RetryState {
        self.table.lock().entries.get(uid).and_then(|entry| entry.retry_state.as_deref().cloned()).unwrap_or_default()
    }

    /// Replaces the retry state after a cycle.
    pub fn keep_retry_state(&self, uid: &str, retry_state: RetryState) {
        if let Some(entry) = self.table.lock().entries.get_mut(uid) {
            entry.retry_state = retry_state.is_needed().then(|| Box::new(retry_state));
        }
    }

    /// Forgets a deleted object; if it is created again, it is a new one.
    pub fn forget(&self, uid: &str) {
        let Table { entries, origins } = &mut *self.table.lock();
        if let Some(entry) = entries.remove(uid) {
            origins.give_back(entry.origin);
        }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.table.lock().entries.len()
    }

    /// Returns the number of objects that a function selects by their unique ids.
    pub fn count(&self, is_counted: impl Fn(&str) -> bool) -> usize {
        self.table.lock().entries.keys().filter(|uid| is_counted(uid)).count()
    }

    /// Tells whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    /// Returns the revision of the operator at the first event of an object.
    fn revision(&self, uid: &str) -> Option<u32> {
        self.entries.get(uid).map(|entry| self.origins.get(entry.origin).revision)
    }
}

/// The states of the operator at the first events of objects, by number. Each is kept as long as one of its objects is
/// remembered.
#[derive(Debug, Default)]
struct Origins {
    slots: Vec<Origin>,
    free: Vec<u32>,
    /// The number given last. Many objects are first seen in one state of the operator.
    last: u32,
}

/// The state of the operator at the first events of some objects.
#[derive(Debug, Default)]
struct Origin {
    operator_memo: Arc<OperatorMemo>,
    revision: u32,
    /// The number of the objects.
    objects: u32,
}

impl Origins {
    /// Returns the number of a state for a further object.
    fn take(&mut self, operator_memo: Arc<OperatorMemo>, revision: u32) -> u32 {
        let is_same = |slot: &Origin| {
            slot.objects > 0 && slot.revision == revision && Arc::ptr_eq(&slot.operator_memo, &operator_memo)
        };
        let is_last = self.slots.get(self.last as usize).is_some_and(is_same);
        if !is_last {
            self.last = self.free.pop().unwrap_or_else(|| {
                self.slots.push(Origin::default());
                u32::try_from(self.slots.len() - 1).expect("there are fewer objects")
            });
            self.slots[self.last as usize] = Origin { operator_memo, revision, objects: 0 };
        }
        self.slots[self.last as usize].objects += 1;
        self.last
    }

    fn get(&self, number: u32) -> &Origin {
        &self.slots[number as usize]
    }

    /// Records that an object is forgotten.
    fn give_back(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        slot.objects -= 1;
        if slot.objects == 0 {
            slot.operator_memo = Arc::default();
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use std::time::Duration;

    /// Whether what remains of a cycle is kept.
    fn is_kept(retry_state: RetryState) -> bool {
        let memories = Memories::default();
        see(&memories, "u", true);
        memories.keep_retry_state("u", retry_state);
        let table = memories.table.lock();
        table.entries["u"].retry_state.is_some()
    }

    fn see(memories: &Memories, uid: &str, by_listing: bool) -> cause::Memory {
        memories.notice(uid, by_listing, Arc::default).flags
    }

    #[test]
    fn what_remains_of_a_failed_cycle_is_kept_and_nothing_else_takes_memory() {
        let mut throttle = Throttle::default();
        throttle.fail(&[Duration::from_secs(1)], None, Timestamp::UNIX_EPOCH);
        assert!(is_kept(RetryState { throttle, ..RetryState::default() }));
        assert!(is_kept(RetryState {
            remaining: vec![Transform::AddFinalizer("f".to_owned())],
            ..RetryState::default()
        }));
        assert!(is_kept(RetryState { is_unreadable: true, ..RetryState::default() }));
        assert!(!is_kept(RetryState::default()));
    }

    #[test]
    fn only_the_first_sight_decides_how_an_object_was_noticed() {
        let memories = Memories::default();
        assert!(see(&memories, "u", true).noticed_by_listing && see(&memories, "u", false).noticed_by_listing);
        assert!(!see(&memories, "v", false).noticed_by_listing && !see(&memories, "v", true).noticed_by_listing);
        assert_eq!(memories.len(), 2);
        memories.mark_handled("u");
        assert!(see(&memories, "u", false).fully_handled_once);
        memories.forget("u");
        memories.forget("v");
        assert!(memories.is_empty());
        assert_eq!(see(&memories, "u", false), cause::Memory::default());
    }

    #[test]
    fn a_new_term_begins_as_after_a_start_with_the_objects_that_are_known() {
        let memories = Memories::default();
        see(&memories, "u", false);
        memories.mark_handled("u");
        let retry_state = RetryState { is_unreadable: true, ..RetryState::default() };
        memories.keep_retry_state("u", retry_state);
        let memo = Arc::new(OperatorMemo::default());
        assert_eq!(memories.begin_anew(&memo), [Box::from("u")]);
        assert_eq!(see(&memories, "u", false), cause::Memory { noticed_by_listing: true, fully_handled_once: false });
        assert!(!memories.retry_state("u").is_unreadable);
        let noticed = memories.notice("u", false, Arc::default);
        assert!(Arc::ptr_eq(&noticed.operator_memo, &memo));
    }

    #[test]
    fn an_object_keeps_the_operators_memo_of_its_first_event_until_it_is_forgotten() {
        let memories = Memories::default();
        let [first, second, third] = [(); 3].map(|()| Arc::new(OperatorMemo::default()));
        let see = |uid, memo: &Arc<OperatorMemo>| memories.notice(uid, false, || Arc::clone(memo)).operator_memo;
        for (uid, memo) in [("a", &first), ("b", &first), ("c", &second)] {
            assert!(Arc::ptr_eq(&see(uid, memo), memo));
        }
        assert!(Arc::ptr_eq(&see("a", &third), &first) && Arc::ptr_eq(&see("c", &third), &second));
        memories.forget("c");
        assert_eq!(
            (Arc::strong_count(&first), Arc::strong_count(&second)),
            (2, 1),
            "one for each memo, not for each object"
        );
        assert!(Arc::ptr_eq(&see("c", &third), &third), "the object was created again");
        memories.forget("a");
        assert!(Arc::ptr_eq(&see("b", &third), &first));
        memories.forget("b");
        memories.forget("c");
        assert_eq!([first, second, third].map(|memo| Arc::strong_count(&memo)), [1, 1, 1]);
        assert_eq!(memories.table.lock().origins.slots.len(), 2, "slots are used again");
    }

    #[test]
    fn an_idle_object_takes_sixteen_bytes_beside_its_uid() {
        assert_eq!(size_of::<Entry>(), 16);
    }
}

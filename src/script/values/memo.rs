//! Memories of objects: plain data that all calls of an object share during the life of the process.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;
use rhai::{Array, Dynamic, Map};

use super::plain::Plain;

/// Limit of the bytes of all memos of the objects of one thread.
const MAX_BYTES: usize = 256 << 20;

/// The memory of a value besides its texts, and of an entry of a map besides its value.
const BYTES_PER_VALUE: usize = 16;
const BYTES_PER_ENTRY: usize = 64;

/// A state of the operator's memo. Successive states share the values that have not changed.
#[derive(Debug, Clone, Default)]
pub struct OperatorMemo(BTreeMap<Arc<str>, Plain>);

/// The current state of the operator's memo, shared by all script threads.
pub(crate) type Current = Arc<RwLock<Arc<OperatorMemo>>>;

/// Identifies the memo of an object. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ObjectMemo {
    /// Its key, which all calls of the object share.
    pub key: Arc<str>,
    /// The operator's memo at the first event of the object, of which the object's memo is a copy. It is copied by the
    /// first write.
    pub origin: Arc<OperatorMemo>,
}

impl ObjectMemo {
    /// Returns a memo that begins empty.
    pub fn empty(key: impl Into<Arc<str>>) -> Self {
        Self { key: key.into(), origin: Arc::default() }
    }
}

/// The owner of a call's memo.
#[derive(Debug, Clone)]
pub(crate) enum MemoOwner {
    /// The operator: in activities and schedules.
    Operator,
    /// An object.
    Object(ObjectMemo),
}

/// The memos of one script thread: those of its objects, and the operator's. An object that never writes to its memo
/// has none here.
pub struct Memos {
    written: RefCell<HashMap<Arc<str>, Written>>,
    /// The bytes of all of them.
    bytes: Cell<usize>,
    operator: Current,
}

/// The memo of an object, and its size in bytes.
struct Written {
    map: Map,
    bytes: usize,
}

/// Returns the bytes that plain data takes, approximately. Texts count as often as they occur.
fn size_of(value: &Dynamic) -> usize {
    let inner = if let Ok(text) = value.as_immutable_string_ref() {
        text.len()
    } else if let Ok(items) = value.as_array_ref() {
        items.iter().map(size_of).sum()
    } else if let Ok(entries) = value.as_map_ref() {
        entries.iter().map(|(key, value)| size_of_entry(key, value)).sum()
    } else {
        0
    };
    BYTES_PER_VALUE + inner
}

fn size_of_entry(key: &str, value: &Dynamic) -> usize {
    key.len() + BYTES_PER_ENTRY + size_of(value)
}

/// A memo would be larger than allowed.
pub(crate) struct TooLarge;

impl Memos {
    /// Returns an empty table with the operator's memo.
    pub(crate) fn new(operator: Current) -> Self {
        Self { written: RefCell::default(), bytes: Cell::new(0), operator }
    }

    /// Drops the memo of an object, by its key.
    pub fn forget(&self, key: &str) {
        let mut written = self.written.borrow_mut();
        if let Some(memo) = written.remove(key) {
            self.bytes.set(self.bytes.get().saturating_sub(memo.bytes));
        }
        if written.is_empty() {
            written.shrink_to_fit();
        }
    }

    /// Returns the number of objects that have a memo here.
    pub fn len(&self) -> usize {
        self.written.borrow().len()
    }

    pub(crate) fn read<T>(&self, owner: &MemoOwner, look: impl FnOnce(Content<'_>) -> T) -> T {
        match owner {
            MemoOwner::Operator => look(Content::Operator(&self.operator.read())),
            MemoOwner::Object(memo) => match self.written.borrow().get(&memo.key) {
                Some(memo) => look(Content::Object(&memo.map)),
                None => look(Content::Operator(&memo.origin)),
            },
        }
    }

    /// Sets a value of the operator's memo, unless the memo would be larger than `limit` bytes.
    pub(crate) fn insert_for_operator(&self, key: &str, data: Plain, limit: usize) -> Result<(), TooLarge> {
        let size = |(key, data): (&Arc<str>, &Plain)| key.len() + BYTES_PER_ENTRY + data.size();
        let others: usize = self.operator.read().0.iter().filter(|(known, _)| &***known != key).map(size).sum();
        if others + size((&key.into(), &data)) > limit {
            return Err(TooLarge);
        }
        self.change_operator(|values| drop(values.insert(key.into(), data)));
        Ok(())
    }

    /// Sets a value of an object's memo, which is plain data, unless the memo would be larger than `limit` bytes, or
    /// all memos larger than allowed.
    pub(crate) fn insert_for_object(
        &self,
        memo: &ObjectMemo,
        key: &str,
        value: Dynamic,
        limit: usize,
    ) -> Result<(), TooLarge> {
        self.change_object(memo, key, Some(value), limit)
    }

    pub(crate) fn remove(&self, owner: &MemoOwner, key: &str) {
        match owner {
            MemoOwner::Operator => self.change_operator(|values| drop(values.remove(key))),
            // It becomes smaller.
            MemoOwner::Object(memo) => drop(self.change_object(memo, key, None, usize::MAX)),
        }
    }

    /// Objects may have the current state as the origin of their memos: then it is copied.
    fn change_operator(&self, change: impl FnOnce(&mut BTreeMap<Arc<str>, Plain>)) {
        change(&mut Arc::make_mut(&mut self.operator.write()).0);
    }

    fn change_object(
        &self,
        memo: &ObjectMemo,
        key: &str,
        value: Option<Dynamic>,
        limit: usize,
    ) -> Result<(), TooLarge> {
        let mut written = self.written.borrow_mut();
        let memo = written.entry(Arc::clone(&memo.key)).or_insert_with(|| {
            let map = Content::Operator(&memo.origin).to_map();
            let bytes = map.iter().map(|(key, value)| size_of_entry(key, value)).sum();
            self.bytes.set(self.bytes.get() + bytes);
            Written { map, bytes }
        });
        let removed = memo.map.get(key).map_or(0, |value| size_of_entry(key, value));
        let added = value.as_ref().map_or(0, |value| size_of_entry(key, value));
        let (bytes, all) = (memo.bytes - removed + added, (self.bytes.get() + added).saturating_sub(removed));
        if added > removed && (bytes > limit || all > MAX_BYTES) {
            return Err(TooLarge);
        }
        memo.bytes = bytes;
        self.bytes.set(all);
        match value {
            Some(value) => drop(memo.map.insert(key.into(), value)),
            None => drop(memo.map.remove(key)),
        }
        Ok(())
    }
}

/// The content of a memo.
pub(crate) enum Content<'a> {
    /// The operator's memo, or that of an object that has not written to it.
    Operator(&'a OperatorMemo),
    /// The memo of an object.
    Object(&'a Map),
}

impl Content<'_> {
    pub(crate) fn get(&self, key: &str) -> Option<Dynamic> {
        match self {
            Self::Operator(memo) => memo.0.get(key).map(Plain::to_dynamic),
            Self::Object(map) => map.get(key).cloned(),
        }
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        match self {
            Self::Operator(memo) => memo.0.contains_key(key),
            Self::Object(map) => map.contains_key(key),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Operator(memo) => memo.0.len(),
            Self::Object(map) => map.len(),
        }
    }

    pub(crate) fn keys(&self) -> Array {
        match self {
            Self::Operator(memo) => memo.0.keys().map(|key| (&**key).into()).collect(),
            Self::Object(map) => map.keys().map(|key| key.as_str().into()).collect(),
        }
    }

    pub(crate) fn to_map(&self) -> Map {
        match self {
            Self::Operator(memo) => memo.0.iter().map(|(key, value)| ((&**key).into(), value.to_dynamic())).collect(),
            Self::Object(map) => (*map).clone(),
        }
    }
}

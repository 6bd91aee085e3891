//! The store: objects by resource, one counter of revisions, and the history of every resource.
//!
//! It never waits; time is an argument. It does not decide about the content of objects or permissions.

mod change;
mod serialized;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::watch;

pub use crate::storage::resource::Stored;
use crate::storage::resource::{Key, Resource, key_of, owners, revision_of, set_revision, uid_of};
use crate::storage::work_item::WorkItem;
pub use change::{Change, WatchEventType, line};
use serialized::{Recent, SerializedObject};

/// The revision of an empty store. It is above 1, so that a watch from 1 is always too old.
pub const FIRST_REVISION: u64 = 1_000;

/// The limits of the history.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The number of changes of each resource.
    pub changes: usize,
    /// The age of changes.
    pub age: SignedDuration,
    /// The bytes of the objects in the history of all resources together.
    pub bytes: usize,
}

/// The expected state before a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// No object.
    Nothing,
    /// The object at this revision.
    Revision(u64),
}

/// The history does not reach back to the requested revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted;

/// Another write came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict;

/// All objects, with their history.
#[derive(Debug)]
pub struct Store {
    revision: u64,
    /// The revision at which the history of all resources begins.
    base: u64,
    /// The last revision visible to readers; later writes are not durable yet. `None` if all writes are visible at
    /// once.
    durable: Option<u64>,
    tables: BTreeMap<Resource, Table>,
    limits: Limits,
    /// The dependents of owners, by the owner's unique id.
    dependents: HashMap<String, BTreeSet<(Resource, Key)>>,
    /// The unique ids of removed owners with dependents: their kinds may be gone, too.
    removed_owners: HashSet<String>,
    /// The locations of objects, by unique id.
    locations: HashMap<String, (Resource, Key)>,
    queue: VecDeque<WorkItem>,
    recent: Recent,
}

#[derive(Debug)]
struct Table {
    objects: BTreeMap<Key, Arc<SerializedObject>>,
    history: VecDeque<Arc<Change>>,
    /// The bytes of the history.
    bytes: usize,
    /// The revision up to which the history is dropped.
    compact_revision: u64,
    latest: watch::Sender<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        // The bytes are about forty changes of the largest objects: watchers are rarely that far behind.
        Self { changes: 10_000, age: SignedDuration::from_mins(10), bytes: 64 << 20 }
    }
}

impl Table {
    fn new(compact_revision: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            bytes: 0,
            compact_revision,
            latest: watch::Sender::new(compact_revision),
        }
    }

    /// Adds a change, and drops changes beyond the limits that readers have seen.
    fn append(&mut self, change: Change, limits: Limits, visible: u64) {
        let now = change.at;
        self.bytes += change.bytes();
        self.history.push_back(Arc::new(change));
        let is_too_much = |history: &VecDeque<Arc<Change>>| {
            let is_old = |oldest: &Arc<Change>| now.duration_since(oldest.at) > limits.age;
            history
                .front()
                .is_some_and(|oldest| oldest.revision <= visible && (history.len() > limits.changes || is_old(oldest)))
        };
        while is_too_much(&self.history) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.history.pop_front() {
            self.bytes -= oldest.bytes();
            self.compact_revision = oldest.revision;
        }
    }

    /// Removes the last change from the history.
    fn undo(&mut self, revision: u64) {
        if let Some(last) = self.history.pop_back_if(|last| last.revision == revision) {
            self.bytes -= last.bytes();
        }
    }
}

impl Store {
    /// Returns an empty store.
    pub fn new(limits: Limits) -> Self {
        Self {
            revision: FIRST_REVISION,
            base: FIRST_REVISION,
            durable: None,
            tables: BTreeMap::new(),
            limits,
            dependents: HashMap::new(),
            removed_owners: HashSet::new(),
            locations: HashMap::new(),
            queue: VecDeque::new(),
            recent: Recent::default(),
        }
    }

    /// Returns an empty store with the same limits.
    pub fn emptied(&self) -> Self {
        Self { durable: self.durable, ..Self::new(self.limits) }
    }

    /// Restores objects without history. The revision continues from the given one.
    pub fn restore(&mut self, revision: u64, objects: impl IntoIterator<Item = (Resource, Key, Value)>) {
        self.revision = self.revision.max(revision);
        for (resource, key, value) in objects {
            let revision = revision_of(&value).unwrap_or(revision);
            let stored = Arc::new(Stored { revision, value: Arc::new(value) });
            self.index(&resource, &key, None, Some(&stored));
            self.table(&resource).objects.insert(key, Arc::new(SerializedObject::new(&stored)));
        }
        self.base = self.revision;
        for table in self.tables.values_mut() {
            table.compact_revision = self.base;
        }
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Hides writes from readers until [`Store::make_durable`] is called for them.
    pub fn hide_writes(&mut self) {
        self.durable = Some(self.revision);
    }

    /// Makes all writes up to a revision visible to readers.
    pub fn make_durable(&mut self, revision: u64) {
        let before = self.durable.replace(revision).unwrap_or_default();
        for table in self.tables.values() {
            let is_new = |change: &Arc<Change>| before < change.revision && change.revision <= revision;
            // There are few later ones.
            if table.history.iter().rev().skip_while(|change| change.revision > revision).take(1).any(is_new) {
                table.latest.send_replace(revision);
            }
        }
    }

    /// Undoes the last write of a resource, which no reader has seen.
    pub fn undo(&mut self, resource: &Resource, key: &Key, revision: u64, old: Option<&Arc<Stored>>) {
        let undone = self.get(resource, key);
        let table = self.table(resource);
        table.undo(revision);
        match old {
            Some(old) => drop(table.objects.insert(key.clone(), Arc::new(SerializedObject::new(old)))),
            None => drop(table.objects.remove(key)),
        }
        self.index(resource, key, undone.as_deref(), old);
    }

    /// Skips a revision without a write, and returns it.
    pub fn skip_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Returns the revision of the last visible write.
    pub fn visible_revision(&self) -> u64 {
        self.durable.unwrap_or(self.revision)
    }

    /// Returns the visible state of an object.
    pub fn visible(&self, resource: &Resource, key: &Key) -> Option<Arc<Stored>> {
        let visible = self.visible_revision();
        let hidden = self.tables.get(resource)?.history.iter().rev().take_while(|change| change.revision > visible);
        match hidden.filter(|change| change.key == *key).last() {
            Some(first) => first.before(),
            None => self.get(resource, key),
        }
    }

    /// Returns the visible objects of a namespace, or of all, in order, with the revision of this state.
    pub fn visible_list(&self, resource: &Resource, namespace: Option<&str>) -> (u64, Vec<(Key, Arc<Stored>)>) {
        let visible = self.visible_revision();
        let is_all_visible = self
            .tables
            .get(resource)
            .is_none_or(|table| table.history.back().is_none_or(|last| last.revision <= visible));
        if is_all_visible {
            return (visible, self.list(resource, namespace));
        }
        let objects = self.list_at(resource, namespace, visible);
        (visible, objects.expect("changes that are not visible are kept"))
    }

    /// Returns an object.
    pub fn get(&self, resource: &Resource, key: &Key) -> Option<Arc<Stored>> {
        Some(self.serialized(resource, key)?.parsed())
    }

    /// Returns the object with a unique id.
    pub fn by_uid(&self, uid: &str) -> Option<(Resource, Key, Arc<Stored>)> {
        let (resource, key) = self.locations.get(uid)?;
        Some((resource.clone(), key.clone(), self.get(resource, key)?))
    }

    /// Returns the dependents of an owner.
    pub fn dependents(&self, uid: &str) -> Vec<(Resource, Key)> {
        self.dependents.get(uid).map(|locations| locations.iter().cloned().collect()).unwrap_or_default()
    }

    /// Returns all objects with owners, in order.
    pub fn owned(&self) -> BTreeSet<(Resource, Key)> {
        self.dependents.values().flatten().cloned().collect()
    }

    /// Tells whether an owner was removed and still has dependents.
    pub fn is_removed_owner(&self, uid: &str) -> bool {
        self.removed_owners.contains(uid)
    }

    /// Returns the resources that have objects.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.tables.iter().filter(|(_, table)| !table.objects.is_empty()).map(|(resource, _)| resource)
    }

    /// Returns the current objects of a namespace, or of all, in order.
    pub fn list(&self, resource: &Resource, namespace: Option<&str>) -> Vec<(Key, Arc<Stored>)> {
        let Some(table) = self.tables.get(resource) else { return Vec::new() };
        in_namespace(&table.objects, namespace).map(|(key, serialized)| (key.clone(), serialized.parsed())).collect()
    }

    /// Returns the objects of a namespace, or of all, at a revision.
    ///
    /// # Errors
    /// If the history does not reach back that far.
    pub fn list_at(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Vec<(Key, Arc<Stored>)>, Compacted> {
        let Some(table) = self.tables.get(resource) else {
            return if revision < self.base { Err(Compacted) } else { Ok(Vec::new()) };
        };
        if revision < table.compact_revision {
            return Err(Compacted);
        }
        let mut objects: BTreeMap<&Key, &Arc<SerializedObject>> = in_namespace(&table.objects, namespace).collect();
        for change in table.history.iter().rev().take_while(|change| change.revision > revision) {
            if namespace.is_some_and(|namespace| namespace != change.key.0) {
                continue;
            }
            match &change.old {
                Some(old) => objects.insert(&change.key, old),
                None => objects.remove(&change.key),
            };
        }
        Ok(objects.into_iter().map(|(key, serialized)| (key.clone(), serialized.parsed())).collect())
    }

    /// Returns the visible changes after a revision, in order, at most `limit`.
    ///
    /// # Errors
    /// If some of them were dropped.
    pub fn changes_after(
        &self,
        resource: &Resource,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Change>>, Compacted> {
        let Some(table) = self.tables.get(resource) else {
            return if revision < self.base { Err(Compacted) } else { Ok(Vec::new()) };
        };
        if revision < table.compact_revision {
            return Err(Compacted);
        }
        let begin = table.history.partition_point(|change| change.revision <= revision);
        let visible = self.visible_revision();
        Ok(table.history.range(begin..).take_while(|change| change.revision <= visible).take(limit).cloned().collect())
    }

    /// Returns all changes after a revision that are in the history, in order.
    pub fn all_changes_after(&self, revision: u64) -> Vec<Arc<Change>> {
        let later = self.tables.values().flat_map(|table| {
            let begin = table.history.partition_point(|change| change.revision <= revision);
            table.history.range(begin..).cloned()
        });
        let mut changes: Vec<Arc<Change>> = later.collect();
        changes.sort_by_key(|change| change.revision);
        changes
    }

    /// Returns the oldest available revision of a resource.
    pub fn oldest(&self, resource: &Resource) -> u64 {
        self.tables.get(resource).map_or(self.base, |table| table.compact_revision)
    }

    /// Returns the revision at a time, as far as the history reaches.
    pub fn revision_at(&self, moment: Timestamp) -> u64 {
        let later = self.tables.values().filter_map(|table| {
            let begin = table.history.partition_point(|change| change.at <= moment);
            table.history.get(begin).map(|change| change.revision - 1)
        });
        later.min().unwrap_or(self.revision)
    }

    /// Returns the revision before the last visible change up to a revision; the same one if there is none.
    pub fn before_last(&self, resource: &Resource, revision: u64, is_seen: impl Fn(&Change) -> bool) -> u64 {
        let history = self.tables.get(resource).into_iter().flat_map(|table| table.history.iter().rev());
        let mut seen = history.filter(|change| change.revision <= revision && is_seen(change));
        seen.next().map_or(revision, |change| change.revision - 1)
    }

    /// Returns all objects, in the order of their revisions.
    pub fn all(&self) -> Vec<Arc<Stored>> {
        let mut all: Vec<Arc<Stored>> = self
            .tables
            .values()
            .flat_map(|table| table.objects.values().map(|serialized| serialized.parsed()))
            .collect();
        all.sort_by_key(|stored| stored.revision);
        all
    }

    /// Tells whether there are no objects of a resource.
    pub fn is_empty(&self, resource: &Resource) -> bool {
        self.tables.get(resource).is_none_or(|table| table.objects.is_empty())
    }

    /// Returns a channel that changes with every change of a resource.
    pub fn subscribe(&mut self, resource: &Resource) -> watch::Receiver<u64> {
        self.table(resource).latest.subscribe()
    }

    /// Stores an object and returns it with its new revision.
    ///
    /// # Errors
    /// If the expected state does not match.
    pub fn put(
        &mut self,
        resource: &Resource,
        mut value: Value,
        expected: Expected,
        now: Timestamp,
    ) -> Result<Arc<Stored>, Conflict> {
        let key = key_of(&value);
        let old = self.check(resource, &key, expected)?;
        self.revision += 1;
        set_revision(&mut value, self.revision);
        let stored = Arc::new(Stored { revision: self.revision, value: Arc::new(value) });
        let serialized = Arc::new(SerializedObject::new(&stored));
        self.recent.keep(&serialized, Arc::clone(&stored));
        self.table(resource).objects.insert(key.clone(), Arc::clone(&serialized));
        self.append(resource, key, old, Some(serialized), now);
        Ok(stored)
    }

    /// Removes an object and returns the revision of the removal.
    ///
    /// # Errors
    /// If the expected state does not match.
    pub fn remove(
        &mut self,
        resource: &Resource,
        key: &Key,
        expected: Expected,
        now: Timestamp,
    ) -> Result<u64, Conflict> {
        let old = self.check(resource, key, expected)?;
        self.revision += 1;
        self.table(resource).objects.remove(key);
        self.append(resource, key.clone(), old, None, now);
        Ok(self.revision)
    }

    /// Drops the history of all resources except the last changes of each.
    pub fn compact(&mut self, keep: usize) {
        let visible = self.visible_revision();
        for table in self.tables.values_mut() {
            while table.history.len() > keep && table.history[0].revision <= visible {
                table.drop_oldest();
            }
            if keep == 0 {
                table.compact_revision = visible;
            }
        }
    }

    /// Takes the oldest work item.
    pub fn next_work_item(&mut self) -> Option<WorkItem> {
        self.queue.pop_front()
    }

    /// Tells whether there are work items.
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Adds a work item, unless it is already queued.
    pub fn enqueue(&mut self, item: WorkItem) {
        if !self.queue.contains(&item) {
            self.queue.push_back(item);
        }
    }

    fn serialized(&self, resource: &Resource, key: &Key) -> Option<&Arc<SerializedObject>> {
        self.tables.get(resource)?.objects.get(key)
    }

    fn check(
        &self,
        resource: &Resource,
        key: &Key,
        expected: Expected,
    ) -> Result<Option<Arc<SerializedObject>>, Conflict> {
        let old = self.serialized(resource, key).cloned();
        let found = old.as_ref().map_or(Expected::Nothing, |old| Expected::Revision(old.revision));
        if found == expected { Ok(old) } else { Err(Conflict) }
    }

    fn append(
        &mut self,
        resource: &Resource,
        key: Key,
        old: Option<Arc<SerializedObject>>,
        new: Option<Arc<SerializedObject>>,
        now: Timestamp,
    ) {
        let parsed_form =
            |serialized: &Option<Arc<SerializedObject>>| serialized.as_ref().map(|serialized| serialized.parsed());
        self.index(resource, &key, parsed_form(&old).as_deref(), parsed_form(&new).as_ref());
        let revision = self.revision;
        let change = Change { revision, key, old, new, at: now };
        let (limits, visible) = (self.limits, self.visible_revision());
        let is_visible = self.durable.is_none();
        let table = self.table(resource);
        table.append(change, limits, visible);
        if is_visible {
            table.latest.send_replace(revision);
        }
        self.bound_bytes();
    }

    /// Drops the oldest changes of the resource with the largest history, but never its last one, until all histories
    /// are small enough.
    fn bound_bytes(&mut self) {
        let visible = self.visible_revision();
        let mut bytes: usize = self.tables.values().map(|table| table.bytes).sum();
        while bytes > self.limits.bytes {
            let is_forgettable = |table: &&mut Table| table.history.len() > 1 && table.history[0].revision <= visible;
            let Some(largest) = self.tables.values_mut().filter(is_forgettable).max_by_key(|table| table.bytes) else {
                return;
            };
            let before = largest.bytes;
            largest.drop_oldest();
            bytes -= before - largest.bytes;
        }
    }

    /// Updates the indices after a write, and queues its work items.
    fn index(&mut self, resource: &Resource, key: &Key, old: Option<&Stored>, new: Option<&Arc<Stored>>) {
        let location = (resource.clone(), key.clone());
        if let Some(old) = old {
            for owner in owners(&old.value) {
                if let Some(locations) = self.dependents.get_mut(owner) {
                    locations.remove(&location);
                    if locations.is_empty() {
                        self.dependents.remove(owner);
                    }
                }
            }
            let uid = uid_of(&old.value);
            if new.is_none() {
                self.locations.remove(uid);
            }
            if new.is_none() && self.dependents.contains_key(uid) {
                self.removed_owners.insert(uid.to_owned());
            }
        }
        if let Some(new) = new {
            for owner in owners(&new.value) {
                self.dependents.entry(owner.to_owned()).or_default().insert(location.clone());
            }
            self.locations.insert(uid_of(&new.value).to_owned(), location);
        }
        for owner in
            old.into_iter().flat_map(|old| owners(&old.value)).filter(|owner| !self.dependents.contains_key(*owner))
        {
            self.removed_owners.remove(owner);
        }
        for item in WorkItem::from_write(resource, key, old.map(|old| &*old.value), new.map(|new| &*new.value)) {
            self.enqueue(item);
        }
    }

    fn table(&mut self, resource: &Resource) -> &mut Table {
        // A resource without a table has had no changes since the base.
        let base = self.base;
        self.tables.entry(resource.clone()).or_insert_with(|| Table::new(base))
    }
}

fn in_namespace<'a>(
    objects: &'a BTreeMap<Key, Arc<SerializedObject>>,
    namespace: Option<&'a str>,
) -> impl Iterator<Item = (&'a Key, &'a Arc<SerializedObject>)> {
    let begin = (namespace.unwrap_or_default().to_owned(), String::new());
    objects.range(begin..).take_while(move |(key, _)| namespace.is_none_or(|namespace| namespace == key.0))
}

#[cfg(test)]
mod tests;

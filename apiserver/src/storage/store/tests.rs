//! Tests of the store.

use super::*;
use serde_json::json;

fn things() -> Resource {
    Resource { group: "ex.dev".into(), plural: "things".into() }
}

fn thing(name: &str, size: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"size": size}})
}

fn sizes(list: &[(Key, Arc<Stored>)]) -> Vec<u64> {
    list.iter().map(|(_, stored)| stored.value["spec"]["size"].as_u64().unwrap()).collect()
}

fn filled() -> (Store, u64) {
    let mut store = Store::new(Limits::default());
    let first = store.put(&things(), thing("a", 1), Expected::Nothing, Timestamp::UNIX_EPOCH).unwrap().revision;
    store.put(&things(), thing("b", 2), Expected::Nothing, Timestamp::UNIX_EPOCH).unwrap();
    store.put(&things(), thing("a", 3), Expected::Revision(first), Timestamp::UNIX_EPOCH).unwrap();
    store
        .remove(&things(), &("default".into(), "b".into()), Expected::Revision(first + 1), Timestamp::UNIX_EPOCH)
        .unwrap();
    (store, first)
}

#[test]
fn past_states_are_restored_by_undoing_later_changes() {
    let (store, first) = filled();
    let at = |revision| sizes(&store.list_at(&things(), Some("default"), revision).unwrap());
    assert_eq!(at(first - 1), [0_u64; 0]);
    assert_eq!(at(first), [1]);
    assert_eq!(at(first + 1), [1, 2]);
    assert_eq!(at(first + 2), [3, 2]);
    assert_eq!(at(first + 3), [3]);
}

#[test]
fn a_write_that_expects_another_state_is_refused_and_leaves_no_trace() {
    let (mut store, first) = filled();
    let before = store.revision();
    assert_eq!(
        store.put(&things(), thing("a", 9), Expected::Revision(first), Timestamp::UNIX_EPOCH).unwrap_err(),
        Conflict
    );
    assert_eq!(store.put(&things(), thing("a", 9), Expected::Nothing, Timestamp::UNIX_EPOCH).unwrap_err(), Conflict);
    assert_eq!(store.revision(), before);
}

#[test]
fn a_removed_object_is_seen_in_its_last_state_with_the_revision_of_the_removal() {
    let (store, first) = filled();
    let changes = store.changes_after(&things(), first + 2, 10).unwrap();
    let event_type = changes[0].event_type(|_| true).unwrap();
    assert_eq!(event_type, WatchEventType::Deleted);
    assert_eq!(changes[0].object(event_type)["metadata"]["resourceVersion"], json!((first + 3).to_string()));
    assert_eq!(changes[0].object(event_type)["spec"]["size"], json!(2));
}

#[test]
fn an_object_that_leaves_a_selection_is_deleted_for_its_watcher() {
    let (store, first) = filled();
    let changes = store.changes_after(&things(), first + 1, 10).unwrap();
    assert_eq!(changes[0].event_type(|value| value["spec"]["size"] == json!(1)), Some(WatchEventType::Deleted));
    assert_eq!(changes[0].event_type(|value| value["spec"]["size"] == json!(3)), Some(WatchEventType::Added));
    assert_eq!(changes[0].event_type(|value| value["spec"]["size"] == json!(7)), None);
}

#[test]
fn history_is_forgotten_by_number_and_by_age() {
    let mut store = Store::new(Limits { changes: 2, age: SignedDuration::from_secs(10), ..Limits::default() });
    let moment = |seconds| Timestamp::from_second(seconds).unwrap();
    let mut revisions = Vec::new();
    for (name, at) in [("a", 0), ("b", 1), ("c", 2), ("d", 12)] {
        revisions.push(store.put(&things(), thing(name, 1), Expected::Nothing, moment(at)).unwrap().revision);
    }
    assert_eq!(store.changes_after(&things(), revisions[0], 10).unwrap_err(), Compacted);
    assert_eq!(store.changes_after(&things(), revisions[1], 10).unwrap().len(), 2);
    store.compact(0);
    assert_eq!(store.list_at(&things(), None, revisions[2]).unwrap_err(), Compacted);
    assert_eq!(store.changes_after(&things(), revisions[3], 10).unwrap().len(), 0);
}

#[test]
fn history_is_forgotten_by_bytes_where_most_of_it_is() {
    let mut store = Store::new(Limits { bytes: 10_000, ..Limits::default() });
    let small = Resource { group: String::new(), plural: "small".into() };
    let first = store.put(&small, thing("a", 1), Expected::Nothing, Timestamp::UNIX_EPOCH).unwrap().revision;
    let mut last = Expected::Nothing;
    for _ in 0..100 {
        let mut large = thing("b", 1);
        large["text"] = json!("x".repeat(1_000));
        last = Expected::Revision(store.put(&things(), large, last, Timestamp::UNIX_EPOCH).unwrap().revision);
    }
    let bytes: usize = store.tables.values().map(|table| table.bytes).sum();
    assert!((8_000..=10_000).contains(&bytes), "{bytes} bytes");
    let counted: usize = store.tables.values().flat_map(|table| &table.history).map(|change| change.bytes()).sum();
    assert_eq!(bytes, counted);
    assert!(store.changes_after(&small, first - 1, 10).is_ok());
    assert_eq!(store.changes_after(&things(), first, 10).unwrap_err(), Compacted);
    // The last change is always kept, however large it is.
    let mut huge = thing("b", 1);
    huge["text"] = json!("x".repeat(100_000));
    let revision = store.put(&things(), huge, last, Timestamp::UNIX_EPOCH).unwrap().revision;
    assert_eq!(store.changes_after(&things(), revision - 1, 10).unwrap().len(), 1);
}

#[test]
fn the_default_history_of_large_objects_takes_at_most_64_mib() {
    let mut store = Store::new(Limits::default());
    let mut large = thing("a", 1);
    large["text"] = json!("x".repeat(1_400_000));
    let mut last = Expected::Nothing;
    for _ in 0..400 {
        last = Expected::Revision(store.put(&things(), large.clone(), last, Timestamp::UNIX_EPOCH).unwrap().revision);
    }
    let table = &store.tables[&things()];
    let texts: usize = table.history.iter().map(|change| change.bytes()).sum();
    assert!((62 << 20..=64 << 20).contains(&texts), "{texts} bytes in {} changes", table.history.len());
}

#[test]
fn readers_see_only_durable_writes() {
    let (mut store, first) = filled();
    let now = Timestamp::UNIX_EPOCH;
    let (a, c) = (("default".to_owned(), "a".to_owned()), ("default".to_owned(), "c".to_owned()));
    store.hide_writes();
    let visible = store.visible_revision();
    let mut latest = store.subscribe(&things());
    latest.mark_unchanged();
    let old = store.get(&things(), &a).unwrap();
    let changed = store.put(&things(), thing("a", 8), Expected::Revision(first + 2), now).unwrap().revision;
    let mut owned = thing("c", 9);
    owned["metadata"]["ownerReferences"] = json!([{"uid": "a"}]);
    let created = store.put(&things(), owned, Expected::Nothing, now).unwrap().revision;
    let removed = store.remove(&things(), &a, Expected::Revision(changed), now).unwrap();
    let seen = |store: &Store| {
        let (revision, list) = store.visible_list(&things(), None);
        let one = store.visible(&things(), &a).map(|stored| stored.value["spec"]["size"].clone());
        (
            revision,
            sizes(&list),
            one,
            store.visible(&things(), &c).is_some(),
            store.changes_after(&things(), visible, 9).unwrap().len(),
        )
    };
    let before = (visible, vec![3], Some(json!(3)), false, 0);
    assert_eq!(seen(&store), before);
    assert!(!latest.has_changed().unwrap());
    store.make_durable(changed);
    assert!(latest.has_changed().unwrap());
    assert_eq!(seen(&store), (changed, vec![8], Some(json!(8)), false, 1));

    let undone = store.visible(&things(), &a).unwrap();
    store.undo(&things(), &a, removed, Some(&undone));
    store.undo(&things(), &c, created, None);
    let settled = store.skip_revision();
    assert_eq!((store.visible_revision(), settled), (changed, removed + 1));
    assert_eq!((store.get(&things(), &a).unwrap().revision, store.get(&things(), &c).is_none()), (changed, true));
    assert!(store.dependents("a").is_empty() && store.by_uid("a").is_some() && store.by_uid("c").is_none());
    store.undo(&things(), &a, changed, Some(&old));
    assert_eq!(store.get(&things(), &a).unwrap().value["spec"]["size"], json!(3));
    // The next revision is after all undone ones.
    assert_eq!(store.put(&things(), thing("d", 1), Expected::Nothing, now).unwrap().revision, settled + 1);
}

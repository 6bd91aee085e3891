//! The statements about the store.

use super::*;

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
    store.remove(&things(), &("default".into(), "b".into()), Expected::Revision(first + 1), Timestamp::UNIX_EPOCH).unwrap();
    (store, first)
}

#[test]
fn the_past_is_found_by_undoing_what_came_later() {
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
    assert_eq!(store.put(&things(), thing("a", 9), Expected::Revision(first), Timestamp::UNIX_EPOCH).unwrap_err(), Raced);
    assert_eq!(store.put(&things(), thing("a", 9), Expected::Nothing, Timestamp::UNIX_EPOCH).unwrap_err(), Raced);
    assert_eq!(store.revision(), before);
}

#[test]
fn a_removed_object_is_seen_in_its_last_state_with_the_revision_of_the_removal() {
    let (store, first) = filled();
    let changes = store.changes_after(&things(), first + 2, 10).unwrap();
    let sight = changes[0].sight(|_| true).unwrap();
    assert_eq!(sight, Sight::Deleted);
    assert_eq!(changes[0].object(sight)["metadata"]["resourceVersion"], json!((first + 3).to_string()));
    assert_eq!(changes[0].object(sight)["spec"]["size"], json!(2));
}

#[test]
fn what_leaves_a_selection_is_deleted_for_its_watcher() {
    let (store, first) = filled();
    let changes = store.changes_after(&things(), first + 1, 10).unwrap();
    assert_eq!(changes[0].sight(|value| value["spec"]["size"] == json!(1)), Some(Sight::Deleted));
    assert_eq!(changes[0].sight(|value| value["spec"]["size"] == json!(3)), Some(Sight::Added));
    assert_eq!(changes[0].sight(|value| value["spec"]["size"] == json!(7)), None);
}

#[test]
fn history_is_forgotten_by_number_and_by_age() {
    let mut store = Store::new(Limits { changes: 2, age: SignedDuration::from_secs(10) });
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

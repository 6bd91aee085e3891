//! Tests of field ownership.

use serde_json::json;

use super::lists::Schema;
use super::*;
use jiff::Timestamp;

fn schema() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, "color": {"type": "string"},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object",
            "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}}}}, "status": {"type": "object"}}})
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "ex.dev/v1", "kind": "Widget", "metadata": {"name": "s"}, "spec": spec})
}

fn with<T>(name: &str, operation: Operation, second: i64, act: impl FnOnce(&mut Manager<'_>) -> T) -> T {
    let schema = schema();
    let lists = Schema { schema: &schema, has_status: true };
    let time = Timestamp::from_second(second).unwrap();
    act(&mut Manager {
        name,
        operation,
        subresource: None,
        api_version: "ex.dev/v1",
        time,
        force: false,
        lists: &lists,
    })
}

fn applied(live: Option<&Value>, name: &str, spec: Value) -> Result<Value, ApiError> {
    with(name, Operation::Apply, 1, |by| apply(live, &object(spec), by))
}

fn forced(live: &Value, name: &str, spec: Value) -> Value {
    with(name, Operation::Apply, 2, |by| {
        by.force = true;
        apply(Some(live), &object(spec), by).unwrap()
    })
}

fn updated(live: &Value, name: &str, spec: Value) -> Value {
    let mut new = live.clone();
    new["spec"] = spec;
    with(name, Operation::Update, 3, |by| record(Some(live), &mut new, by));
    new
}

fn created(name: &str, spec: Value) -> Value {
    let mut new = object(spec);
    with(name, Operation::Update, 1, |by| record(None, &mut new, by));
    new
}

fn owned(object: &Value, name: &str) -> Option<Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    entries.iter().find(|entry| entry["manager"] == name).map(|entry| entry["fieldsV1"].clone())
}

#[test]
fn an_empty_required_field_is_owned_by_its_creator() {
    let kind = crate::kinds::builtin::kinds().into_iter().find(|kind| kind.kind == "Pod").unwrap();
    let lists = lists_of(&kind);
    let mut by_nobody_else =
        json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {}}]}});
    let time = Timestamp::UNIX_EPOCH;
    let by = Manager {
        name: "m",
        operation: Operation::Update,
        subresource: None,
        api_version: "v1",
        time,
        force: false,
        lists: &*lists,
    };
    record(None, &mut by_nobody_else, &by);
    let owned = owned(&by_nobody_else, "m").unwrap();
    assert_eq!(owned["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"]["f:resources"], json!({}));
}

#[test]
fn an_apply_owns_the_leaves_of_its_document() {
    let made = applied(None, "m1", json!({"size": 3, "tags": ["t1"], "items": [{"k": "x", "v": "1"}], "plain": ["a"]}))
        .unwrap();
    let wanted = json!([{"manager": "m1", "operation": "Apply", "apiVersion": "ex.dev/v1", "time": "1970-01-01T00:00:01Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:size": {}, "f:plain": {}, "f:tags": {"v:\"t1\"": {}},
            "f:items": {"k:{\"k\":\"x\"}": {".": {}, "f:k": {}, "f:v": {}}}}}}]);
    assert_eq!(made["metadata"]["managedFields"], wanted);
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let made = applied(None, "m1", json!({"size": 3, "tags": ["a", "b"]})).unwrap();
    let again =
        with("m1", Operation::Apply, 99, |by| apply(Some(&made), &object(json!({"size": 3, "tags": ["a", "b"]})), by));
    assert_eq!(again, Ok(made));
}

#[test]
fn changing_a_field_of_another_manager_is_a_conflict_unless_forced() {
    let made = applied(None, "m1", json!({"size": 3, "color": "red"})).unwrap();
    let failure = applied(Some(&made), "m2", json!({"size": 4})).unwrap_err();
    assert_eq!((failure.code, &*failure.reason), (409, "Conflict"));
    assert_eq!(failure.message, "Apply failed with 1 conflict: conflict with \"m1\": .spec.size");
    assert_eq!(
        failure.details.causes,
        vec![FieldError::new("FieldManagerConflict", ".spec.size", "conflict with \"m1\"")]
    );
    let taken = forced(&made, "m2", json!({"size": 4}));
    assert_eq!(taken["spec"], json!({"size": 4, "color": "red"}));
    assert_eq!(owned(&taken, "m1"), Some(json!({"f:spec": {"f:color": {}}})));
    assert_eq!(owned(&taken, "m2"), Some(json!({"f:spec": {"f:size": {}}})));
}

#[test]
fn the_same_value_is_shared() {
    let made = applied(None, "m1", json!({"size": 3})).unwrap();
    let shared = applied(Some(&made), "m2", json!({"size": 3})).unwrap();
    assert_eq!(owned(&shared, "m1"), owned(&shared, "m2"));
}

#[test]
fn a_field_that_is_not_applied_again_is_removed_unless_another_manager_owns_it() {
    let made =
        applied(None, "m1", json!({"size": 3, "color": "red", "tags": ["a", "b"], "items": [{"k": "x"}, {"k": "y"}]}))
            .unwrap();
    let shared = applied(Some(&made), "m2", json!({"tags": ["b"], "items": [{"k": "y"}]})).unwrap();
    let left = applied(Some(&shared), "m1", json!({"size": 3})).unwrap();
    assert_eq!(left["spec"], json!({"size": 3, "tags": ["b"], "items": [{"k": "y"}]}));
    let gone = applied(Some(&left), "m2", json!({})).unwrap();
    assert_eq!(gone["spec"], json!({"size": 3}));
    assert_eq!(owned(&gone, "m2"), Some(json!({"f:spec": {}})));
}

#[test]
fn labels_that_are_not_applied_again_are_removed() {
    let labelled = json!({"metadata": {"name": "s", "labels": {"a": "b"}}, "spec": {"size": 1}});
    let made = with("m1", Operation::Apply, 1, |by| apply(None, &labelled, by)).unwrap();
    assert_eq!(owned(&made, "m1").unwrap()["f:metadata"], json!({"f:labels": {"f:a": {}}}));
    let left = applied(Some(&made), "m1", json!({"size": 1})).unwrap();
    assert_eq!((left["metadata"].get("labels"), &left["metadata"]["name"]), (None, &json!("s")));
}

#[test]
fn an_update_takes_the_changed_leaves_from_everybody() {
    let made = applied(None, "m1", json!({"size": 3, "color": "red"})).unwrap();
    let changed = updated(&made, "probe", json!({"size": 4, "color": "red"}));
    assert_eq!(owned(&changed, "m1"), Some(json!({"f:spec": {"f:color": {}}})));
    assert_eq!(owned(&changed, "probe"), Some(json!({"f:spec": {"f:size": {}}})));
    let failure = applied(Some(&changed), "m1", json!({"size": 5, "color": "red"})).unwrap_err();
    assert_eq!(failure.details.causes[0].message, "conflict with \"probe\" using ex.dev/v1");
    let deleted = updated(&changed, "other", json!({"color": "red"}));
    assert_eq!((owned(&deleted, "probe"), owned(&deleted, "other")), (None, None));
}

#[test]
fn a_creation_owns_the_maps_and_lists_that_it_makes() {
    let made = created("probe", json!({"size": 1, "tags": ["a"], "any": {"x": {"y": 1}}}));
    let wanted = json!({"f:spec": {".": {}, "f:size": {}, "f:tags": {".": {}, "v:\"a\"": {}},
        "f:any": {".": {}, "f:x": {".": {}, "f:y": {}}}}});
    assert_eq!(owned(&made, "probe"), Some(wanted));
}

#[test]
fn a_deployment_owns_no_maps_that_are_always_there() {
    let mut made = json!({"metadata": {"name": "d", "labels": {"l": "1"}}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}}}});
    let kind = crate::kinds::builtin::kinds().into_iter().find(|kind| kind.kind == "Deployment").unwrap();
    let lists = lists_of(&kind);
    let time = Timestamp::UNIX_EPOCH;
    let by = Manager {
        name: "k",
        operation: Operation::Update,
        subresource: None,
        api_version: "apps/v1",
        time,
        force: false,
        lists: &*lists,
    };
    record(None, &mut made, &by);
    let wanted = json!({"f:metadata": {"f:labels": {".": {}, "f:l": {}}}, "f:spec": {"f:replicas": {}, "f:selector": {},
        "f:template": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
            ".": {}, "f:name": {}, "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}}}});
    assert_eq!(owned(&made, "k"), Some(wanted));
}

#[test]
fn one_empty_entry_ends_all_tracking_and_null_does_not() {
    let made = applied(None, "m1", json!({"size": 3})).unwrap();
    let mut cleared = made.clone();
    cleared["metadata"]["managedFields"] = json!([{}]);
    with("probe", Operation::Update, 3, |by| record(Some(&made), &mut cleared, by));
    assert_eq!(cleared["metadata"].get("managedFields"), None);
    let changed = updated(&cleared, "probe", json!({"size": 4}));
    assert_eq!(changed["metadata"].get("managedFields"), None);
    let mut ignored = made.clone();
    ignored["metadata"]["managedFields"] = Value::Null;
    with("probe", Operation::Update, 3, |by| record(Some(&made), &mut ignored, by));
    assert_eq!(ignored, made);
}

#[test]
fn the_first_apply_to_an_untracked_object_keeps_its_previous_fields() {
    let live = object(json!({"size": 3, "color": "red"}));
    let made = applied(Some(&live), "m1", json!({"size": 3})).unwrap();
    assert_eq!(owned(&made, "before-first-apply"), Some(json!({"f:spec": {".": {}, "f:size": {}, "f:color": {}}})));
    assert_eq!(applied(Some(&live), "m1", json!({"size": 4})).unwrap_err().code, 409);
}

#[test]
fn the_oldest_updates_share_an_entry() {
    let mut live = created("u0", json!({"any": {"f0": 1}}));
    for number in 1..13 {
        let mut new = live.clone();
        new["spec"]["any"][format!("f{number}")] = json!(1);
        with(&format!("u{number}"), Operation::Update, 10 + number, |by| record(Some(&live), &mut new, by));
        live = new;
    }
    assert_eq!(live["metadata"]["managedFields"].as_array().unwrap().len(), 10);
    assert!(owned(&live, "ancient-changes").is_some_and(|fields| fields["f:spec"]["f:any"].get("f1").is_none()));
}

#[test]
fn the_status_is_owned_through_its_subresource_only() {
    let mut new = object(json!({"size": 1}));
    new["status"] = json!({"phase": "A"});
    with("probe", Operation::Update, 1, |by| record(None, &mut new, by));
    assert_eq!(owned(&new, "probe").unwrap().get("f:status"), None);
    let made = applied(None, "m1", json!({"size": 1})).unwrap();
    let document = json!({"metadata": {"name": "s"}, "spec": {"size": 9}, "status": {"phase": "B"}});
    let changed = with("m1", Operation::Apply, 2, |by| {
        by.subresource = Some("status");
        apply(Some(&made), &document, by).unwrap()
    });
    assert_eq!((&changed["spec"]["size"], &changed["status"]["phase"]), (&json!(1), &json!("B")));
    let entry = &changed["metadata"]["managedFields"][1];
    assert_eq!((&entry["subresource"], &entry["fieldsV1"]), (&json!("status"), &json!({"f:status": {"f:phase": {}}})));
}

#[test]
fn duplicates_and_managed_fields_cannot_be_applied() {
    assert_eq!(applied(None, "m", json!({"tags": ["a", "a"]})).unwrap_err().code, 500);
    assert_eq!(applied(None, "m", json!({"items": [{"k": "a"}, {"k": "a"}]})).unwrap_err().code, 500);
    let mut document = object(json!({}));
    document["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    assert_eq!(with("m", Operation::Apply, 1, |by| apply(None, &document, by)).unwrap_err().code, 400);
}

#[test]
fn lists_keep_the_applied_order_around_the_items_of_others() {
    let live = applied(None, "m1", json!({"tags": ["a", "b"]})).unwrap();
    assert_eq!(
        applied(Some(&live), "m2", json!({"tags": ["a", "c"]})).unwrap()["spec"]["tags"],
        json!(["a", "b", "c"])
    );
    assert_eq!(applied(Some(&live), "m1", json!({"tags": ["b", "a"]})).unwrap()["spec"]["tags"], json!(["b", "a"]));
}

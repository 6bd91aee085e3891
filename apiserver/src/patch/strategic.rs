//! Strategic merge patches of built-in kinds: merge patches with lists merged by key, and directives.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::http::api_error::ApiError;
use crate::kinds::kind::Kind;
use crate::patch::merge_keys::{self, REPLACE, SET};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// Merges the patch into the object of a built-in kind.
///
/// # Errors
///
/// 400 for malformed directives, 500 for list items without their merge key or with an unknown directive, as on real
/// servers.
pub(crate) fn apply(target: &Value, patch: &Value, kind: &Kind) -> Result<Value, ApiError> {
    let (Value::Object(target), Value::Object(patch)) = (target, patch) else {
        return Err(ApiError::bad_request("error decoding patch: a strategic merge patch is an object"));
    };
    let mut merged = target.clone();
    merge_map(&mut merged, patch, &kind.kind)?;
    Ok(Value::Object(merged))
}

fn bad_format(directive: &str) -> ApiError {
    ApiError::bad_request(format!("invalid patch format of {directive}"))
}

fn broken(text: String) -> ApiError {
    ApiError::new(500, "", text)
}

fn merge_map(target: &mut Map<String, Value>, patch: &Map<String, Value>, shape: &str) -> Result<(), ApiError> {
    match patch.get(DIRECTIVE).map(|value| value.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => {
            target.clear();
            target.extend(
                patch.iter().filter(|(key, _)| *key != DIRECTIVE).map(|(key, value)| (key.clone(), value.clone())),
            );
            return Ok(());
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some(other) => return Err(broken(format!("unknown patch type found: {other}"))),
    }
    retain_keys(target, patch)?;
    for (key, value) in patch.iter().filter(|(key, _)| key.starts_with(DELETE_FROM)) {
        delete_from(target, &key[DELETE_FROM.len()..], value)?;
    }
    // The order of the elements before the patch decides about the positions of elements that are not in the patch.
    let before: HashMap<String, Value> = patch
        .keys()
        .filter_map(|key| key.strip_prefix(ELEMENT_ORDER))
        .filter_map(|name| target.get(name).map(|list| (name.to_owned(), list.clone())))
        .collect();
    for (key, value) in patch.iter().filter(|(key, _)| !is_directive(key)) {
        merge_field(target, key, value, shape)?;
    }
    for (key, order) in patch {
        let Some(name) = key.strip_prefix(ELEMENT_ORDER) else { continue };
        let order =
            order.as_array().ok_or_else(|| broken("invalid patch format of setElementOrder list".to_owned()))?;
        let merge_key = merge_keys::find(shape, name).map_or("", |field| field.merge);
        check_order(patch.get(name), order, merge_key)?;
        if let Some(Value::Array(list)) = target.get_mut(name) {
            let before = before.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            set_order(list, order, before, merge_key);
        }
    }
    Ok(())
}

fn is_directive(key: &str) -> bool {
    key == DIRECTIVE || key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(ELEMENT_ORDER)
}

/// Removes the fields that are not in `$retainKeys`; fields set by the patch must be listed.
fn retain_keys(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), ApiError> {
    let Some(list) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let list = list.as_array().ok_or_else(|| bad_format(RETAIN_KEYS))?;
    let kept: HashSet<&str> = list.iter().filter_map(Value::as_str).collect();
    if patch.iter().any(|(key, value)| !is_directive(key) && !value.is_null() && !kept.contains(key.as_str())) {
        return Err(bad_format(RETAIN_KEYS));
    }
    target.retain(|key, _| kept.contains(key.as_str()));
    Ok(())
}

fn delete_from(target: &mut Map<String, Value>, name: &str, values: &Value) -> Result<(), ApiError> {
    // Deletions from an absent list have no effect.
    let Some(Value::Array(list)) = target.get_mut(name) else { return Ok(()) };
    let values = values.as_array().ok_or_else(|| bad_format("$deleteFromPrimitiveList"))?;
    let gone: HashSet<String> = values.iter().map(Value::to_string).collect();
    list.retain(|item| !gone.contains(&item.to_string()));
    Ok(())
}

/// Checks that the items of a patch are in the order of `$setElementOrder`; deletions need not be.
fn check_order(items: Option<&Value>, order: &[Value], merge_key: &str) -> Result<(), ApiError> {
    let key = |item: &Value| if item.is_object() { item[merge_key].clone() } else { item.clone() };
    let mut rest = order.iter().map(key);
    let items = items.and_then(Value::as_array).into_iter().flatten();
    for item in items.filter(|item| item.get(DIRECTIVE).is_none()) {
        if !rest.any(|wanted| wanted == key(item)) {
            return Err(broken(format!(
                "The order in patch list doesn't match $setElementOrder list: {item} is not where it should be"
            )));
        }
    }
    Ok(())
}

fn merge_field(target: &mut Map<String, Value>, key: &str, value: &Value, shape: &str) -> Result<(), ApiError> {
    let field = merge_keys::find(shape, key);
    let (merge, holds) = field.map_or(("", ""), |field| (field.merge, field.holds));
    match value {
        Value::Null => drop(target.remove(key)),
        Value::Object(patch) if merge == REPLACE => {
            let mut fresh = Map::new();
            merge_map(&mut fresh, patch, holds)?;
            target.insert(key.to_owned(), Value::Object(fresh));
        }
        Value::Object(patch) => {
            let slot = target.entry(key).or_insert_with(|| Value::Object(Map::new()));
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            merge_map(slot.as_object_mut().expect("it is an object"), patch, holds)?;
        }
        Value::Array(patch) if !merge.is_empty() && merge != REPLACE => {
            let slot = target.entry(key).or_insert_with(|| Value::Array(Vec::new()));
            if !slot.is_array() {
                *slot = Value::Array(Vec::new());
            }
            let list = slot.as_array_mut().expect("it is a list");
            if merge == SET { merge_set(list, patch) } else { merge_list(list, patch, merge, holds)? }
        }
        other => drop(target.insert(key.to_owned(), other.clone())),
    }
    Ok(())
}

fn merge_set(list: &mut Vec<Value>, patch: &[Value]) {
    let mut known = HashSet::new();
    list.retain(|item| known.insert(item.to_string()));
    let before = list.clone();
    list.extend(patch.iter().filter(|item| known.insert(item.to_string())).cloned());
    set_order(list, patch, &before, "");
}

fn merge_list(list: &mut Vec<Value>, patch: &[Value], key: &str, shape: &str) -> Result<(), ApiError> {
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).unwrap_or_default().to_owned();
    let identity = |item: &Value| {
        let found = item.get(key).filter(|value| !value.is_null()).map(Value::to_string);
        found.ok_or_else(|| broken(format!("map: {item} does not contain declared merge key: {key}")))
    };
    if patch.iter().any(|item| directive(item) == "replace") {
        list.clear();
    }
    let gone: HashSet<String> =
        patch.iter().filter(|item| directive(item) == "delete").map(identity).collect::<Result<_, _>>()?;
    list.retain(|item| item.get(key).is_none_or(|value| !gone.contains(&value.to_string())));
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, item) in list.iter().enumerate() {
        places.entry(identity(item)?).or_insert(place);
    }
    let before = list.clone();
    let merged = patch.iter().filter(|item| !matches!(directive(item).as_str(), "delete" | "replace"));
    for item in merged.clone() {
        let name = identity(item)?;
        let patch = item.as_object().expect("only objects have keys");
        let place = *places.entry(name).or_insert_with(|| {
            list.push(Value::Object(Map::new()));
            list.len() - 1
        });
        if let Value::Object(target) = &mut list[place] {
            merge_map(target, patch, shape)?;
        }
    }
    let order: Vec<Value> = merged.cloned().collect();
    set_order(list, &order, &before, key);
    Ok(())
}

/// Sorts the items in the order of the patch: new ones come before items that are not listed, which keep their relative
/// place.
fn set_order(list: &mut Vec<Value>, order: &[Value], before: &[Value], key: &str) {
    let identity = |item: &Value| item.get(key).unwrap_or(item).to_string();
    let wanted: HashMap<String, usize> =
        order.iter().enumerate().map(|(place, item)| (identity(item), place)).collect();
    let server: HashMap<String, usize> =
        before.iter().enumerate().map(|(place, item)| (identity(item), place)).collect();
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        list.drain(..).partition(|item| wanted.contains_key(&identity(item)));
    named.sort_by_key(|item| wanted[&identity(item)]);
    let mut others = others.into_iter().peekable();
    for item in named {
        let place = server.get(&identity(&item)).copied();
        while let (Some(place), Some(other)) = (place, others.peek()) {
            if server.get(&identity(other)).is_none_or(|other| *other > place) {
                break;
            }
            list.extend(others.next());
        }
        list.push(item);
    }
    list.extend(others);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(name: &str) -> Kind {
        Kind { kind: name.to_owned(), ..Kind::default() }
    }

    fn pod(target: Value, patch: Value) -> Result<Value, u16> {
        apply(&json!({"spec": target}), &json!({"spec": patch}), &kind("Pod"))
            .map(|value| value["spec"].clone())
            .map_err(|failure| failure.code)
    }

    #[test]
    fn maps_merge_and_nulls_delete() {
        let merged = apply(&json!({"data": {"a": "1"}}), &json!({"data": {"b": "3", "a": null}}), &kind("ConfigMap"));
        assert_eq!(merged, Ok(json!({"data": {"b": "3"}})));
    }

    #[test]
    fn containers_merge_by_name_and_their_ports_by_number() {
        let target = json!({"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 80}], "args": ["x", "y"]}, {"name": "b"}]});
        let patch = json!({"containers": [{"name": "a", "image": "j", "ports": [{"containerPort": 81}], "args": ["z"]}, {"name": "c"}]});
        let wanted = json!({"containers": [
            {"name": "a", "image": "j", "ports": [{"containerPort": 81}, {"containerPort": 80}], "args": ["z"]}, {"name": "c"}, {"name": "b"}]});
        assert_eq!(pod(target, patch), Ok(wanted));
    }

    #[test]
    fn new_items_precede_items_that_the_patch_does_not_name() {
        let target = json!({"containers": [{"name": "a"}, {"name": "b"}]});
        let merged = pod(target, json!({"containers": [{"name": "new"}]}));
        assert_eq!(merged, Ok(json!({"containers": [{"name": "new"}, {"name": "a"}, {"name": "b"}]})));
    }

    #[test]
    fn directives_delete_and_replace_items_lists_and_maps() {
        let target = json!({"containers": [{"name": "a"}, {"name": "b"}], "securityContext": {"a": 1}});
        let patch = json!({"containers": [{"$patch": "delete", "name": "a"}], "securityContext": {"$patch": "replace", "b": 2}});
        assert_eq!(pod(target.clone(), patch), Ok(json!({"containers": [{"name": "b"}], "securityContext": {"b": 2}})));
        let patch =
            json!({"containers": [{"$patch": "replace"}, {"name": "c"}], "securityContext": {"$patch": "delete"}});
        assert_eq!(pod(target, patch), Ok(json!({"containers": [{"name": "c"}], "securityContext": {}})));
    }

    #[test]
    fn finalizers_are_a_set_that_values_can_be_deleted_from() {
        let target = json!({"metadata": {"finalizers": ["a", "b"]}});
        let patch = json!({"metadata": {"finalizers": ["c", "b"], "$deleteFromPrimitiveList/finalizers": ["a"]}});
        assert_eq!(apply(&target, &patch, &kind("ConfigMap")), Ok(json!({"metadata": {"finalizers": ["c", "b"]}})));
    }

    #[test]
    fn retained_keys_drop_all_others() {
        let target = json!({"volumes": [{"name": "v", "emptyDir": {}}]});
        let patch = json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]});
        assert_eq!(pod(target.clone(), patch), Ok(json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]})));
        let patch = json!({"volumes": [{"name": "v", "$retainKeys": ["name"], "hostPath": {"path": "/"}}]});
        assert_eq!(pod(target, patch), Err(400));
    }

    #[test]
    fn the_order_of_elements_is_set_around_those_of_others() {
        let target = json!({"containers": [{"name": "a"}, {"name": "other"}, {"name": "b"}]});
        let patch = json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "new"}, {"name": "a"}], "containers": [{"name": "new"}]});
        let wanted = json!({"containers": [{"name": "other"}, {"name": "b"}, {"name": "new"}, {"name": "a"}]});
        assert_eq!(pod(target, patch), Ok(wanted));
    }

    #[test]
    fn an_item_without_its_merge_key_is_an_error() {
        assert_eq!(pod(json!({"containers": []}), json!({"containers": [{"image": "i"}]})), Err(500));
        assert_eq!(pod(json!({}), json!({"$patch": "frob"})), Err(500));
        assert_eq!(apply(&json!({}), &json!([]), &kind("Pod")).unwrap_err().code, 400);
    }

    #[test]
    fn directives_are_removed_from_new_values() {
        let patch = json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "a", "$retainKeys": ["name"]}]});
        assert_eq!(pod(json!({}), patch), Ok(json!({"containers": [{"name": "a"}]})));
    }

    #[test]
    fn the_selector_of_a_disruption_budget_is_replaced() {
        let target = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}});
        let merged =
            apply(&target, &json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}}), &kind("PodDisruptionBudget"));
        assert_eq!(merged, Ok(json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}})));
    }
}

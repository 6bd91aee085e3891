//! JSON patches in the dialect of the Kubernetes API server, which differs from RFC 6902.
//!
//! The differences of real servers: `replace` of a missing member adds it, a `test` for null succeeds for a missing
//! member, negative indexes count from the end, the text before the first slash of a path is ignored, and numbers are
//! compared as written.

use serde_json::Value;

use crate::http::api_error::ApiError;
use crate::http::json;

/// Limit of operations in one patch; the same as in the real server.
const MAX_OPERATIONS: usize = 10_000;

/// Limit of bytes that all `copy` operations of a patch may add: the size of a whole request. It stops repeated
/// doubling.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Limit of nesting of a patched object, which JSON parsers of clients support.
const MAX_DEPTH: usize = 127;

/// Applies the operations, all or none.
///
/// # Errors
///
/// 400 if it is not a list of operations, 413 for too many or too large ones, 422 for an operation that cannot be
/// applied.
pub(crate) fn apply(target: &Value, operations: &Value) -> Result<Value, ApiError> {
    let operations = decode(operations)?;
    if operations.len() > MAX_OPERATIONS {
        let text =
            format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}", operations.len());
        return Err(too_large(&text));
    }
    let mut document = target.clone();
    let mut copied = 0;
    for operation in &operations {
        operation.apply(&mut document, &mut copied)?;
    }
    Ok(document)
}

/// One operation; missing members are empty.
#[derive(Default)]
struct Operation<'a> {
    op: &'a str,
    path: Option<&'a str>,
    from: Option<&'a str>,
    value: Option<&'a Value>,
}

fn decode(operations: &Value) -> Result<Vec<Operation<'_>>, ApiError> {
    match operations {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => list.iter().map(Operation::decode).collect(),
        other => Err(undecodable(other, "of type []handlers.jsonPatchOp")),
    }
}

/// Returns the paths of unknown members of operations.
pub(crate) fn unknown_members(operations: &Value) -> impl Iterator<Item = String> {
    let operations = operations.as_array().into_iter().flatten().enumerate();
    operations.flat_map(|(index, operation)| {
        let names = operation.as_object().into_iter().flat_map(|members| members.keys());
        let unknown = names.filter(|name| !["op", "path", "from", "value"].contains(&name.as_str()));
        unknown.map(move |name| format!("[{index}].{name}")).collect::<Vec<_>>()
    })
}

fn undecodable(value: &Value, expected: &str) -> ApiError {
    let found = json::type_name(value);
    ApiError::bad_request(format!("error decoding patch: json: cannot unmarshal {found} into Go value {expected}"))
}

fn rejected() -> ApiError {
    ApiError::plain(422, "Invalid", "the server rejected our request due to an error in our request")
}

fn too_large(text: &str) -> ApiError {
    ApiError::new(413, "RequestEntityTooLarge", format!("Request entity too large: {text}"))
}

impl<'a> Operation<'a> {
    fn decode(value: &'a Value) -> Result<Self, ApiError> {
        let members = match value {
            Value::Null => return Ok(Self::default()),
            Value::Object(members) => members,
            other => return Err(undecodable(other, "of type handlers.jsonPatchOp")),
        };
        let text = |name: &str| match members.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(undecodable(other, "of type string")),
        };
        Ok(Self {
            op: text("op")?.unwrap_or_default(),
            path: text("path")?,
            from: text("from")?,
            value: members.get("value"),
        })
    }

    fn apply(&self, document: &mut Value, copied: &mut usize) -> Result<(), ApiError> {
        match self.op {
            "add" => add(document, self.path, self.value()),
            "remove" => remove(document, self.path).map(drop),
            "replace" => replace(document, self.path, self.value()),
            "test" => self.test(document),
            "move" => {
                let value = remove(document, self.from)?;
                add(document, self.path, value)
            }
            "copy" => {
                let value = read(document, self.from)?.cloned().unwrap_or(Value::Null);
                *copied += value.to_string().len();
                if *copied > MAX_COPIED {
                    let text = format!(
                        "unable to complete the copy, the size of all copies is {copied}, exceeding the limit {MAX_COPIED}"
                    );
                    return Err(too_large(&text));
                }
                add(document, self.path, value)
            }
            _ => Err(rejected()),
        }
    }

    fn value(&self) -> Value {
        self.value.cloned().unwrap_or(Value::Null)
    }

    /// A missing member, a null, and a missing `value` are equal.
    fn test(&self, document: &Value) -> Result<(), ApiError> {
        let found = if self.path == Some("") { Some(document) } else { read(document, self.path)? };
        let found = found.filter(|value| !value.is_null());
        let wanted = self.value.filter(|value| !value.is_null());
        if found == wanted { Ok(()) } else { Err(rejected()) }
    }
}

/// Returns the path's parts and its last key. The text before the first slash is ignored.
fn split(path: Option<&str>) -> Result<(Vec<String>, String), ApiError> {
    let mut parts: Vec<String> = path.ok_or_else(rejected)?.split('/').skip(1).map(unescape).collect();
    let key = parts.pop().ok_or_else(rejected)?;
    if parts.len() >= MAX_DEPTH { Err(rejected()) } else { Ok((parts, key)) }
}

fn unescape(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Returns the position of a key in a list of this length; additions may use the length itself.
fn index(key: &str, length: usize) -> Result<usize, ApiError> {
    let index: i64 = key.parse().map_err(|_| rejected())?;
    let index = if index < 0 { index + length as i64 } else { index };
    usize::try_from(index).ok().filter(|index| *index < length).ok_or_else(rejected)
}

fn child<'v>(value: &'v Value, part: &str) -> Option<&'v Value> {
    match value {
        Value::Object(members) => members.get(part),
        Value::Array(list) => list.get(index(part, list.len()).ok()?),
        _ => None,
    }
}

/// Returns the value at the path; `None` for a missing member of an existing object.
fn read<'v>(document: &'v Value, path: Option<&str>) -> Result<Option<&'v Value>, ApiError> {
    let (parts, key) = split(path)?;
    let mut value = document;
    for part in &parts {
        value = child(value, part).ok_or_else(rejected)?;
    }
    match value {
        Value::Object(members) => Ok(members.get(&key)),
        Value::Array(list) => Ok(Some(&list[index(&key, list.len())?])),
        _ => Err(rejected()),
    }
}

fn container<'v>(document: &'v mut Value, path: Option<&str>) -> Result<(&'v mut Value, String, usize), ApiError> {
    let (parts, key) = split(path)?;
    let mut value = document;
    for part in &parts {
        value = match value {
            Value::Object(members) => members.get_mut(part).ok_or_else(rejected)?,
            Value::Array(list) => {
                let index = index(part, list.len())?;
                &mut list[index]
            }
            _ => return Err(rejected()),
        };
    }
    Ok((value, key, parts.len()))
}

fn add(document: &mut Value, path: Option<&str>, value: Value) -> Result<(), ApiError> {
    let (container, key, depth) = container(document, path)?;
    check_depth(&value, depth)?;
    match container {
        Value::Object(members) => {
            members.insert(key, value);
        }
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => {
            let index = index(&key, list.len() + 1)?;
            list.insert(index, value);
        }
        _ => return Err(rejected()),
    }
    Ok(())
}

fn remove(document: &mut Value, path: Option<&str>) -> Result<Value, ApiError> {
    let (container, key, _) = container(document, path)?;
    match container {
        Value::Object(members) => members.remove(&key).ok_or_else(rejected),
        Value::Array(list) => {
            let index = index(&key, list.len())?;
            Ok(list.remove(index))
        }
        _ => Err(rejected()),
    }
}

fn replace(document: &mut Value, path: Option<&str>, value: Value) -> Result<(), ApiError> {
    if path == Some("") && (value.is_object() || value.is_array()) {
        *document = value;
        return Ok(());
    }
    let (container, key, depth) = container(document, path)?;
    check_depth(&value, depth)?;
    match container {
        Value::Object(members) => {
            members.insert(key, value);
        }
        Value::Array(list) => {
            let index = index(&key, list.len())?;
            list[index] = value;
        }
        _ => return Err(rejected()),
    }
    Ok(())
}

/// Copies and moves into themselves could nest an object too deeply to be parsed or dropped.
fn check_depth(value: &Value, above: usize) -> Result<(), ApiError> {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
            Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    if above + 1 + depth(value) > MAX_DEPTH { Err(rejected()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn target() -> Value {
        json!({"metadata": {"resourceVersion": "7"}, "spec": {"size": 3, "a/b": 1, "m~n": 2, "list": [1, 2, 3], "null": null}})
    }

    fn patched(operation: Value) -> Result<Value, u16> {
        apply(&target(), &json!([operation])).map(|value| value["spec"].clone()).map_err(|failure| failure.code)
    }

    fn list(operation: Value) -> Result<Value, u16> {
        patched(operation).map(|spec| spec["list"].clone())
    }

    #[test]
    fn a_test_passes_only_for_the_very_same_value() {
        assert!(patched(json!({"op": "test", "path": "/spec/size", "value": 3})).is_ok());
        assert_eq!(patched(json!({"op": "test", "path": "/spec/size", "value": 1})), Err(422));
        assert_eq!(patched(json!({"op": "test", "path": "/spec/size", "value": 3.0})), Err(422));
        assert_eq!(patched(json!({"op": "test", "path": "/spec/none", "value": 1})), Err(422));
        assert!(patched(json!({"op": "test", "path": "/spec/list", "value": [1, 2, 3]})).is_ok());
    }

    #[test]
    fn a_test_for_null_passes_on_a_missing_member_of_a_parent_that_is_there() {
        assert!(patched(json!({"op": "test", "path": "/spec/none", "value": null})).is_ok());
        assert!(patched(json!({"op": "test", "path": "/spec/none"})).is_ok());
        assert!(patched(json!({"op": "test", "path": "/spec/null", "value": null})).is_ok());
        assert_eq!(patched(json!({"op": "test", "path": "/none/none", "value": null})), Err(422));
        assert_eq!(patched(json!({"op": "test", "path": "/spec/size"})), Err(422));
        assert_eq!(patched(json!({"op": "test", "path": "/spec/list/9", "value": null})), Err(422));
    }

    #[test]
    fn a_missing_member_is_replaced_but_not_removed() {
        assert_eq!(patched(json!({"op": "replace", "path": "/spec/none", "value": 1})).unwrap()["none"], 1);
        assert_eq!(patched(json!({"op": "remove", "path": "/spec/none"})), Err(422));
        assert_eq!(patched(json!({"op": "replace", "path": "/spec/none/x", "value": 1})), Err(422));
    }

    #[test]
    fn nothing_is_added_below_a_missing_parent() {
        assert_eq!(patched(json!({"op": "add", "path": "/metadata/annotations/x", "value": "1"})), Err(422));
        assert_eq!(patched(json!({"op": "add", "path": "/spec/size/x", "value": "1"})), Err(422));
    }

    #[test]
    fn lists_grow_at_their_end_and_count_from_it() {
        assert_eq!(list(json!({"op": "add", "path": "/spec/list/-", "value": 4})), Ok(json!([1, 2, 3, 4])));
        assert_eq!(list(json!({"op": "add", "path": "/spec/list/3", "value": 4})), Ok(json!([1, 2, 3, 4])));
        assert_eq!(list(json!({"op": "add", "path": "/spec/list/4", "value": 4})), Err(422));
        assert_eq!(list(json!({"op": "add", "path": "/spec/list/01", "value": 4})), Ok(json!([1, 4, 2, 3])));
        assert_eq!(list(json!({"op": "remove", "path": "/spec/list/-1"})), Ok(json!([1, 2])));
        assert_eq!(list(json!({"op": "replace", "path": "/spec/list/-3", "value": 9})), Ok(json!([9, 2, 3])));
        assert_eq!(list(json!({"op": "remove", "path": "/spec/list/-4"})), Err(422));
        assert_eq!(list(json!({"op": "remove", "path": "/spec/list/-"})), Err(422));
        assert_eq!(list(json!({"op": "replace", "path": "/spec/list/-", "value": 1})), Err(422));
    }

    #[test]
    fn moves_and_copies_are_those_of_the_standard() {
        let moved = patched(json!({"op": "move", "from": "/spec/size", "path": "/spec/to"})).unwrap();
        assert_eq!((moved.get("size"), &moved["to"]), (None, &json!(3)));
        assert_eq!(patched(json!({"op": "copy", "from": "/spec/size", "path": "/spec/to"})).unwrap()["to"], 3);
        assert_eq!(
            patched(json!({"op": "copy", "from": "/spec/none", "path": "/spec/to"})).unwrap()["to"],
            Value::Null
        );
        assert_eq!(patched(json!({"op": "move", "from": "/spec/none", "path": "/spec/to"})), Err(422));
        assert_eq!(patched(json!({"op": "copy", "path": "/spec/to"})), Err(422));
        let swapped = patched(json!({"op": "move", "from": "/spec/a~1b", "path": "/spec/m~0n"})).unwrap();
        assert_eq!((swapped.get("a/b"), &swapped["m~n"]), (None, &json!(1)));
    }

    #[test]
    fn invalid_operations_are_refused() {
        assert_eq!(patched(json!({"op": "frob", "path": "/spec"})), Err(422));
        assert_eq!(patched(json!({"path": "/spec"})), Err(422));
        assert_eq!(patched(json!({"op": "remove"})), Err(422));
        assert_eq!(patched(json!({"op": "remove", "path": ""})), Err(422));
        assert_eq!(patched(json!({"op": "remove", "path": 1})), Err(400));
        assert_eq!(patched(json!(1)), Err(400));
        let failure = apply(&target(), &json!({"spec": 1})).unwrap_err();
        assert_eq!((failure.code, &*failure.reason), (400, "BadRequest"));
    }

    #[test]
    fn an_empty_patch_changes_nothing() {
        assert_eq!(apply(&target(), &json!([])), Ok(target()));
        assert_eq!(apply(&target(), &json!(null)), Ok(target()));
    }

    #[test]
    fn an_operation_without_a_value_writes_null() {
        assert_eq!(patched(json!({"op": "add", "path": "/spec/x"})).unwrap()["x"], Value::Null);
        assert_eq!(patched(json!({"op": "replace", "path": "/spec/size"})).unwrap()["size"], Value::Null);
    }

    #[test]
    fn too_many_operations_and_doubling_copies_are_too_large() {
        let many: Vec<Value> = (0..=MAX_OPERATIONS).map(|_| json!({"op": "remove", "path": "/x"})).collect();
        assert_eq!(apply(&target(), &json!(many)).unwrap_err().code, 413);
        let mut bomb = vec![json!({"op": "add", "path": "/spec/text", "value": "x".repeat(1000)})];
        for round in 0..20 {
            bomb.push(json!({"op": "copy", "from": "/spec", "path": "/copy"}));
            bomb.push(json!({"op": "move", "from": "/copy", "path": format!("/spec/copy{round}")}));
        }
        assert_eq!(apply(&target(), &json!(bomb)).unwrap_err().code, 413);
    }

    #[test]
    fn copies_below_themselves_do_not_nest_without_end() {
        let operations: Vec<Value> = (1..200)
            .map(|depth| json!({"op": "copy", "from": "/spec", "path": format!("/spec{}", "/x".repeat(depth))}))
            .collect();
        assert_eq!(apply(&json!({"spec": {}}), &json!(operations)).unwrap_err().code, 422);
    }
}

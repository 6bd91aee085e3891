//! Makes objects children of an owner: owner references, names, namespaces, and labels, as kopf adjusts them.
//!
//! All functions take one object or nested arrays of objects, and return them changed. Null and empty values stay
//! unchanged.

use serde_json::{Map, Value, json};

use super::path::{FieldPath, NotAMapping};

/// The reason why objects could not be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No owner was given, and no object is being handled.
    #[error("no {0} is given, and no object is being handled")]
    NothingHandled(&'static str),
    /// The owner has no name.
    #[error("there is no name to derive names from")]
    NoName,
    /// Owner references are compared by uid.
    #[error("the owner has no uid")]
    NoUid,
    /// The labels are null, or not a mapping.
    #[error("labels must be a mapping, not {0}")]
    Labels(&'static str),
    /// An option has the wrong type.
    #[error("nested paths must be a dotted text or an array of paths, not {0}")]
    Nested(&'static str),
    /// The object is not a mapping.
    #[error("an object must be a mapping, not {0}")]
    Scalar(&'static str),
    /// A part of an object has a form that cannot be changed.
    #[error("{field} of an object must be {expected}, not {found}")]
    Malformed {
        /// The field.
        field: String,
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// A parent of a nested structure is not a mapping.
    #[error(transparent)]
    Path(#[from] NotAMapping),
}

/// Paths of nested objects in an object, such as `spec.template`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nested(Vec<Vec<String>>);

impl Nested {
    /// Returns the paths of an option: one dotted text, or an array of paths, each a dotted text or an array of keys.
    ///
    /// # Errors
    /// If the value has another form.
    pub fn parse(value: &Value) -> Result<Self, Error> {
        match value {
            Value::Null => Ok(Self::default()),
            Value::String(text) => Ok(Self(vec![dotted(text)])),
            Value::Array(paths) => Ok(Self(paths.iter().map(keys_of).collect::<Result<_, _>>()?)),
            other => Err(Error::Nested(type_name(other))),
        }
    }
}

fn keys_of(path: &Value) -> Result<Vec<String>, Error> {
    match path {
        Value::String(text) => Ok(dotted(text)),
        Value::Array(keys) => keys
            .iter()
            .map(|key| key.as_str().map(str::to_owned).ok_or_else(|| Error::Nested(type_name(key))))
            .collect(),
        other => Err(Error::Nested(type_name(other))),
    }
}

fn dotted(text: &str) -> Vec<String> {
    FieldPath::dotted(text).prefix().to_vec()
}

/// The options of [`adopt`].
#[derive(Debug, Clone, Default)]
pub struct Adoption {
    /// Whether existing names, namespaces and labels are overwritten. Owner references never are.
    pub forced: bool,
    /// Whether the owner's name is used as it is, and not as the prefix of a generated one.
    pub strict: bool,
    /// Nested structures that are also labelled.
    pub nested: Nested,
}

/// Returns the objects as children of the owner: with an owner reference, and with its name, namespace, and labels.
///
/// A cluster-scoped owner sets `namespace: null`. A forced adoption that is not strict replaces a name by
/// `generateName`.
///
/// # Errors
/// If the owner has no name, or an object cannot be changed, or has owners while this owner has no uid to compare.
pub fn adopt(objects: Value, owner: &Value, options: &Adoption) -> Result<Value, Error> {
    let metadata = &owner["metadata"];
    let objects = append_owner_reference(objects, owner, &Reference::default())?;
    let name = metadata["name"].as_str().ok_or(Error::NoName)?;
    let objects = harmonize_naming(objects, name, options.forced, options.strict)?;
    let objects = adjust_namespace(objects, metadata["namespace"].as_str(), options.forced)?;
    label(objects, &labels_of(owner)?, options.forced, &options.nested)
}

/// The flags of an owner reference; `None` is omitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// Whether the owner is the controller of the object.
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits for the object.
    pub block_owner_deletion: Option<bool>,
}

impl Default for Reference {
    fn default() -> Self {
        Self { controller: Some(true), block_owner_deletion: Some(true) }
    }
}

/// Returns the objects with a reference to the owner, unless they already have one with its uid.
///
/// # Errors
/// If an object cannot be changed, or has references while the owner has no uid to compare.
pub fn append_owner_reference(objects: Value, owner: &Value, flags: &Reference) -> Result<Value, Error> {
    let reference = build_owner_reference(owner, flags);
    changed(objects, &Nested::default(), &mut |object| {
        let references = references_of(object)?;
        if !references.is_empty() {
            let uid = uid_of(owner)?;
            if references.iter().any(|present| present.get("uid") == Some(uid)) {
                return Ok(());
            }
        }
        references.push(reference.clone());
        Ok(())
    })
}

/// Returns the objects without references to the owner. An empty list of references stays, and is added where there was
/// none.
///
/// # Errors
/// If an object cannot be changed, or has references while the owner has no uid to compare.
pub fn remove_owner_reference(objects: Value, owner: &Value) -> Result<Value, Error> {
    changed(objects, &Nested::default(), &mut |object| {
        let references = references_of(object)?;
        if !references.is_empty() {
            let uid = uid_of(owner)?;
            references.retain(|present| present.get("uid") != Some(uid));
        }
        Ok(())
    })
}

/// Returns the objects with these labels. Existing labels are kept, unless forced.
///
/// # Errors
/// If an object, or a nested structure in it, cannot be changed.
pub fn label(objects: Value, labels: &Map<String, Value>, forced: bool, nested: &Nested) -> Result<Value, Error> {
    changed(objects, nested, &mut |object| {
        let present = child_map(metadata_of(object)?, "labels", "metadata.labels")?;
        for (key, value) in labels {
            if forced || !present.contains_key(key) {
                present.insert(key.clone(), value.clone());
            }
        }
        Ok(())
    })
}

/// Returns the objects with a name. An existing name or name prefix is kept, unless forced.
///
/// A strict name is used as it is; otherwise it is the prefix of a generated one.
///
/// # Errors
/// If an object cannot be changed.
pub fn harmonize_naming(objects: Value, name: &str, forced: bool, strict: bool) -> Result<Value, Error> {
    changed(objects, &Nested::default(), &mut |object| {
        let metadata = metadata_of(object)?;
        if !forced && (metadata.contains_key("name") || metadata.contains_key("generateName")) {
            return Ok(());
        }
        if strict {
            metadata.remove("generateName");
            metadata.insert("name".to_owned(), json!(name));
        } else {
            metadata.remove("name");
            metadata.insert("generateName".to_owned(), json!(format!("{name}-")));
        }
        Ok(())
    })
}

/// Returns the objects with a namespace. An existing one is kept, unless forced. Without a namespace it becomes null.
///
/// # Errors
/// If an object cannot be changed.
pub fn adjust_namespace(objects: Value, namespace: Option<&str>, forced: bool) -> Result<Value, Error> {
    changed(objects, &Nested::default(), &mut |object| {
        let metadata = metadata_of(object)?;
        if forced || metadata.get("namespace").is_none_or(Value::is_null) {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        Ok(())
    })
}

/// Returns the owner reference of a child: nulls are omitted, and it has no namespace.
pub fn build_owner_reference(owner: &Value, flags: &Reference) -> Value {
    let mut reference = Map::new();
    for (key, flag) in [("controller", flags.controller), ("blockOwnerDeletion", flags.block_owner_deletion)] {
        if let Some(flag) = flag {
            reference.insert(key.to_owned(), json!(flag));
        }
    }
    copy_fields(&mut reference, owner, &["apiVersion", "kind"], &["name", "uid"], |value| !value.is_null());
    Value::Object(reference)
}

/// Returns the object reference of an Event: empty fields are omitted.
pub fn build_object_reference(object: &Value) -> Value {
    let mut reference = Map::new();
    let is_there = |value: &Value| !value.is_null() && value.as_str() != Some("");
    copy_fields(&mut reference, object, &["apiVersion", "kind"], &["name", "uid", "namespace"], is_there);
    Value::Object(reference)
}

/// Returns the labels of an object; an empty mapping if it has none.
///
/// # Errors
/// If they are not a mapping.
pub fn labels_of(object: &Value) -> Result<Map<String, Value>, Error> {
    match object["metadata"].get("labels") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(labels)) => Ok(labels.clone()),
        Some(other) => Err(Error::Labels(type_name(other))),
    }
}

fn copy_fields(
    target: &mut Map<String, Value>,
    object: &Value,
    top: &[&str],
    meta: &[&str],
    is_kept: impl Fn(&Value) -> bool,
) {
    let top = top.iter().map(|key| (*key, object.get(*key)));
    let meta = meta.iter().map(|key| (*key, object["metadata"].get(*key)));
    for (key, value) in top.chain(meta) {
        if let Some(value) = value.filter(|value| is_kept(value)) {
            target.insert(key.to_owned(), value.clone());
        }
    }
}

fn uid_of(owner: &Value) -> Result<&Value, Error> {
    owner["metadata"].get("uid").filter(|uid| !uid.is_null()).ok_or(Error::NoUid)
}

type Change<'a> = &'a mut dyn FnMut(&mut Map<String, Value>) -> Result<(), Error>;

/// Applies a change to each object, and to the nested structures that exist in it.
fn changed(mut objects: Value, nested: &Nested, change: Change<'_>) -> Result<Value, Error> {
    visit(&mut objects, nested, change)?;
    Ok(objects)
}

fn visit(objects: &mut Value, nested: &Nested, change: Change<'_>) -> Result<(), Error> {
    match objects {
        Value::Null => Ok(()),
        Value::Array(items) => items.iter_mut().try_for_each(|item| visit(item, nested, change)),
        Value::Object(object) if object.is_empty() => Ok(()),
        Value::Object(object) => {
            change(object)?;
            nested.0.iter().try_for_each(|keys| visit_nested(object, keys, change))
        }
        scalar => Err(Error::Scalar(type_name(scalar))),
    }
}

fn visit_nested(object: &mut Map<String, Value>, keys: &[String], change: Change<'_>) -> Result<(), Error> {
    let mut target = object;
    for key in keys {
        target = match target.get_mut(key) {
            None => return Ok(()),
            Some(Value::Object(map)) => map,
            Some(_) => return Err(Error::Path(NotAMapping { key: key.clone(), path: keys.join(".") })),
        };
    }
    change(target)
}

fn metadata_of(object: &mut Map<String, Value>) -> Result<&mut Map<String, Value>, Error> {
    child_map(object, "metadata", "metadata")
}

fn child_map<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
    field: &str,
) -> Result<&'a mut Map<String, Value>, Error> {
    match parent.entry(key).or_insert_with(|| Value::Object(Map::new())) {
        Value::Object(map) => Ok(map),
        other => Err(Error::Malformed { field: field.to_owned(), expected: "a mapping", found: type_name(other) }),
    }
}

fn references_of(object: &mut Map<String, Value>) -> Result<&mut Vec<Value>, Error> {
    match metadata_of(object)?.entry("ownerReferences").or_insert_with(|| json!([])) {
        Value::Array(references) => Ok(references),
        other => Err(Error::Malformed {
            field: "metadata.ownerReferences".to_owned(),
            expected: "a list",
            found: type_name(other),
        }),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Value {
        json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "namespace": "here", "uid": "u"}})
    }

    #[test]
    fn nothing_and_empty_objects_stay_as_they_are() {
        for objects in [json!(null), json!([]), json!([[], null]), json!({})] {
            assert_eq!(adopt(objects.clone(), &owner(), &Adoption::default()), Ok(objects));
        }
    }

    #[test]
    fn objects_at_any_depth_of_arrays_are_adopted() {
        let adopted = adopt(json!([[{"kind": "A"}], {"kind": "B"}]), &owner(), &Adoption::default()).unwrap();
        assert_eq!(adopted[0][0]["metadata"]["namespace"], "here");
        assert_eq!(adopted[1]["metadata"]["generateName"], "x-");
    }

    #[test]
    fn values_that_are_not_objects_are_errors() {
        let refused = |objects| {
            label(objects, &Map::new(), false, &Nested(vec![dotted("spec.template")])).unwrap_err().to_string()
        };
        assert_eq!(refused(json!("text")), "an object must be a mapping, not a text");
        assert_eq!(refused(json!({"metadata": 1})), "metadata of an object must be a mapping, not a number");
        assert_eq!(
            refused(json!({"spec": {"template": 1}})),
            "\"template\" on the way to the field \"spec.template\" is not a mapping"
        );
    }

    #[test]
    fn an_owner_needs_a_name_and_next_to_other_owners_a_uid() {
        let (child, nameless) = (json!({"kind": "A"}), json!({"metadata": {"uid": "x"}}));
        assert_eq!(adopt(child.clone(), &nameless, &Adoption::default()), Err(Error::NoName));
        let owner = json!({"kind": "X", "metadata": {"name": "x"}});
        let adopted = adopt(child, &owner, &Adoption::default()).unwrap();
        let reference = json!([{"controller": true, "blockOwnerDeletion": true, "kind": "X", "name": "x"}]);
        assert_eq!(adopted["metadata"]["ownerReferences"], reference);
        assert_eq!(append_owner_reference(adopted.clone(), &owner, &Reference::default()), Err(Error::NoUid));
        assert_eq!(remove_owner_reference(adopted, &owner), Err(Error::NoUid));
        let emptied = remove_owner_reference(json!({"kind": "A"}), &owner).unwrap();
        assert_eq!(emptied["metadata"]["ownerReferences"], json!([]));
    }

    #[test]
    fn nested_paths_are_dotted_or_lists_of_keys() {
        let nested = Nested::parse(&json!(["spec.a", ["spec", "b.c"]])).unwrap();
        let objects = json!({"spec": {"a": {"x": 1}, "b.c": {"x": 1}}});
        let labelled = label(objects, json!({"k": "v"}).as_object().unwrap(), false, &nested).unwrap();
        assert_eq!(labelled["spec"]["b.c"]["metadata"]["labels"]["k"], "v");
        assert!(Nested::parse(&json!(1)).is_err());
    }
}

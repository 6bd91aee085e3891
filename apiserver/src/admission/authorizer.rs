//! The variable `authorizer` of conditions: who may do what, by the rules of the server.
//!
//! An authorizer, and a check that it is asked for, are maps to the expressions, whose members say what is asked for so far.

use std::collections::HashMap;
use std::sync::Arc;

use cel::extractors::This;
use cel::objects::{Key, Map};
use cel::{Context, ExecutionError, Value};

use super::Attributes;
use crate::access::{self, User};

type Text = Arc<String>;

/// The members in which the user stands.
const USER: &str = "@user";
const GROUPS: &str = "@groups";

/// Adds the variable and its functions to a context.
pub fn add_to(context: &mut Context<'_, '_>, attributes: &Attributes<'_>) {
    context.add_variable_from_value("authorizer", authorizer(attributes));
    let mut added = Vec::new();
    for step in ["group", "resource", "subresource", "namespace", "name", "path"] {
        added.push(
            context.add_function(step, move |This(this): This<Value>, text: Text| with(&members(&this), &[(step, Value::String(text))])),
        );
    }
    // Selectors narrow a check down; the rules of the server do not tell them apart.
    for step in ["fieldSelector", "labelSelector"] {
        added.push(context.add_function(step, |This(this): This<Value>, _selector: Text| this));
    }
    added.push(context.add_function("serviceAccount", |This(this): This<Value>, namespace: Text, name: Text| {
        let user = User::service_account(&namespace, &name);
        with(&members(&this), &[(USER, Value::from(user.name)), (GROUPS, texts(&user.groups))])
    }));
    let judge = attributes.judge.clone();
    added.push(context.add_function("check", move |This(this): This<Value>, verb: Text| {
        let allowed = judge.0(&user(&members(&this)), &wanted(&members(&this), &verb));
        with(&members(&Value::Null), &[("allowed", Value::Bool(allowed))])
    }));
    added.push(context.add_function("allowed", |This(this): This<Value>| -> Result<Value, ExecutionError> {
        members(&this).get(&Key::from("allowed")).cloned().ok_or_else(|| ExecutionError::no_such_key("allowed"))
    }));
    added.push(context.add_function("errored", |This(_): This<Value>| false));
    added.push(context.add_function("error", |This(_): This<Value>| Value::from("")));
    added.push(context.add_function("reason", |This(_): This<Value>| Value::from("")));
    debug_assert!(added.iter().all(Result::is_ok), "no function has the name of one of the language");
}

/// The authorizer for the user of a request, which can be asked for the request itself, too.
fn authorizer(attributes: &Attributes<'_>) -> Value {
    let groups: Vec<String> =
        attributes.user["groups"].as_array().into_iter().flatten().filter_map(|group| group.as_str().map(str::to_owned)).collect();
    let user = attributes.user["username"].as_str().unwrap_or_default();
    let whole = with(&members(&Value::Null), &[(USER, Value::from(user)), (GROUPS, texts(&groups))]);
    let map = &members(&whole);
    let kind = attributes.kind;
    let request = [
        ("group", kind.group.as_str()),
        ("resource", kind.plural.as_str()),
        ("subresource", attributes.subresource),
        ("namespace", attributes.namespace),
        ("name", attributes.name),
    ];
    let request = with(map, &request.map(|(name, text)| (name, Value::from(text))));
    with(map, &[("requestResource", request)])
}

fn texts(texts: &[String]) -> Value {
    Value::List(Arc::new(texts.iter().map(|text| Value::from(text.as_str())).collect()))
}

/// What is no map has no members.
fn members(value: &Value) -> Map {
    if let Value::Map(map) = value { map.clone() } else { Map { map: Arc::new(HashMap::new()) } }
}

fn with(map: &Map, members: &[(&str, Value)]) -> Value {
    let mut map = (*map.map).clone();
    map.extend(members.iter().map(|(name, value)| (Key::from(*name), value.clone())));
    Value::Map(Map { map: Arc::new(map) })
}

fn text(map: &Map, name: &str) -> String {
    match map.get(&Key::from(name)) {
        Some(Value::String(text)) => text.to_string(),
        _ => String::new(),
    }
}

fn user(map: &Map) -> User {
    let groups = match map.get(&Key::from(GROUPS)) {
        Some(Value::List(groups)) => {
            groups.iter().map(|group| if let Value::String(text) = group { text.to_string() } else { String::new() }).collect()
        }
        _ => Vec::new(),
    };
    User { name: text(map, USER), groups, ..User::default() }
}

fn wanted(map: &Map, verb: &str) -> access::Attributes {
    let path = Some(text(map, "path")).filter(|path| !path.is_empty());
    let (resource, subresource) = (text(map, "resource"), text(map, "subresource"));
    access::Attributes {
        verb: verb.to_owned(),
        group: text(map, "group"),
        resource: if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") },
        namespace: text(map, "namespace"),
        name: text(map, "name"),
        path,
    }
}

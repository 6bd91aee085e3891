//! `clean(meta)`: metadata without the fields of the server and of operators, so that they can be given to another
//! object.

use rhai::{Dynamic, Engine};
use serde_json::{Map, Value};

use crate::script::functions::options::{json, placed};
use crate::script::functions::support::{Given, Native, wrong};
use crate::script::language::convert;

/// The fields that the author of an object writes.
const KEPT: [&str; 5] = ["name", "generateName", "namespace", "labels", "annotations"];

/// The annotation of `kubectl apply`.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Registers the function.
pub(super) fn register(engine: &mut Engine) {
    engine.register_fn("clean", |native: Native<'_>, given: Dynamic| placed(&native, clean(&given)));
}

/// `clean(meta)`: a copy of metadata with the name, the namespace, the labels, and the annotations, without those of
/// kubectl and of operators. Given a whole object, a copy of it with such metadata, and without its status.
fn clean(given: &Dynamic) -> Given {
    let Value::Object(mut given) = json("clean", given)? else {
        return Err(wrong("clean", "it needs the metadata of an object, or the object"));
    };
    let is_object = given.contains_key("apiVersion") || given.contains_key("kind");
    if !is_object {
        return Ok(convert::to_dynamic(&Value::Object(cleaned(given))));
    }
    given.remove("status");
    if let Some(Value::Object(meta)) = given.remove("metadata") {
        given.insert("metadata".to_owned(), cleaned(meta).into());
    }
    Ok(convert::to_dynamic(&given.into()))
}

fn cleaned(mut meta: Map<String, Value>) -> Map<String, Value> {
    meta.retain(|key, _| KEPT.contains(&key.as_str()));
    if let Some(Value::Object(annotations)) = meta.get_mut("annotations") {
        let all = annotations.clone();
        annotations.retain(|key, _| key != LAST_APPLIED && !is_of_operator(key, &all));
        if annotations.is_empty() {
            meta.remove("annotations");
        }
    }
    meta
}

/// An operator marks its prefix by an annotation, unless it is kopf's.
fn is_of_operator(key: &str, annotations: &Map<String, Value>) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    let is_known = |domain: &str| prefix == domain || prefix.ends_with(&format!(".{domain}"));
    is_known("kopf.zalando.org")
        || prefix.starts_with("kopf.")
        || annotations.contains_key(&format!("{prefix}/kopf-managed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metadata_keep_what_an_author_writes() {
        let meta = json!({
            "name": "a", "uid": "u", "resourceVersion": "1", "finalizers": ["x"], "labels": {"app": "a"},
            "annotations": {
                "kopf.zalando.org/last-handled-configuration": "{}", "own.example.com/kopf-managed": "yes", "own.example.com/create": "{}",
                "kubectl.kubernetes.io/last-applied-configuration": "{}", "example.com/team": "db", "note": "x",
            },
        });
        let expected =
            json!({"name": "a", "labels": {"app": "a"}, "annotations": {"example.com/team": "db", "note": "x"}});
        assert_eq!(Value::Object(cleaned(meta.as_object().unwrap().clone())), expected);
    }
}

//! The `spec.conversion` of a custom resource definition that makes the API server call the operator.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::handling::handler::Handler;
use crate::object::Resource;

/// The versions of reviews that are answered.
const REVIEW_VERSIONS: [&str; 1] = ["v1"];

/// The definitions of an operator's conversions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Definitions {
    /// The id of the function by the name of the definition.
    pub by_name: BTreeMap<String, String>,
    /// Ids of functions whose definition belongs to another function already, with the name of the definition.
    pub taken: Vec<(String, String)>,
}

impl Definitions {
    /// Returns the definitions of the kinds of conversions. The first one of two functions for a definition counts.
    pub(crate) fn of<'a>(conversions: &[Handler], kinds: impl IntoIterator<Item = &'a Resource> + Clone) -> Self {
        let mut found = Self::default();
        for handler in conversions {
            for kind in kinds.clone().into_iter().filter(|kind| handler.concerns(kind)) {
                let name = name_of(kind);
                match found.by_name.get(&name) {
                    Some(id) if *id != handler.id => found.taken.push((handler.id.clone(), name)),
                    _ => drop(found.by_name.insert(name, handler.id.clone())),
                }
            }
        }
        found
    }
}

/// Returns the name of the definition of a kind.
pub(crate) fn name_of(kind: &Resource) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

/// Returns the patch that has the API server convert by the operator. Other parts of the definition stay.
pub(crate) fn patch(client_config: &Value) -> Value {
    // Fields that the configuration does not have must not stay from another one.
    let mut config = Map::from_iter(["url", "service", "caBundle"].map(|key| (key.to_owned(), Value::Null)));
    config.extend(client_config.as_object().cloned().unwrap_or_default());
    if let Some(service) = config.get_mut("service").and_then(Value::as_object_mut) {
        service.entry("port").or_insert(Value::Null);
    }
    let webhook = json!({"clientConfig": config, "conversionReviewVersions": REVIEW_VERSIONS});
    json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}})
}

/// Returns the stored part of a definition.
pub(crate) fn stored(definition: &Value) -> Value {
    definition.pointer("/spec/conversion").cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::On;
    use crate::object::Selector;

    fn handler(id: &str, kind: &str) -> Handler {
        Handler { selectors: vec![Selector::parse(kind).unwrap()], ..Handler::simple(id, On::Conversion) }
    }

    fn kind(plural: &str, version: &str) -> Resource {
        let (group, plural, version) = ("a.io".to_owned(), plural.to_owned(), version.to_owned());
        Resource { group, plural, version, preferred: true, ..Resource::default() }
    }

    #[test]
    fn each_definition_has_one_function() {
        let kinds = [kind("things", "v1"), kind("others", "v1")];
        let found = Definitions::of(&[handler("a", "things.a.io"), handler("b", "others.a.io")], &kinds);
        let expected = [("others.a.io", "b"), ("things.a.io", "a")].map(|(name, id)| (name.to_owned(), id.to_owned()));
        assert_eq!(found, Definitions { by_name: expected.into(), taken: Vec::new() });
        let twice = Definitions::of(&[handler("a", "things.a.io"), handler("b", "things")], &kinds);
        assert_eq!(twice.by_name, BTreeMap::from([("things.a.io".to_owned(), "a".to_owned())]));
        assert_eq!(twice.taken, [("b".to_owned(), "things.a.io".to_owned())]);
        assert_eq!(Definitions::of(&[handler("a", "unknown.a.io")], &kinds), Definitions::default());
    }

    #[test]
    fn the_patch_leaves_nothing_of_another_address() {
        let config = |patch: &Value| patch.pointer("/spec/conversion/webhook/clientConfig").unwrap().clone();
        let by_url = patch(&json!({"url": "https://a/convert"}));
        assert_eq!(by_url["spec"]["conversion"]["strategy"], "Webhook");
        assert_eq!(config(&by_url), json!({"url": "https://a/convert", "service": null, "caBundle": null}));
        let by_service = patch(&json!({"service": {"namespace": "n", "name": "s", "path": "/c"}, "caBundle": "Q0E="}));
        let service = json!({"namespace": "n", "name": "s", "path": "/c", "port": null});
        assert_eq!(config(&by_service), json!({"url": null, "service": service, "caBundle": "Q0E="}));
    }
}

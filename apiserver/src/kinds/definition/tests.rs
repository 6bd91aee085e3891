use super::*;
use crate::http::api_error::FieldError;

fn written() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.ex.dev"},
        "spec": {"group": "ex.dev", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}}}}}]}})
}

fn refused(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let failure = accept(definition, old).unwrap_err();
    failure.details.causes.iter().map(FieldError::shown).collect()
}

#[test]
fn a_new_definition_gets_names_and_a_first_status() {
    let accepted = accept(&written(), None).unwrap().definition;
    assert_eq!(accepted["spec"]["names"]["singular"], "widget");
    assert_eq!(accepted["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(accepted["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(
        accepted["status"],
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]})
    );
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let mut bad = written();
    bad["metadata"]["name"] = json!("wrong.name");
    bad["spec"]["scope"] = json!("Weird");
    assert_eq!(refused(&bad, None), ["Invalid@metadata.name", "NotSupported@spec.scope"]);
}

#[test]
fn fields_of_a_single_version_are_reported_at_the_top_level() {
    let mut bad = written();
    bad["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"properties": {"spec": {"type": "object"}}});
    assert_eq!(refused(&bad, None), ["Required@spec.validation.openAPIV3Schema.type"]);
    let mut other = bad["spec"]["versions"][0].clone();
    other["name"] = json!("v2");
    other["storage"] = json!(false);
    other["schema"] = json!({});
    bad["spec"]["versions"].as_array_mut().unwrap().push(other);
    assert_eq!(
        refused(&bad, None),
        ["Required@spec.versions[0].schema.openAPIV3Schema.type", "Required@spec.versions[1].schema.openAPIV3Schema"]
    );
}

#[test]
fn exactly_one_version_is_stored_and_groups_of_kubernetes_need_an_approval() {
    let mut bad = written();
    bad["spec"]["versions"][0]["storage"] = json!(false);
    assert_eq!(refused(&bad, None), ["Invalid@spec.versions"]);
    let mut bad = written();
    bad["metadata"]["name"] = json!("widgets.x.k8s.io");
    bad["spec"]["group"] = json!("x.k8s.io");
    assert_eq!(refused(&bad, None), ["Required@metadata.annotations[api-approved.kubernetes.io]"]);
}

#[test]
fn selectable_fields_are_scalars_of_the_schema() {
    let mut definition = written();
    definition["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    assert!(accept(&definition, None).is_ok());
    definition["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.nope"}, {"jsonPath": ".metadata.name"}]);
    assert_eq!(
        refused(&definition, None),
        ["Invalid@spec.selectableFields[0].jsonPath", "Invalid@spec.selectableFields[1].jsonPath"]
    );
}

#[test]
fn the_identity_of_a_definition_is_immutable() {
    let old = conditions(&accept(&written(), None).unwrap().definition, [], "2026-01-01T00:00:00Z");
    assert!(is_established(&old));
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    assert_eq!(refused(&new, Some(&old)), ["Invalid@spec.scope"]);
    let mut new = old.clone();
    new["spec"]["versions"][0]["name"] = json!("v2");
    assert_eq!(refused(&new, Some(&old)), ["Invalid@status.storedVersions[0]"]);
}

#[test]
fn a_name_belongs_to_the_first() {
    let now = "2026-01-01T00:00:00Z";
    let first = conditions(&accept(&written(), None).unwrap().definition, [], now);
    assert_eq!(first["status"]["acceptedNames"]["listKind"], "WidgetList");
    let mut other = written();
    other["metadata"]["name"] = json!("gadgets.ex.dev");
    other["spec"]["names"] = json!({"kind": "Gadget", "listKind": "WidgetList", "plural": "gadgets"});
    let second = conditions(&accept(&other, None).unwrap().definition, [&first], now);
    assert!(!is_established(&second));
    assert_eq!(second["status"]["conditions"][0]["reason"], "ListKindConflict");
    assert_eq!(second["status"]["conditions"][0]["message"], "\"WidgetList\" is already in use");
    assert_eq!(second["status"]["conditions"][1]["reason"], "NotAccepted");
    let alone = conditions(&second, [], "2026-01-01T00:00:09Z");
    assert!(is_established(&alone));
    assert_eq!(alone["status"]["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:09Z");
}

#[test]
fn served_versions_are_offered_and_the_stable_one_is_preferred() {
    let mut definition = written();
    let mut beta = definition["spec"]["versions"][0].clone();
    beta["name"] = json!("v1beta1");
    beta["storage"] = json!(false);
    beta["deprecated"] = json!(true);
    let mut hidden = beta.clone();
    hidden["name"] = json!("v0");
    hidden["served"] = json!(false);
    definition["spec"]["versions"] = json!([hidden, beta, definition["spec"]["versions"][0]]);
    let accepted = accept(&definition, None).unwrap().definition;
    let kinds = kinds(&accepted);
    let offered: Vec<String> = kinds.iter().map(Kind::api_version).collect();
    assert_eq!(offered, ["ex.dev/v1", "ex.dev/v1beta1"]);
    assert!(kinds.iter().all(|kind| kind.storage_version == "v1" && kind.has_status && kind.namespaced));
    assert_eq!(deprecation(&accepted, "v1beta1").unwrap(), "ex.dev/v1beta1 Widget is deprecated; use ex.dev/v1 Widget");
    assert_eq!(deprecation(&accepted, "v1"), None);
}

#[test]
fn versions_sort_as_kubernetes_prefers_them() {
    let mut versions = ["v1alpha1", "foo", "v1beta2", "v2", "v1", "v11", "v1beta10", "v2beta1"];
    versions.sort_by_key(|version| rank(version));
    assert_eq!(versions, ["v11", "v2", "v1", "v2beta1", "v1beta10", "v1beta2", "v1alpha1", "foo"]);
}

#[test]
fn definitions_of_wrong_types_are_refused() {
    for (pointer, value) in [
        ("/spec", json!(1)),
        ("/spec/names", json!([])),
        ("/spec/versions", json!({})),
        ("/spec/versions/0", json!("x")),
        ("/spec/versions/0/schema", json!([])),
        ("/spec/versions/0/schema/openAPIV3Schema/properties", json!({"a": 1})),
        ("/spec/conversion", json!({"strategy": 1, "webhook": 1})),
        ("/metadata", json!("x")),
    ] {
        let mut bad = written();
        bad["spec"]["conversion"] = json!({});
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(accept(&bad, None).is_err(), "{pointer}");
    }
    assert!(accept(&json!([]), None).is_err());
}

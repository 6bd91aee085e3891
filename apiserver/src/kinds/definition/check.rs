//! Validates definitions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::parts::{below, is_established, text, texts, versions};
use crate::http::api_error::FieldError;
use crate::kinds::builtin::{Field, webhooks};
use crate::schema::Schema;
use crate::schema::field_error;
use crate::schema::metadata::{self, NameRule};

/// The required annotation of definitions in Kubernetes' own groups.
const APPROVAL: &str = "api-approved.kubernetes.io";
/// The condition's reason of kinds with this annotation.
pub(super) const APPROVED: &str = "ApprovedAnnotation";

/// The result of a validation.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// All errors.
    pub(super) causes: Vec<FieldError>,
    /// Messages about rules of its schemas that are not enforced.
    pub(super) unenforced: Vec<String>,
}

/// Checks a definition with its defaults.
pub(super) fn check(definition: &Value, old: Option<&Value>) -> Report {
    let mut report = Report::default();
    let causes = &mut report.causes;
    // The names that form the name of the definition are immutable.
    if old.is_none() {
        check_name(definition, causes);
    }
    check_spec(definition, causes);
    check_names(&definition["spec"]["names"], causes);
    check_versions(definition, &mut report);
    let causes = &mut report.causes;
    check_conversion(&definition["spec"], causes);
    if let Some(old) = old {
        check_change(definition, old, causes);
    }
    check_approval(definition, old, causes);
    report
}

fn check_name(definition: &Value, causes: &mut Vec<FieldError>) {
    let spec = &definition["spec"];
    let name = text(&definition["metadata"]["name"]);
    let wanted = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    if name != wanted {
        causes.push(field_error::invalid("metadata.name", &json!(name), "must be spec.names.plural+\".\"+spec.group"));
    }
}

fn check_spec(definition: &Value, causes: &mut Vec<FieldError>) {
    let spec = &definition["spec"];
    let group = text(&spec["group"]);
    if group.is_empty() {
        causes.push(field_error::required("spec.group", ""));
    } else if let Some(why) = metadata::name_mistake(NameRule::Subdomain, group, false) {
        causes.push(field_error::invalid("spec.group", &json!(group), why));
    } else if !group.contains('.') {
        causes.push(field_error::invalid("spec.group", &json!(group), "should be a domain with at least one dot"));
    }
    match text(&spec["scope"]) {
        "Cluster" | "Namespaced" => {}
        "" => causes.push(field_error::required("spec.scope", "")),
        other => causes.push(field_error::not_supported("spec.scope", &json!(other), ["Cluster", "Namespaced"])),
    }
}

fn check_names(names: &Value, causes: &mut Vec<FieldError>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        let name = text(&names[field]);
        let is_kind = matches!(field, "kind" | "listKind");
        let at = format!("spec.names.{field}");
        if name.is_empty() {
            causes.push(field_error::required(at, ""));
        } else if let Some(why) = label_mistake(&if is_kind { name.to_lowercase() } else { name.to_owned() }) {
            causes.push(field_error::invalid(at, &json!(name), why));
        }
    }
    let (kind, list_kind) = (text(&names["kind"]), text(&names["listKind"]));
    if !kind.is_empty() && kind == list_kind {
        causes.push(field_error::invalid(
            "spec.names.listKind",
            &json!(list_kind),
            "kind and listKind may not be the same",
        ));
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in texts(&names[field]).iter().enumerate() {
            if let Some(why) = label_mistake(name) {
                causes.push(field_error::invalid(format!("spec.names.{field}[{index}]"), &json!(name), why));
            }
        }
    }
}

fn label_mistake(name: &str) -> Option<String> {
    metadata::name_mistake(NameRule::OldLabel, name, false)
}

fn check_versions(definition: &Value, report: &mut Report) {
    let causes = &mut report.causes;
    let all: Vec<&Value> = versions(definition).collect();
    if all.is_empty() {
        causes.push(field_error::invalid(
            "spec.versions",
            &Value::Null,
            "must have exactly one version marked as storage version",
        ));
        if texts(&definition["status"]["storedVersions"]).is_empty() {
            causes.push(field_error::invalid(
                "status.storedVersions",
                &json!([]),
                "must have at least one stored version",
            ));
        }
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in all.iter().enumerate() {
        let (at, name) = (format!("spec.versions[{index}]"), text(&version["name"]));
        if let Some(why) = label_mistake(name) {
            causes.push(field_error::invalid(format!("{at}.name"), &json!(name), why));
        }
        if !seen.insert(name) {
            causes.push(field_error::invalid("spec.versions", &json!(name), "must contain unique version names"));
        }
        if version["deprecated"] != true && version["deprecationWarning"].is_string() {
            causes.push(field_error::invalid(
                format!("{at}.deprecationWarning"),
                &version["deprecationWarning"],
                "can only be set for deprecated versions",
            ));
        }
        report.unenforced.extend(check_version(version, &at, all.len() == 1, causes));
    }
    if all.iter().filter(|version| version["storage"] == true).count() != 1 {
        causes.push(field_error::invalid(
            "spec.versions",
            &Value::Null,
            "must have exactly one version marked as storage version",
        ));
    }
    check_same_fields(&all, causes);
}

/// The server moves the parts of a single version to the top of the specification before it validates it, which is
/// visible in the fields of the causes.
///
/// Returns messages about rules that are not enforced.
fn check_version(version: &Value, at: &str, is_single: bool, causes: &mut Vec<FieldError>) -> Vec<String> {
    let schema = &version["schema"]["openAPIV3Schema"];
    if !schema.is_object() {
        causes.push(field_error::required(format!("{at}.schema.openAPIV3Schema"), "schemas are required"));
        return Vec::new();
    }
    let base = if is_single { "spec" } else { at };
    let prefix = if is_single { "spec.validation.".to_owned() } else { format!("{at}.schema.") };
    let parsed = Schema::parse(schema);
    if let Err(mistakes) = &parsed {
        causes.extend(below(&prefix, mistakes.clone()));
    }
    check_subresources(&version["subresources"], base, causes);
    check_columns(&version["additionalPrinterColumns"], base, causes);
    let Ok(schema) = &parsed else { return Vec::new() };
    check_selectable(&version["selectableFields"], schema, base, causes);
    schema.unenforced().iter().map(|text| format!("{prefix}{text}")).collect()
}

fn check_subresources(subresources: &Value, base: &str, causes: &mut Vec<FieldError>) {
    let Some(scale) = subresources.get("scale").filter(|scale| scale.is_object()) else { return };
    for (field, start, is_required) in [
        ("specReplicasPath", &[".spec."][..], true),
        ("statusReplicasPath", &[".status."], true),
        ("labelSelectorPath", &[".status.", ".spec."], false),
    ] {
        let path = text(&scale[field]);
        let at = format!("{base}.subresources.scale.{field}");
        if path.is_empty() {
            if is_required {
                causes.push(field_error::required(at, ""));
            }
        } else if !path.starts_with('.') {
            causes.push(field_error::invalid(at, &json!(path), "must be a simple json path starting with ."));
        } else if !start.iter().any(|start| path.starts_with(start)) {
            let text = format!("should be a json path under {}", start.join(" or ").trim_end_matches('.'));
            causes.push(field_error::invalid(at, &json!(path), text));
        }
    }
}

fn check_columns(columns: &Value, base: &str, causes: &mut Vec<FieldError>) {
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let at = format!("{base}.additionalPrinterColumns[{index}]");
        for field in ["name", "type"] {
            if text(&column[field]).is_empty() {
                causes.push(field_error::required(format!("{at}.{field}"), ""));
            }
        }
        let kinds = ["boolean", "date", "integer", "number", "string"];
        let kind = text(&column["type"]);
        if !kind.is_empty() && !kinds.contains(&kind) {
            let text = format!("must be one of {}", kinds.join(","));
            causes.push(field_error::invalid(format!("{at}.type"), &json!(kind), text));
        }
        let formats = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
        let format = text(&column["format"]);
        if !format.is_empty() && !formats.contains(&format) {
            let text = format!("must be one of {}", formats.join(","));
            causes.push(field_error::invalid(format!("{at}.format"), &json!(format), text));
        }
        let path = text(&column["jsonPath"]);
        if path.is_empty() {
            causes.push(field_error::required(format!("{at}.JSONPath"), ""));
        } else if !path.starts_with('.') {
            causes.push(field_error::invalid(
                format!("{at}.JSONPath"),
                &json!(path),
                "must be a simple json path starting with .",
            ));
        }
    }
}

fn check_selectable(fields: &Value, schema: &Schema, base: &str, causes: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (index, field) in fields.as_array().into_iter().flatten().enumerate() {
        let path = text(&field["jsonPath"]);
        let at = format!("{base}.selectableFields[{index}].jsonPath");
        if path.is_empty() {
            causes.push(field_error::required(at, ""));
        } else if !path.starts_with('.') || path.contains(['[', '*']) {
            causes.push(field_error::invalid(
                at,
                &json!(path),
                "is an invalid path: must be a simple path with a leading dot",
            ));
        } else if path.starts_with(".metadata") {
            causes.push(field_error::invalid(at, &json!(path), "must not point to fields in metadata"));
        } else if !seen.insert(path) {
            causes.push(field_error::duplicate(at, &json!(path)));
        } else if !schema.is_selectable(path) {
            let text = "is an invalid path: must point to a string, boolean or integer of the schema";
            causes.push(field_error::invalid(at, &json!(path), text));
        }
    }
}

/// If all versions have the same value, it must be at the top, which the stable API has no field for.
fn check_same_fields(all: &[&Value], causes: &mut Vec<FieldError>) {
    let [first, rest @ ..] = all else { return };
    let is_same = |field: &str| rest.iter().all(|version| version[field] == first[field]);
    if !rest.is_empty() && first["selectableFields"].is_array() && is_same("selectableFields") && is_same("schema") {
        let text = "per-version selectableFields may not all be set to identical values (top-level selectableFields should be used instead)";
        causes.push(field_error::invalid("spec.versions", &Value::Null, text));
    }
}

fn check_conversion(spec: &Value, causes: &mut Vec<FieldError>) {
    let conversion = &spec["conversion"];
    let webhook = &conversion["webhook"];
    match text(&conversion["strategy"]) {
        "Webhook" => check_webhook(webhook, causes),
        "None" => {}
        "" => causes.push(field_error::required("spec.conversion.strategy", "")),
        other => {
            causes.push(field_error::not_supported("spec.conversion.strategy", &json!(other), ["None", "Webhook"]));
        }
    }
    if conversion["strategy"] != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if webhook["clientConfig"].is_object() {
            causes.push(field_error::forbidden("spec.conversion.webhookClientConfig", why));
        }
        if !texts(&webhook["conversionReviewVersions"]).is_empty() {
            causes.push(field_error::forbidden("spec.conversion.conversionReviewVersions", why));
        }
    }
    if spec["preserveUnknownFields"] == true {
        causes.push(field_error::invalid(
            "spec.preserveUnknownFields",
            &json!(true),
            "must be false in order to use defaults in the schema",
        ));
    }
}

fn check_webhook(webhook: &Value, causes: &mut Vec<FieldError>) {
    // The field names are those of the `v1beta1` API.
    let client = Field::named(&webhook["clientConfig"], "spec.conversion.webhookClientConfig");
    match (client.at("url").is_set(), client.at("service").is_set()) {
        (true, false) => webhooks::url(&client.at("url"), causes),
        (false, true) => webhooks::service(&client.at("service"), causes),
        _ => causes.push(client.required("exactly one of url or service is required")),
    }
    let versions = Field::named(&webhook["conversionReviewVersions"], "spec.conversion.conversionReviewVersions");
    webhooks::review_versions(&versions, causes);
}

fn check_change(definition: &Value, old: &Value, causes: &mut Vec<FieldError>) {
    let is_established = is_established(old);
    let immutable: &[&str] = if is_established {
        &["/spec/group", "/spec/scope", "/spec/names/kind", "/spec/names/plural"]
    } else {
        &["/spec/group", "/spec/names/plural"]
    };
    for pointer in immutable {
        let (now, before) = (definition.pointer(pointer), old.pointer(pointer));
        if now != before {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            causes.push(field_error::invalid(field, now.unwrap_or(&Value::Null), "field is immutable"));
        }
    }
    let names: Vec<&str> = versions(definition).map(|version| text(&version["name"])).collect();
    for (index, stored) in texts(&definition["status"]["storedVersions"]).iter().enumerate() {
        if !names.contains(&stored.as_str()) {
            let text = "missing from spec.versions; it was previously a storage version, and must remain in spec.versions until a storage \
                        migration ensures no data remains persisted in it and removes it from status.storedVersions";
            causes.push(field_error::invalid(format!("status.storedVersions[{index}]"), &json!(stored), text));
        }
    }
}

fn check_approval(definition: &Value, old: Option<&Value>, causes: &mut Vec<FieldError>) {
    let Some(approval) = approval(definition) else { return };
    if old.and_then(self::approval).is_some_and(|old| old.state == approval.state) {
        return;
    }
    let field = format!("metadata.annotations[{APPROVAL}]");
    match approval.state {
        "MissingAnnotation" => causes.push(field_error::required(field, &approval.text)),
        "InvalidAnnotation" => {
            causes.push(field_error::invalid(field, &definition["metadata"]["annotations"][APPROVAL], approval.text));
        }
        _ => {}
    }
}

/// The approval of a kind in one of Kubernetes' own groups.
pub(super) struct Approval {
    /// The reason of the condition.
    pub(super) state: &'static str,
    /// The text for people.
    pub(super) text: String,
}

/// Returns the approval of a definition, if its group is one of Kubernetes' own.
pub(super) fn approval(definition: &Value) -> Option<Approval> {
    let group = text(&definition["spec"]["group"]);
    let is_protected =
        ["k8s.io", "kubernetes.io"].iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    let written = text(&definition["metadata"]["annotations"][APPROVAL]);
    let is_url = || written.parse::<http::Uri>().is_ok_and(|url| url.scheme().is_some() && url.host().is_some());
    is_protected.then(|| match written {
        "" => Approval {
            state: "MissingAnnotation",
            text: format!("protected groups must have approval annotation {APPROVAL:?}"),
        },
        _ if written.starts_with("unapproved") => {
            Approval { state: "UnapprovedAnnotation", text: format!("not approved: {written:?}") }
        }
        _ if is_url() => Approval { state: APPROVED, text: format!("approved in {written}") },
        _ => {
            let wanted = "with either a URL or a reason starting with \"unapproved\"";
            Approval {
                state: "InvalidAnnotation",
                text: format!("protected groups must have approval annotation {APPROVAL:?} {wanted}"),
            }
        }
    })
}

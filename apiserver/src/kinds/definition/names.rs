//! The accepted names of a definition, and its conditions.

use serde_json::{Value, json};

use super::check::{APPROVED, approval};
use super::parts::{is_established, members, text, texts};

/// Returns a definition with its conditions and accepted names, given the other definitions.
///
/// If two definitions in a group have the same name, the one that was accepted first keeps it. `now` is a text in the
/// form of Kubernetes.
pub fn conditions<'a>(definition: &Value, others: impl IntoIterator<Item = &'a Value>, now: &str) -> Value {
    let mut judged = definition.clone();
    let group = &definition["spec"]["group"];
    let own = &definition["metadata"]["name"];
    let taken: Vec<&Value> = others
        .into_iter()
        .filter(|other| other["spec"]["group"] == *group && other["metadata"]["name"] != *own)
        .map(|other| &other["status"]["acceptedNames"])
        .collect();
    let (accepted, conflict) =
        accepted_names(&definition["spec"]["names"], &definition["status"]["acceptedNames"], &taken);
    members(&mut judged["status"]).insert("acceptedNames".into(), accepted);
    if let Some((reason, message)) = conflict {
        set_condition(&mut judged, ["NamesAccepted", "False", reason, &message], now);
        if !is_established(definition) {
            set_condition(&mut judged, ["Established", "False", "NotAccepted", "not all names are accepted"], now);
        }
    } else {
        set_condition(&mut judged, ["NamesAccepted", "True", "NoConflicts", "no conflicts found"], now);
        set_condition(
            &mut judged,
            ["Established", "True", "InitialNamesAccepted", "the initial names have been accepted"],
            now,
        );
    }
    if let Some(approval) = approval(definition) {
        let status = if approval.state == APPROVED { "True" } else { "False" };
        set_condition(
            &mut judged,
            ["KubernetesAPIApprovalPolicyConformant", status, approval.state, &approval.text],
            now,
        );
    }
    judged
}

/// Sets a condition with its type, status, reason and message. The time changes only with the status.
pub fn set_condition(definition: &mut Value, [kind, status, reason, message]: [&str; 4], now: &str) {
    let list = members(&mut definition["status"]).entry("conditions").or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    let Value::Array(list) = list else { return };
    let found = list.iter_mut().find(|condition| condition["type"] == kind);
    let since = match &found {
        Some(condition) if condition["status"] == status => condition["lastTransitionTime"].clone(),
        _ => json!(now),
    };
    let condition =
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since});
    match found {
        Some(place) => *place = condition,
        None => list.push(condition),
    }
}

/// A conflict of names: the condition's reason and its message.
type Conflict = (&'static str, String);

fn accepted_names(wanted: &Value, had: &Value, taken: &[&Value]) -> (Value, Option<Conflict>) {
    let mut accepted = if had.is_object() { had.clone() } else { json!({}) };
    let mut conflict = None;
    let resources: Vec<String> = taken.iter().flat_map(|names| resource_names(names)).collect();
    let kinds: Vec<String> =
        taken.iter().flat_map(|names| ["kind", "listKind"].map(|field| text(&names[field]).to_owned())).collect();
    let is_free = |used: &[String], name: &str| name.is_empty() || !used.iter().any(|other| other == name);
    let accepted_members = members(&mut accepted);
    for (field, used, reason) in [
        ("plural", &resources, "PluralConflict"),
        ("singular", &resources, "SingularConflict"),
        ("shortNames", &resources, "ShortNamesConflict"),
        ("kind", &kinds, "KindConflict"),
        ("listKind", &kinds, "ListKindConflict"),
    ] {
        let names =
            if wanted[field].is_array() { texts(&wanted[field]) } else { vec![text(&wanted[field]).to_owned()] };
        if let Some(name) = names.iter().find(|name| !is_free(used, name)) {
            conflict.get_or_insert((reason, format!("\"{name}\" is already in use")));
        } else if let Some(value) = wanted.get(field) {
            accepted_members.insert(field.into(), value.clone());
        } else {
            accepted_members.remove(field);
        }
    }
    match wanted.get("categories") {
        Some(categories) => accepted_members.insert("categories".into(), categories.clone()),
        None => accepted_members.remove("categories"),
    };
    (accepted, conflict)
}

fn resource_names(names: &Value) -> Vec<String> {
    let mut all = texts(&names["shortNames"]);
    all.extend(["plural", "singular"].map(|field| text(&names[field]).to_owned()));
    all
}

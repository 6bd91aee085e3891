//! Fields of new objects that the server assigns after the field ownership is computed: they have no owner.

use serde_json::Value;

use crate::kinds::kind::Kind;

/// The account has two names, of which the second follows the first.
const POD_FIELDS: &[&str] = &[
    "/spec/priority",
    "/spec/preemptionPolicy",
    "/spec/tolerations",
    "/spec/serviceAccount",
    "/spec/serviceAccountName",
];
const SERVICE_FIELDS: &[&str] = &["/spec/clusterIP", "/spec/clusterIPs", "/spec/ipFamilies", "/spec/ipFamilyPolicy"];
const JOB_FIELDS: &[&str] = &[
    "/spec/selector",
    "/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid",
    "/spec/template/metadata/labels/batch.kubernetes.io~1job-name",
    "/spec/template/metadata/labels/controller-uid",
    "/spec/template/metadata/labels/job-name",
    "/spec/template/metadata/labels",
    "/metadata/labels/batch.kubernetes.io~1controller-uid",
    "/metadata/labels/batch.kubernetes.io~1job-name",
    "/metadata/labels/controller-uid",
    "/metadata/labels/job-name",
    "/metadata/labels",
];

fn assigned(kind: &Kind) -> &'static [&'static str] {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => POD_FIELDS,
        ("", "Service") => SERVICE_FIELDS,
        ("batch", "Job") => JOB_FIELDS,
        _ => &[],
    }
}

/// Tells whether the server assigns fields of new objects of a kind.
pub fn assigns_fields(kind: &Kind) -> bool {
    !assigned(kind).is_empty()
}

/// Returns the part of a new object that its writer owns, given the sent object.
pub fn written(kind: &Kind, sent: &Value, new: &Value) -> Value {
    let is_sent = |pointer: &str| {
        let field = if pointer == "/spec/serviceAccount" { "/spec/serviceAccountName" } else { pointer };
        sent.pointer(field).is_some_and(|value| !is_absent(value))
    };
    let mut written = new.clone();
    for pointer in assigned(kind).iter().filter(|pointer| !is_sent(pointer)) {
        let Some((above, name)) = pointer.rsplit_once('/') else { continue };
        let Some(members) = written.pointer_mut(above).and_then(Value::as_object_mut) else { continue };
        let name = name.replace("~1", "/");
        // The labels belong to the server only if all of them do.
        if name != "labels" || members.get(&name).is_some_and(is_absent) {
            members.remove(&name);
        }
    }
    written
}

fn is_absent(value: &Value) -> bool {
    value.is_null() || value == "" || value.as_object().is_some_and(serde_json::Map::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_were_not_sent_belong_to_the_server() {
        let job = Kind { group: "batch".to_owned(), kind: "Job".to_owned(), ..Kind::default() };
        let labels = json!({"controller-uid": "u", "own": "x"});
        let new = json!({"metadata": {"labels": {"job-name": "j"}}, "spec": {"selector": {}, "template": {"metadata": {"labels": labels}}}});
        let sent = json!({"spec": {"template": {"metadata": {"labels": {"own": "x"}}}}});
        let wanted = json!({"metadata": {}, "spec": {"template": {"metadata": {"labels": {"own": "x"}}}}});
        assert_eq!(written(&job, &sent, &new), wanted);
        let service = Kind { kind: "Service".to_owned(), ..Kind::default() };
        let sent = json!({"spec": {"clusterIP": "None"}});
        let new = json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"]}});
        assert_eq!(written(&service, &sent, &new), sent);
        assert!(assigns_fields(&service) && !assigns_fields(&Kind::default()));
    }
}

//! The priority classes and runtime classes of new pods. Pods with a missing class are refused.

use serde_json::{Value, json};

use crate::api::Api;
use crate::http::api_error::ApiError;
use crate::kinds::registry::ServedKind;
use crate::rules;
use crate::storage::resource::Resource;

/// Classes that every cluster has.
const OF_THE_SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// The fields of a priority class in its pods.
pub(crate) struct Priority([(&'static str, Value); 2]);

/// Looks up the classes of a new pod. Returns its priority, if it has a priority class.
///
/// # Errors
/// If a class does not exist, or the pod contradicts its class.
pub(crate) fn find_classes(api: &Api, served: &ServedKind, pod: &Value) -> Result<Option<Priority>, ApiError> {
    let is_pod = served.kind.group.is_empty() && served.kind.kind == "Pod";
    if !is_pod {
        return Ok(None);
    }
    let (name, spec) = (pod["metadata"]["name"].as_str().unwrap_or_default(), &pod["spec"]);
    let refused = |why: String| rules::forbidden(served, name, &why);
    if let Some(class) = spec["runtimeClassName"].as_str()
        && find(api, "node.k8s.io", "runtimeclasses", class).is_none()
    {
        return Err(refused(format!("pod rejected: RuntimeClass {class:?} not found")));
    }
    let class = spec["priorityClassName"].as_str().filter(|class| !class.is_empty());
    let (priority, preemption) = match class {
        Some(class) => {
            priority_of(api, class).ok_or_else(|| refused(format!("no PriorityClass with name {class} was found")))?
        }
        None => (json!(0), json!("PreemptLowerPriority")),
    };
    let wanted = [("priority", priority), ("preemptionPolicy", preemption)];
    for (field, wanted) in &wanted {
        let given = &spec[*field];
        if !given.is_null() && given != wanted {
            return Err(refused(format!(
                "the {field} ({given}) must not be provided in pod spec; the priority class says {wanted}"
            )));
        }
    }
    Ok(class.map(|_| Priority(wanted)))
}

impl Priority {
    /// Writes the priority into a pod.
    pub(crate) fn assign(self, pod: &mut Value) {
        for (field, value) in self.0 {
            pod["spec"][field] = value;
        }
    }
}

fn priority_of(api: &Api, class: &str) -> Option<(Value, Value)> {
    if let Some(found) = find(api, "scheduling.k8s.io", "priorityclasses", class) {
        return Some((found["value"].clone(), found["preemptionPolicy"].clone()));
    }
    let known = OF_THE_SYSTEM.iter().find(|(name, _)| *name == class);
    known.map(|(_, value)| (json!(value), json!("PreemptLowerPriority")))
}

fn find(api: &Api, group: &str, plural: &str, name: &str) -> Option<Value> {
    let resource = Resource { group: group.to_owned(), plural: plural.to_owned() };
    api.read(&resource, &(String::new(), name.to_owned())).map(|stored| (*stored.value).clone())
}

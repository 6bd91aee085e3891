//! Converts autoscalers between their old version, which has one target, and the stored version, which has a list of
//! metrics. Fields that the old version lacks are in its annotations.

use serde_json::{Map, Value, json};

/// The annotations of the old version.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The default target utilization.
const DEFAULT_UTILIZATION: i64 = 80;

/// Fields of a target by their names in the old version and their paths in the other. For current values, the word
/// `target` is replaced by `current`.
type Names = &'static [(&'static str, &'static str)];

/// The kinds of metrics: the type, the member that describes it, and the fields of a target in it.
const FORMS: &[(&str, &str, Names)] = &[
    (
        "Resource",
        "resource",
        &[
            ("name", "name"),
            ("targetAverageUtilization", "target.averageUtilization"),
            ("targetAverageValue", "target.averageValue"),
        ],
    ),
    (
        "ContainerResource",
        "containerResource",
        &[
            ("name", "name"),
            ("targetAverageUtilization", "target.averageUtilization"),
            ("targetAverageValue", "target.averageValue"),
            ("container", "container"),
        ],
    ),
    (
        "Pods",
        "pods",
        &[
            ("metricName", "metric.name"),
            ("targetAverageValue", "target.averageValue"),
            ("selector", "metric.selector"),
        ],
    ),
    (
        "Object",
        "object",
        &[
            ("target", "describedObject"),
            ("metricName", "metric.name"),
            ("targetValue", "target.value"),
            ("selector", "metric.selector"),
            ("averageValue", "target.averageValue"),
        ],
    ),
    (
        "External",
        "external",
        &[
            ("metricName", "metric.name"),
            ("metricSelector", "metric.selector"),
            ("targetValue", "target.value"),
            ("targetAverageValue", "target.averageValue"),
        ],
    ),
];

/// Whether values are targets or measurements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Target,
    Current,
}

impl Side {
    /// Returns the names and paths of fields on this side.
    fn fields(self, names: Names) -> impl Iterator<Item = (String, String)> {
        let goes_on = |c: char| c == '.' || c.is_uppercase();
        let called = move |word: &str| match word.strip_prefix("target") {
            Some(rest) if self == Self::Current && rest.starts_with(goes_on) => format!("current{rest}"),
            _ => word.to_owned(),
        };
        names.iter().map(move |(name, place)| (called(name), called(place)))
    }
}

/// Converts a stored autoscaler to the old version.
pub fn to_old(autoscaler: &mut Value) {
    let metrics = take(&mut autoscaler["spec"], "metrics");
    let (own, others): (Vec<Value>, Vec<Value>) = items(metrics).into_iter().partition(is_utilization);
    if let Some(target) = own.first().map(|metric| metric["resource"]["target"]["averageUtilization"].clone()) {
        autoscaler["spec"]["targetCPUUtilizationPercentage"] = target;
    }
    let current = items(take(&mut autoscaler["status"], "currentMetrics"));
    let is_of_processors = |metric: &&Value| metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    let measured =
        current.iter().filter(is_of_processors).map(|metric| &metric["resource"]["current"]["averageUtilization"]);
    if let Some(measured) = measured.into_iter().find(|measured| measured.is_i64()) {
        autoscaler["status"]["currentCPUUtilizationPercentage"] = measured.clone();
    }
    if autoscaler["status"]["currentReplicas"].is_null() {
        autoscaler["status"]["currentReplicas"] = json!(0);
    }
    let conditions = items(take(&mut autoscaler["status"], "conditions"));
    let behavior = take(&mut autoscaler["spec"], "behavior");
    let described =
        |metrics: &[Value], side: Side| Value::Array(metrics.iter().map(|metric| described(metric, side)).collect());
    let notes = [
        (METRICS, (!others.is_empty()).then(|| described(&others, Side::Target))),
        (CURRENT_METRICS, (!current.is_empty()).then(|| described(&current, Side::Current))),
        (CONDITIONS, (!conditions.is_empty()).then_some(Value::Array(conditions))),
        (BEHAVIOR, behavior.is_object().then(|| recased(&behavior, &capital))),
    ];
    for (name, note) in notes {
        if let Some(note) = note {
            autoscaler["metadata"]["annotations"][name] = json!(note.to_string());
        }
    }
}

/// Converts an autoscaler of the old version to the stored version.
pub fn to_new(autoscaler: &mut Value) {
    let mut note = |name: &str| -> Value {
        let annotations = autoscaler["metadata"].get_mut("annotations").and_then(Value::as_object_mut);
        let text = annotations.and_then(|annotations| annotations.remove(name));
        text.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    let (metrics, current, conditions, behavior) =
        (note(METRICS), note(CURRENT_METRICS), note(CONDITIONS), note(BEHAVIOR));
    if autoscaler["metadata"]["annotations"].as_object().is_some_and(Map::is_empty) {
        take(&mut autoscaler["metadata"], "annotations");
    }
    let utilization = |side: &str, number: &Value| json!({"type": "Resource", "resource": {"name": "cpu", side: {"averageUtilization": number}}});
    let mut targets: Vec<Value> =
        items(metrics).iter().filter_map(|metric| undescribed(metric, Side::Target)).collect();
    match take(&mut autoscaler["spec"], "targetCPUUtilizationPercentage") {
        Value::Null if targets.is_empty() => targets.push(utilization("target", &json!(DEFAULT_UTILIZATION))),
        Value::Null => {}
        number => targets.push(utilization("target", &number)),
    }
    for metric in &mut targets {
        state_type(metric);
    }
    autoscaler["spec"]["metrics"] = Value::Array(targets);
    if behavior.is_object() {
        autoscaler["spec"]["behavior"] = recased(&behavior, &small);
    }
    let measured = take(&mut autoscaler["status"], "currentCPUUtilizationPercentage");
    let mut values: Vec<Value> =
        items(current).iter().filter_map(|metric| undescribed(metric, Side::Current)).collect();
    if values.is_empty() && !measured.is_null() {
        values.push(utilization("current", &measured));
    }
    autoscaler["status"]["currentMetrics"] = if values.is_empty() { Value::Null } else { Value::Array(values) };
    if autoscaler["status"]["currentReplicas"] == 0 {
        take(&mut autoscaler["status"], "currentReplicas");
    }
    if conditions.is_array() {
        autoscaler["status"]["conditions"] = conditions;
    }
}

/// Fills in the defaults, in either version.
pub(super) fn fill(version: &str, autoscaler: &mut Value) {
    let put = super::members::put;
    put(&mut autoscaler["spec"], "minReplicas", json!(1));
    if version == "v1" {
        return;
    }
    let utilization = json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": DEFAULT_UTILIZATION}}}]);
    if autoscaler["spec"]["metrics"].as_array().is_none_or(Vec::is_empty) {
        autoscaler["spec"]["metrics"] = utilization;
    }
    if let Some(behavior) = autoscaler["spec"].get_mut("behavior").filter(|behavior| behavior.is_object()) {
        let doubled = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        put(behavior, "scaleUp", json!({}));
        put(behavior, "scaleDown", json!({}));
        put(&mut behavior["scaleUp"], "stabilizationWindowSeconds", json!(0));
        put(&mut behavior["scaleUp"], "policies", json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, doubled]));
        put(&mut behavior["scaleDown"], "policies", json!([doubled]));
        for side in ["scaleUp", "scaleDown"] {
            put(&mut behavior[side], "selectPolicy", json!("Max"));
        }
    }
}

fn take(object: &mut Value, name: &str) -> Value {
    object.as_object_mut().and_then(|members| members.remove(name)).unwrap_or_default()
}

fn items(value: Value) -> Vec<Value> {
    if let Value::Array(items) = value { items } else { Vec::new() }
}

fn is_utilization(metric: &Value) -> bool {
    let resource = &metric["resource"];
    metric["type"] == "Resource" && resource["name"] == "cpu" && resource["target"]["averageUtilization"].is_i64()
}

/// Sets the type of a target.
fn state_type(metric: &mut Value) {
    let Some(member) = FORMS.iter().find(|form| metric["type"] == form.0).map(|form| form.1) else { return };
    let Some(target) = metric[member].get_mut("target").and_then(Value::as_object_mut) else { return };
    let word = match () {
        () if target.contains_key("averageUtilization") => "Utilization",
        () if target.contains_key("averageValue") => "AverageValue",
        () => "Value",
    };
    target.insert("type".into(), json!(word));
}

/// Returns a metric in the form of an annotation of the old version.
fn described(metric: &Value, side: Side) -> Value {
    let Some((word, member, names)) = FORMS.iter().find(|form| metric["type"] == form.0) else { return metric.clone() };
    let mut fields = Map::new();
    for (old, new) in side.fields(names) {
        let value = new.split('.').try_fold(&metric[*member], |value, part| value.get(part));
        let value =
            value.cloned().or_else(|| (old == "currentAverageValue" && *word != "External").then(|| json!("0")));
        fields.extend(value.map(|value| (old, value)));
    }
    json!({"type": word, *member: fields})
}

/// Returns the metric of an annotation of the old version.
fn undescribed(metric: &Value, side: Side) -> Option<Value> {
    let (word, member, names) = FORMS.iter().find(|form| metric["type"] == form.0)?;
    let mut fields = json!({});
    for (old, new) in side.fields(names) {
        let value = &metric[*member][&old];
        let is_nothing = value.is_null() || (old == "currentAverageValue" && value == "0");
        if !is_nothing {
            let place = new.split('.').fold(&mut fields, |place, part| &mut place[part]);
            *place = value.clone();
        }
    }
    Some(json!({"type": word, *member: fields}))
}

/// Returns a value with the case of its members' names changed.
fn recased(value: &Value, name: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, member)| !member.is_null());
            members.map(|(key, member)| (name(key), recased(member, name))).collect()
        }
        Value::Array(items) => items.iter().map(|item| recased(item, name)).collect(),
        other => other.clone(),
    }
}

fn capital(name: &str) -> String {
    name.char_indices().map(|(at, letter)| if at == 0 { letter.to_ascii_uppercase() } else { letter }).collect()
}

fn small(name: &str) -> String {
    name.char_indices().map(|(at, letter)| if at == 0 { letter.to_ascii_lowercase() } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_fields_survive_the_old_version() {
        let metric = |word: &str, member: &str, more: Value| json!({"type": word, member: more});
        let stored = json!({"metadata": {"name": "a", "annotations": {"own": "x"}}, "spec": {"maxReplicas": 3,
            "behavior": {"scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}},
            "metrics": [
                metric("Pods", "pods", json!({"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "AverageValue", "averageValue": "1"}})),
                metric("Object", "object", json!({"describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "m"}, "target": {"type": "Value", "value": "2"}})),
                metric("External", "external", json!({"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "3"}})),
                metric("Resource", "resource", json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}})),
            ]},
            "status": {"desiredReplicas": 2, "currentReplicas": 1, "conditions": [{"type": "AbleToScale", "status": "True"}],
                "currentMetrics": [metric("Resource", "resource", json!({"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "1"}}))]}});
        let mut seen = stored.clone();
        to_old(&mut seen);
        assert_eq!(seen["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 60}));
        assert_eq!(
            seen["status"],
            json!({"desiredReplicas": 2, "currentReplicas": 1, "currentCPUUtilizationPercentage": 40})
        );
        assert_eq!(seen["metadata"]["annotations"].as_object().unwrap().len(), 5);
        to_new(&mut seen);
        assert_eq!(seen, stored);
    }

    #[test]
    fn notes_that_make_no_sense_are_dropped() {
        let mut autoscaler = json!({"metadata": {"annotations": {METRICS: "{", CONDITIONS: 1, BEHAVIOR: "[]", CURRENT_METRICS: "[1]"}},
            "spec": {}, "status": {}});
        to_new(&mut autoscaler);
        assert_eq!(autoscaler["metadata"], json!({}));
        assert_eq!(
            autoscaler["spec"]["metrics"][0]["resource"]["target"],
            json!({"type": "Utilization", "averageUtilization": 80})
        );
    }
}

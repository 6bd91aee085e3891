//! The columns of built-in kinds, and how their cells are filled.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::{age, span};

/// Fills the cells of an object.
pub(super) type Row = fn(&Value, Timestamp) -> Vec<Value>;

/// Columns: name, type, priority.
type Columns = &'static [(&'static str, &'static str, i64)];

const NAME: (&str, &str, i64) = ("Name", "string", 0);
const AGE: (&str, &str, i64) = ("Age", "string", 0);

/// Returns the columns of a resource and the function that fills them.
pub(super) fn table(group: &str, plural: &str) -> (Columns, Row) {
    match (group, plural) {
        ("", "namespaces") => (&[NAME, ("Status", "string", 0), AGE], namespace),
        ("", "configmaps") => (&[NAME, ("Data", "string", 0), AGE], config_map),
        ("", "secrets") => (&[NAME, ("Type", "string", 0), ("Data", "string", 0), AGE], secret),
        ("", "services") => (SERVICE, service),
        ("", "pods") => (POD, pod),
        ("" | "events.k8s.io", "events") => (EVENT, event),
        ("", "nodes") => (NODE, node),
        ("", "persistentvolumeclaims") => (CLAIM, claim),
        ("apps", "deployments") => (DEPLOYMENT, deployment),
        ("apps", "statefulsets") => (&[NAME, ("Ready", "string", 0), AGE, CONTAINERS, IMAGES], stateful_set),
        ("apps", "daemonsets") => (DAEMON_SET, daemon_set),
        ("apps", "replicasets") | ("", "replicationcontrollers") => (REPLICA_SET, replica_set),
        ("batch", "jobs") => (JOB, job),
        ("batch", "cronjobs") => (CRON_JOB, cron_job),
        ("coordination.k8s.io", "leases") => (&[NAME, ("Holder", "string", 0), AGE], lease),
        ("apiextensions.k8s.io", "customresourcedefinitions")
        | ("rbac.authorization.k8s.io", "roles" | "clusterroles") => (&[NAME, ("Created At", "date", 0)], created),
        ("admissionregistration.k8s.io", _) => (&[NAME, ("Webhooks", "integer", 0), AGE], webhooks),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => (BINDING, binding),
        ("networking.k8s.io", "ingresses") => (INGRESS, ingress),
        ("policy", "poddisruptionbudgets") => (BUDGET, budget),
        ("autoscaling", "horizontalpodautoscalers") => (AUTOSCALER, autoscaler),
        ("autoscaling", "scales") => (&[NAME, ("Desired", "integer", 0), ("Available", "integer", 0), AGE], scale),
        _ => (&[NAME, AGE], |object, now| vec![name(object), created_age(object, now)]),
    }
}

const CONTAINERS: (&str, &str, i64) = ("Containers", "string", 1);
const IMAGES: (&str, &str, i64) = ("Images", "string", 1);
const SELECTOR: (&str, &str, i64) = ("Selector", "string", 1);
const SERVICE: Columns = &[
    NAME,
    ("Type", "string", 0),
    ("Cluster-IP", "string", 0),
    ("External-IP", "string", 0),
    ("Port(s)", "string", 0),
    AGE,
    SELECTOR,
];
const POD: Columns = &[
    NAME,
    ("Ready", "string", 0),
    ("Status", "string", 0),
    ("Restarts", "string", 0),
    AGE,
    ("IP", "string", 1),
    ("Node", "string", 1),
    ("Nominated Node", "string", 1),
    ("Readiness Gates", "string", 1),
];
const EVENT: Columns = &[
    ("Last Seen", "string", 0),
    ("Type", "string", 0),
    ("Reason", "string", 0),
    ("Object", "string", 0),
    ("Subobject", "string", 1),
    ("Source", "string", 1),
    ("Message", "string", 0),
    ("First Seen", "string", 1),
    ("Count", "string", 1),
    ("Name", "string", 1),
];
const NODE: Columns = &[
    NAME,
    ("Status", "string", 0),
    ("Roles", "string", 0),
    AGE,
    ("Version", "string", 0),
    ("Internal-IP", "string", 1),
    ("External-IP", "string", 1),
    ("OS-Image", "string", 1),
    ("Kernel-Version", "string", 1),
    ("Container-Runtime", "string", 1),
];
const CLAIM: Columns = &[
    NAME,
    ("Status", "string", 0),
    ("Volume", "string", 0),
    ("Capacity", "string", 0),
    ("Access Modes", "string", 0),
    ("StorageClass", "string", 0),
    ("VolumeAttributesClass", "string", 0),
    AGE,
    ("VolumeMode", "string", 1),
];
const DEPLOYMENT: Columns = &[
    NAME,
    ("Ready", "string", 0),
    ("Up-to-date", "string", 0),
    ("Available", "string", 0),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
const DAEMON_SET: Columns = &[
    NAME,
    ("Desired", "integer", 0),
    ("Current", "integer", 0),
    ("Ready", "integer", 0),
    ("Up-to-date", "integer", 0),
    ("Available", "integer", 0),
    ("Node Selector", "string", 0),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
const REPLICA_SET: Columns = &[
    NAME,
    ("Desired", "integer", 0),
    ("Current", "integer", 0),
    ("Ready", "integer", 0),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
const JOB: Columns = &[
    NAME,
    ("Status", "string", 0),
    ("Completions", "string", 0),
    ("Duration", "string", 0),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
const CRON_JOB: Columns = &[
    NAME,
    ("Schedule", "string", 0),
    ("Timezone", "string", 0),
    ("Suspend", "boolean", 0),
    ("Active", "integer", 0),
    ("Last Schedule", "string", 0),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
const BINDING: Columns = &[
    NAME,
    ("Role", "string", 0),
    AGE,
    ("Users", "string", 1),
    ("Groups", "string", 1),
    ("ServiceAccounts", "string", 1),
];
const INGRESS: Columns =
    &[NAME, ("Class", "string", 0), ("Hosts", "string", 0), ("Address", "string", 0), ("Ports", "string", 0), AGE];
const BUDGET: Columns = &[
    NAME,
    ("Min Available", "string", 0),
    ("Max Unavailable", "string", 0),
    ("Allowed Disruptions", "integer", 0),
    AGE,
];
const AUTOSCALER: Columns = &[
    NAME,
    ("Reference", "string", 0),
    ("Targets", "string", 0),
    ("MinPods", "string", 0),
    ("MaxPods", "string", 0),
    ("Replicas", "string", 0),
    AGE,
];

fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

fn created_age(object: &Value, now: Timestamp) -> Value {
    json!(age(&object["metadata"]["creationTimestamp"], now))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn count(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Returns a text, or a replacement if it is absent.
fn text_or(value: &Value, absent: &str) -> Value {
    match value {
        Value::String(text) if !text.is_empty() => json!(text),
        Value::Number(number) => json!(number.to_string()),
        _ => json!(absent),
    }
}

fn text(value: &Value) -> Value {
    text_or(value, "")
}

fn joined(items: impl IntoIterator<Item = String>) -> Value {
    let text = items.into_iter().collect::<Vec<_>>().join(",");
    json!(if text.is_empty() { "<none>".to_owned() } else { text })
}

fn pairs(map: &Value) -> Value {
    joined(
        map.as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())),
    )
}

/// Returns a label selector as a text.
fn selector(selector: &Value) -> Value {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let equal = equal.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let expressions = list(&selector["matchExpressions"]).iter().map(|expression| {
        let key = expression["key"].as_str().unwrap_or_default();
        let values = list(&expression["values"]).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        }
    });
    joined(equal.chain(expressions))
}

fn containers(template: &Value) -> [Value; 2] {
    let all = list(&template["spec"]["containers"]);
    ["name", "image"]
        .map(|field| json!(all.iter().filter_map(|container| container[field].as_str()).collect::<Vec<_>>().join(",")))
}

fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["status"]["phase"]), created_age(object, now)]
}

fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(count(&object["data"]) + count(&object["binaryData"])), created_age(object, now)]
}

fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["type"]), json!(count(&object["data"])), created_age(object, now)]
}

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let ports = list(&spec["ports"]).iter().map(|port| {
        let node =
            port["nodePort"].as_i64().filter(|node| *node > 0).map(|node| format!(":{node}")).unwrap_or_default();
        format!("{}{node}/{}", number(&port["port"]), port["protocol"].as_str().unwrap_or("TCP"))
    });
    let addresses = list(&object["status"]["loadBalancer"]["ingress"])
        .iter()
        .filter_map(|one| one["ip"].as_str().or(one["hostname"].as_str()));
    let given = list(&spec["externalIPs"]).iter().filter_map(Value::as_str);
    let external = match spec["type"].as_str() {
        Some("ExternalName") => text_or(&spec["externalName"], "<none>"),
        Some("LoadBalancer") if addresses.clone().chain(given.clone()).next().is_none() => json!("<pending>"),
        _ => joined(addresses.chain(given).map(str::to_owned)),
    };
    let kind = text(&spec["type"]);
    vec![
        name(object),
        kind,
        text_or(&spec["clusterIP"], "<none>"),
        external,
        joined(ports),
        created_age(object, now),
        pairs(&spec["selector"]),
    ]
}

fn pod(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let states = list(&status["containerStatuses"]);
    let ready = states.iter().filter(|state| state["ready"] == true).count();
    let restarts: i64 = states.iter().map(|state| number(&state["restartCount"])).sum();
    let waiting = states.iter().rev().find_map(|state| {
        let state = &state["state"];
        state["waiting"]["reason"].as_str().or(state["terminated"]["reason"].as_str())
    });
    let phase = match (object["metadata"]["deletionTimestamp"].is_string(), waiting) {
        (true, _) => json!("Terminating"),
        (false, Some(reason)) => json!(reason),
        (false, None) => text_or(&status["reason"], status["phase"].as_str().unwrap_or_default()),
    };
    let gates = list(&spec["readinessGates"]);
    let is_met = |gate: &&Value| {
        list(&status["conditions"])
            .iter()
            .any(|condition| condition["type"] == gate["conditionType"] && condition["status"] == "True")
    };
    let met = gates.iter().filter(is_met).count();
    vec![
        name(object),
        json!(format!("{ready}/{}", list(&spec["containers"]).len())),
        phase,
        json!(restarts.to_string()),
        created_age(object, now),
        text_or(&status["podIP"], "<none>"),
        text_or(&spec["nodeName"], "<none>"),
        text_or(&status["nominatedNodeName"], "<none>"),
        json!(if gates.is_empty() { "<none>".to_owned() } else { format!("{met}/{}", gates.len()) }),
    ]
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let either =
        |core: &str, new: &str| if object[core].is_null() { object[new].clone() } else { object[core].clone() };
    let about = either("involvedObject", "regarding");
    let source = either("source", "deprecatedSource");
    let reporter = either("reportingComponent", "reportingController");
    let first = either("firstTimestamp", "deprecatedFirstTimestamp");
    let first = if first.is_null() { object["eventTime"].clone() } else { first };
    let last = either("lastTimestamp", "deprecatedLastTimestamp");
    let observed = &object["series"]["lastObservedTime"];
    let last = if observed.is_string() { observed.clone() } else { last };
    let last = if last.is_null() { first.clone() } else { last };
    let count = object["series"]["count"].as_i64().or(either("count", "deprecatedCount").as_i64()).unwrap_or(1);
    let kind = about["kind"].as_str().unwrap_or_default().to_lowercase();
    let origin =
        [source["component"].as_str(), source["host"].as_str()].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let origin = if origin.is_empty() { text(&reporter) } else { json!(origin) };
    vec![
        json!(age(&last, now)),
        text(&object["type"]),
        text(&object["reason"]),
        json!(format!("{kind}/{}", about["name"].as_str().unwrap_or_default())),
        text(&about["fieldPath"]),
        origin,
        json!(either("message", "note").as_str().unwrap_or_default().trim()),
        json!(age(&first, now)),
        json!(count.max(1).to_string()),
        name(object),
    ]
}

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    const ROLE: &str = "node-role.kubernetes.io/";
    let status = &object["status"];
    let ready = list(&status["conditions"]).iter().find(|condition| condition["type"] == "Ready");
    let mut state = match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let labels = object["metadata"]["labels"].as_object();
    let roles = labels.into_iter().flatten().filter_map(|(key, _)| key.strip_prefix(ROLE)).map(str::to_owned);
    let address = |kind: &str| {
        let found = list(&status["addresses"]).iter().find(|address| address["type"] == kind);
        found.map_or_else(|| json!("<none>"), |address| text_or(&address["address"], "<none>"))
    };
    let info = |field: &str| text_or(&status["nodeInfo"][field], "<unknown>");
    vec![
        name(object),
        json!(state),
        joined(roles),
        created_age(object, now),
        text(&status["nodeInfo"]["kubeletVersion"]),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let is_going = object["metadata"]["deletionTimestamp"].is_string();
    let modes = list(&status["accessModes"]).iter().filter_map(Value::as_str).map(|mode| match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        other => other,
    });
    vec![
        name(object),
        if is_going { json!("Terminating") } else { text(&status["phase"]) },
        text(&spec["volumeName"]),
        text(&status["capacity"]["storage"]),
        json!(modes.collect::<Vec<_>>().join(",")),
        text(&spec["storageClassName"]),
        text_or(&spec["volumeAttributesClassName"], "<unset>"),
        created_age(object, now),
        text_or(&spec["volumeMode"], "<unset>"),
    ]
}

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(object),
        json!(format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]))),
        json!(number(&status["updatedReplicas"])),
        json!(number(&status["availableReplicas"])),
        created_age(object, now),
        names,
        images,
        selector(&spec["selector"]),
    ]
}

fn scale(object: &Value, now: Timestamp) -> Vec<Value> {
    let [desired, available] = ["spec", "status"].map(|part| json!(number(&object[part]["replicas"])));
    vec![name(object), desired, available, created_age(object, now)]
}

fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(&object["spec"]["template"]);
    let ready = format!("{}/{}", number(&object["status"]["readyReplicas"]), number(&object["spec"]["replicas"]));
    vec![name(object), json!(ready), created_age(object, now), names, images]
}

fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["template"]);
    let fields = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    let mut cells = vec![name(object)];
    cells.extend(fields.map(|field| json!(number(&status[field]))));
    cells.extend([
        pairs(&spec["template"]["spec"]["nodeSelector"]),
        created_age(object, now),
        names,
        images,
        selector(&spec["selector"]),
    ]);
    cells
}

fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["template"]);
    // Replication controllers select by plain labels.
    let chosen = if spec["selector"]["matchLabels"].is_object() || spec["selector"]["matchExpressions"].is_array() {
        selector(&spec["selector"])
    } else {
        pairs(&spec["selector"])
    };
    vec![
        name(object),
        json!(number(&spec["replicas"])),
        json!(number(&status["replicas"])),
        json!(number(&status["readyReplicas"])),
        created_age(object, now),
        names,
        images,
        chosen,
    ]
}

fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["template"]);
    let has = |kind: &str| {
        list(&status["conditions"]).iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let state = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if object["metadata"]["deletionTimestamp"].is_string() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), spec["parallelism"].as_i64()) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, Some(parallel)) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let start = status["startTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let end = status["completionTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok()).unwrap_or(now);
    let duration = start.map(|start| span(end.as_second() - start.as_second())).unwrap_or_default();
    let chosen = selector(&spec["selector"]);
    vec![
        name(object),
        json!(state),
        json!(completions),
        json!(duration),
        created_age(object, now),
        names,
        images,
        chosen,
    ]
}

fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["jobTemplate"]["spec"]["template"]);
    let last = &status["lastScheduleTime"];
    vec![
        name(object),
        text(&spec["schedule"]),
        text_or(&spec["timeZone"], "<none>"),
        json!(if spec["suspend"] == true { "True" } else { "False" }),
        json!(list(&status["active"]).len()),
        json!(if last.is_null() { "<none>".to_owned() } else { age(last, now) }),
        created_age(object, now),
        names,
        images,
        selector(&spec["jobTemplate"]["spec"]["selector"]),
    ]
}

fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["spec"]["holderIdentity"]), created_age(object, now)]
}

fn created(object: &Value, _: Timestamp) -> Vec<Value> {
    vec![name(object), object["metadata"]["creationTimestamp"].clone()]
}

fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(list(&object["webhooks"]).len()), created_age(object, now)]
}

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = &object["roleRef"];
    let subjects = |kind: &str| {
        let found = list(&object["subjects"]).iter().filter(|subject| subject["kind"] == kind).map(|subject| {
            let name = subject["name"].as_str().unwrap_or_default();
            if kind == "ServiceAccount" {
                format!("{}/{name}", subject["namespace"].as_str().unwrap_or_default())
            } else {
                name.to_owned()
            }
        });
        json!(found.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(object),
        json!(format!("{}/{}", role["kind"].as_str().unwrap_or_default(), role["name"].as_str().unwrap_or_default())),
        created_age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let hosts = list(&spec["rules"])
        .iter()
        .filter_map(|rule| rule["host"].as_str())
        .filter(|host| !host.is_empty())
        .collect::<Vec<_>>();
    let points = list(&object["status"]["loadBalancer"]["ingress"]);
    let addresses =
        points.iter().filter_map(|point| point["ip"].as_str().or(point["hostname"].as_str())).collect::<Vec<_>>();
    vec![
        name(object),
        text_or(&spec["ingressClassName"], "<none>"),
        json!(if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") }),
        json!(addresses.join(",")),
        json!(if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" }),
        created_age(object, now),
    ]
}

fn budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let allowed = number(&object["status"]["disruptionsAllowed"]);
    vec![
        name(object),
        text_or(&spec["minAvailable"], "N/A"),
        text_or(&spec["maxUnavailable"], "N/A"),
        json!(allowed),
        created_age(object, now),
    ]
}

fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    let wanted = list(&spec["metrics"]).iter().map(|metric| {
        let resource = &metric["resource"];
        let name = resource["name"].as_str().unwrap_or("metric");
        let goal = resource["target"]["averageUtilization"]
            .as_i64()
            .map_or_else(|| "<auto>".to_owned(), |percent| format!("{percent}%"));
        format!("{name}: <unknown>/{goal}")
    });
    vec![
        name(object),
        json!(format!(
            "{}/{}",
            target["kind"].as_str().unwrap_or_default(),
            target["name"].as_str().unwrap_or_default()
        )),
        json!(
            Some(wanted.collect::<Vec<_>>().join(", "))
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| "<none>".to_owned())
        ),
        text_or(&spec["minReplicas"], "<unset>"),
        json!(number(&spec["maxReplicas"]).to_string()),
        json!(number(&status["currentReplicas"]).to_string()),
        created_age(object, now),
    ]
}

use super::*;
use crate::http::api_error::FieldError;
use crate::kinds::messages;

fn kind(name: &str) -> Kind {
    kinds().into_iter().find(|kind| kind.kind == name).unwrap()
}

fn prepared(name: &str, mut object: Value) -> Value {
    prepare(&kind(name), "", &mut object, None).unwrap();
    object
}

fn refused(name: &str, mut object: Value, old: Option<&Value>) -> Vec<String> {
    let failure = prepare(&kind(name), "", &mut object, old).unwrap_err();
    failure.details.causes.iter().map(FieldError::shown).collect()
}

#[test]
fn the_table_of_kinds_is_complete() {
    let all = kinds();
    assert_eq!(all.len(), 47);
    let deployment = kind("Deployment");
    assert_eq!(deployment.api_version(), "apps/v1");
    assert_eq!(deployment.list_kind, "DeploymentList");
    assert!(deployment.has_status && deployment.scale.is_some());
    assert!(!kind("Namespace").verbs.contains(&"deletecollection".to_owned()));
    assert_eq!(kind("TokenReview").verbs, ["create"]);
    assert!(subresources(&kind("Pod")).iter().any(|one| one.name == "log" && one.verbs == ["get"]));
    let versions: Vec<&Kind> = all.iter().filter(|kind| kind.kind == "HorizontalPodAutoscaler").collect();
    assert!(versions.iter().all(|kind| kind.storage_version == "v2"));
}

#[test]
fn secrets_accept_string_data_and_refuse_invalid_base64() {
    let secret = prepared("Secret", json!({"metadata": {"name": "s"}, "stringData": {"x": "y"}}));
    assert_eq!(
        secret,
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"x": "eQ=="}, "type": "Opaque"})
    );
    let mut bad = json!({"metadata": {"name": "s"}, "data": {"x": "!"}});
    assert_eq!(prepare(&kind("Secret"), "", &mut bad, None).unwrap_err().code, 400);
    let mut bad = json!({"metadata": {"name": "c1"}, "data": {"a": 1}});
    assert_eq!(prepare(&kind("ConfigMap"), "", &mut bad, None).unwrap_err().code, 400);
}

#[test]
fn workloads_get_their_defaults() {
    let written = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let mut empty = written.clone();
    empty["spec"]["strategy"] = json!({});
    empty["spec"]["updateStrategy"] = json!({"rollingUpdate": {}});
    assert_eq!(prepared("Deployment", empty.clone())["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    let rolled = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    assert_eq!(prepared("DaemonSet", empty)["spec"]["updateStrategy"], rolled);
    let spec = prepared("Deployment", written.clone())["spec"].clone();
    assert_eq!(spec["replicas"], 1);
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    assert_eq!(spec["template"]["spec"]["restartPolicy"], "Always");
    assert_eq!(spec["template"]["spec"]["containers"][0]["imagePullPolicy"], "Always");
    assert!(spec["template"]["spec"]["tolerations"].is_null());
    let mut typed = written.clone();
    typed["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    assert_eq!(prepared("StatefulSet", typed)["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
    let mut other = written.clone();
    other["spec"]["selector"]["matchLabels"]["a"] = json!("z");
    assert_eq!(refused("Deployment", other.clone(), None), ["Invalid@spec.template.metadata.labels"]);
    other["spec"]["template"]["metadata"]["labels"]["a"] = json!("z");
    assert_eq!(refused("Deployment", other, Some(&prepared("Deployment", written))), ["Invalid@spec.selector"]);
}

#[test]
fn pods_services_and_jobs_get_their_defaults() {
    let pod =
        prepared("Pod", json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}));
    assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(refused("Pod", json!({"metadata": {"name": "p"}, "spec": {}}), None), ["Required@spec.containers"]);
    let service = prepared("Service", json!({"metadata": {"name": "0a"}, "spec": {"ports": [{"port": 80}]}}));
    assert_eq!(service["spec"]["ports"], json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]));
    assert!(service["spec"]["clusterIP"].as_str().unwrap().starts_with("10.0.0."));
    let written = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let job = prepared("Job", written);
    assert_eq!(job["spec"]["selector"]["matchLabels"], json!({"batch.kubernetes.io/controller-uid": "u"}));
    assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
    assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
    let namespace = prepared("Namespace", json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["ex.dev/f"]}}));
    assert_eq!(namespace["spec"]["finalizers"], json!(["ex.dev/f", "kubernetes"]));
}

#[test]
fn containers_probes_and_limits_get_their_defaults() {
    let container = json!({"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1"}}, "livenessProbe": {"httpGet": {"port": 80}}});
    let pod = prepared(
        "Pod",
        json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "robot", "containers": [container]}}),
    );
    let made = &pod["spec"]["containers"][0];
    assert_eq!(made["resources"], json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}));
    let wanted = json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
        "successThreshold": 1, "failureThreshold": 3});
    assert_eq!((&made["livenessProbe"], &pod["spec"]["serviceAccount"]), (&wanted, &json!("robot")));
    let limits = json!([{"type": "Container", "max": {"memory": "1Gi"}, "default": {"cpu": "200m"}}]);
    let range = prepared("LimitRange", json!({"metadata": {"name": "l"}, "spec": {"limits": limits}}));
    let wanted = json!({"cpu": "200m", "memory": "1Gi"});
    assert_eq!(
        (&range["spec"]["limits"][0]["default"], &range["spec"]["limits"][0]["defaultRequest"]),
        (&wanted, &wanted)
    );
}

#[test]
fn events_are_of_their_own_namespace() {
    let core = prepared(
        "Event",
        json!({"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"namespace": "n", "kind": "X"}, "message": "m"}),
    );
    assert_eq!(core["source"], json!({}));
    assert_eq!(core["eventTime"], Value::Null);
    let foreign = json!({"metadata": {"generateName": "g-", "namespace": "default"}, "involvedObject": {"namespace": "kube-system"}});
    assert_eq!(refused("Event", foreign, None), ["Invalid@involvedObject.namespace"]);
    let new_kind = kinds().into_iter().find(|kind| kind.group == "events.k8s.io").unwrap();
    let mut event = json!({"metadata": {"name": "e1"}, "reason": "R", "note": "N", "type": "Normal"});
    assert_eq!(prepare(&new_kind, "", &mut event, None).unwrap_err().details.causes[0].field, "eventTime");
}

#[test]
fn moments_of_leases_have_six_digits() {
    let lease =
        |time: &str| json!({"metadata": {"name": "le"}, "spec": {"renewTime": time, "leaseDurationSeconds": 1}});
    assert!(prepare(&kind("Lease"), "", &mut lease("2026-01-01T00:00:00.000000Z"), None).is_ok());
    assert_eq!(prepare(&kind("Lease"), "", &mut lease("2026-01-01T00:00:00Z"), None).unwrap_err().code, 400);
    assert_eq!(
        refused("Lease", json!({"metadata": {"name": "le"}, "spec": {"leaseDurationSeconds": 0}}), None),
        ["Invalid@spec.leaseDurationSeconds"]
    );
}

#[test]
fn metadata_is_checked() {
    let map = |meta: Value| json!({"metadata": meta});
    assert_eq!(refused("ConfigMap", map(json!({})), None), ["Required@metadata.name"]);
    assert_eq!(refused("ConfigMap", map(json!({"name": "A_b"})), None), ["Invalid@metadata.name"]);
    assert_eq!(refused("Namespace", map(json!({"name": "a.b"})), None), ["Invalid@metadata.name"]);
    assert_eq!(
        refused("ConfigMap", map(json!({"name": "a", "finalizers": ["bad"]})), None),
        ["Invalid@metadata.finalizers[0]"]
    );
    assert_eq!(
        refused("ConfigMap", map(json!({"name": "a", "labels": {"-": "x", "k": "-"}})), None),
        ["Invalid@metadata.labels", "Invalid@metadata.labels"]
    );
    assert!(prepare(&kind("Role"), "", &mut map(json!({"name": "system:A_b"})), None).is_ok());
    assert!(check_name("a/b").is_err());
}

#[test]
fn unknown_members_are_dropped_and_reported() {
    let mut map = json!({"metadata": {"name": "c1"}, "data": {"a": "1", "b": null}, "foo": 1});
    assert_eq!(read(&kind("ConfigMap"), &mut map).unwrap(), ["foo"]);
    assert_eq!(map, json!({"metadata": {"name": "c1"}, "data": {"a": "1", "b": ""}}));
    let container =
        json!({"name": "c", "imag": "i", "livenessProbe": {"httpGet": {"port": "web", "pat": "/"}}, "args": null});
    let volume = json!({"name": "v", "configMap": {"name": "m", "items": [{"keys": "a"}]}, "emptydir": {}});
    let template = json!({"kind": "Pod", "metadata": {"name": "x", "bogus": 1}, "spec": {"containers": [container], "volumes": [volume]}});
    let claim =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "d"}, "spec": {"size": 1}});
    let mut set = json!({"metadata": {"name": "s"}, "spec": {"replica": 1, "template": template, "volumeClaimTemplates": [claim]}});
    let mut dropped = read(&kind("StatefulSet"), &mut set).unwrap();
    dropped.sort();
    let expected = [
        "spec.replica",
        "spec.template.kind",
        "spec.template.metadata.bogus",
        "spec.template.spec.containers[0].imag",
        "spec.template.spec.containers[0].livenessProbe.httpGet.pat",
        "spec.template.spec.volumes[0].configMap.items[0].keys",
        "spec.template.spec.volumes[0].emptydir",
        "spec.volumeClaimTemplates[0].spec.size",
    ];
    assert_eq!(dropped, expected);
    assert_eq!(
        set["spec"]["template"]["spec"]["containers"],
        json!([{"name": "c", "livenessProbe": {"httpGet": {"port": "web"}}, "resources": {}}])
    );
}

#[test]
fn values_are_read_by_the_types_of_their_fields() {
    let refusal = |name: &str, object: Value| read(&kind(name), &mut object.clone()).unwrap_err().message;
    let mistakes = [
        (
            "Deployment",
            json!({"spec": {"replicas": "3"}}),
            "cannot unmarshal string into Go struct field spec.replicas of type int32",
        ),
        ("Deployment", json!({"spec": {"replicas": 4_294_967_296_i64}}), "field spec.replicas of type int32"),
        (
            "Deployment",
            json!({"spec": {"template": {"spec": {"containers": {}}}}}),
            "cannot unmarshal object into Go struct field spec.template.spec.containers",
        ),
        (
            "Pod",
            json!({"spec": {"containers": [{"command": "sh"}]}}),
            "field spec.containers[0].command of type []string",
        ),
        (
            "Pod",
            json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "many"}}}]}}),
            "\"many\" is not a quantity",
        ),
        (
            "Pod",
            json!({"spec": {"nodeSelector": {"a": true}}}),
            "cannot unmarshal bool into Go struct field spec.nodeSelector.a of type string",
        ),
        ("Secret", json!({"data": {"a": "not base64!"}}), "data.a: illegal base64 data"),
        ("Lease", json!({"spec": {"renewTime": "2026-01-01T00:00:00Z"}}), "spec.renewTime: parsing time"),
        (
            "CronJob",
            json!({"status": {"lastScheduleTime": "yesterday"}}),
            "field status.lastScheduleTime of type meta.Time",
        ),
    ];
    for (name, object, text) in mistakes {
        let message = refusal(name, object);
        assert!(message.contains(text), "{message}");
    }
    let mut pod =
        json!({"spec": {"containers": [{"resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}, "ports": [null]}]}});
    assert_eq!(read(&kind("Pod"), &mut pod), Ok(Vec::new()));
    let wanted =
        json!({"name": "", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}, "ports": [{"containerPort": 0}]});
    assert_eq!(pod["spec"]["containers"][0], wanted);
}

#[test]
fn all_kinds_but_definitions_are_known_by_their_fields() {
    let unknown: Vec<String> = kinds()
        .into_iter()
        .filter(|kind| messages::of_kind(&kind.group, &kind.version, &kind.kind).is_none())
        .map(|kind| kind.kind)
        .collect();
    assert_eq!(unknown, ["CustomResourceDefinition"]);
}

#[test]
fn webhook_configurations_get_their_defaults_and_checks() {
    let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
    let webhook = json!({"name": "v.ex.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://x/y"}, "rules": [rule]});
    let object = prepared("ValidatingWebhookConfiguration", json!({"metadata": {"name": "w"}, "webhooks": [webhook]}));
    assert_eq!(object["webhooks"][0]["failurePolicy"], "Fail");
    assert_eq!(object["webhooks"][0]["rules"][0]["scope"], "*");
    let odd = json!({"operations": ["CREATE", "ODD"], "apiGroups": [""], "apiVersions": ["v1"], "scope": "Odd"});
    let odd = json!([{"name": "v.ex.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://x"}, "rules": [odd]}]);
    assert_eq!(
        refused("ValidatingWebhookConfiguration", json!({"metadata": {"name": "w"}, "webhooks": odd}), None),
        [
            "NotSupported@webhooks[0].rules[0].operations[1]",
            "Required@webhooks[0].rules[0].resources",
            "NotSupported@webhooks[0].rules[0].scope"
        ]
    );
    let bad = json!({"metadata": {"name": "w"}, "webhooks": [{"name": "v", "clientConfig": {"url": "http://x"}}]});
    assert_eq!(
        refused("MutatingWebhookConfiguration", bad, None),
        [
            "Invalid@webhooks[0].name",
            "Required@webhooks[0].sideEffects",
            "Invalid@webhooks[0].clientConfig.url",
            "Required@webhooks[0].admissionReviewVersions"
        ]
    );
}

#[test]
fn values_of_wrong_types_are_refused_in_every_kind() {
    let shapes = [
        json!("x"),
        json!([]),
        json!({"metadata": 1}),
        json!({"metadata": {"labels": 1}}),
        json!({"spec": "x"}),
        json!({"status": 1}),
        json!({"data": 1, "stringData": [], "webhooks": [1]}),
        json!({"webhooks": [{"clientConfig": 1}]}),
        json!({"webhooks": [{"rules": [1], "clientConfig": {"service": []}}]}),
        json!({"template": 1, "spec": {"template": "x", "containers": [1], "ports": ["x"], "strategy": 1}}),
        json!({"spec": {"template": {"spec": 1}, "jobTemplate": [], "selector": 1, "clusterIP": 1, "finalizers": 1}}),
        json!({"spec": {"template": {"metadata": {"labels": []}, "spec": {"containers": [{"ports": [1], "image": 1}]}}}}),
        json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": []}}}}, "involvedObject": 1, "source": []}),
    ];
    for kind in kinds() {
        for shape in &shapes {
            let mut object = shape.clone();
            drop(read(&kind, &mut object));
            let old = prepare(&kind, "", &mut object, None).is_ok().then(|| object.clone());
            let _ = prepare(&kind, "", &mut shape.clone(), old.as_ref());
        }
        let has_spec = messages::of_kind(&kind.group, &kind.version, &kind.kind)
            .is_some_and(|message| message.member("spec").is_some());
        let mut object = json!({"metadata": {"name": "a"}, "spec": "x"});
        assert!(!has_spec || prepare(&kind, "", &mut object, None).unwrap_err().code == 400, "{}", kind.kind);
    }
}

//! The modules that ship with kopfd, function by function: those that only compute. `tests/library/` has scenarios of
//! the others.

use serde_json::{Value, json};

use super::world::{failure, result};

/// Checks that expressions with a module have these values.
fn gives(module: &str, expressions: &[(&str, Value)]) {
    for (expression, expected) in expressions {
        assert_eq!(&result(&format!("import \"kopf/{module}\" as m; return {expression};")), expected, "{expression}");
    }
}

/// Checks that expressions with a module fail with errors that contain these texts.
fn fails(module: &str, expressions: &[(&str, &str)]) {
    for (expression, expected) in expressions {
        let text = failure(&format!("import \"kopf/{module}\" as m; return {expression};"));
        assert!(text.contains(expected), "{expression}: {text}");
    }
}

#[test]
fn names_are_accepted_by_the_server_and_stay_different() {
    gives(
        "names",
        &[
            ("m::dns_label(\"shop-1\")", json!("shop-1")),
            ("m::dns_label(\"Shop_1\") == m::dns_label(\"shop-1\")", json!(false)),
            ("regex::is_match(\"^shop-1-[0-9a-f]{8}$\", m::dns_label(\"Shop_1\"))", json!(true)),
            ("regex::is_match(\"^x-[0-9a-f]{8}$\", m::dns_label(\"---\"))", json!(true)),
            ("m::dns_label(\"a\".pad(100, \"a\")).len() <= 63", json!(true)),
            ("m::subdomain(\"shop.example.com\")", json!("shop.example.com")),
            ("m::label_value(\"\")", json!("")),
            ("m::label_value(\"v1.2_3\")", json!("v1.2_3")),
            ("m::child(\"shop\", \"db\")", json!("shop-db")),
        ],
    );
}

#[test]
fn quantities_are_numbers_and_texts() {
    gives(
        "quantities",
        &[
            ("m::parse(\"500m\")", json!(0.5)),
            ("m::parse(3)", json!(3)),
            ("m::add(\"1Gi\", \"1Gi\") == 2147483648", json!(true)),
            ("m::total([\"1Ki\", (), 24]) == 1048", json!(true)),
            ("[m::compare(\"1Gi\", \"1G\"), m::compare(\"1000m\", 1), m::compare(\"100m\", \"1\")]", json!([1, 0, -1])),
            (
                "[m::bytes(536870912), m::bytes(1572864), m::bytes(1000), m::bytes(0)]",
                json!(["512Mi", "1536Ki", "1000", "0"]),
            ),
            ("[m::cpu(2), m::cpu(0.5), m::cpu(\"1500m\"), m::cpu(0.0001)]", json!(["2", "500m", "1500m", "1m"])),
        ],
    );
    fails("quantities", &[("m::parse(\"much\")", "much")]);
}

#[test]
fn delays_grow_up_to_their_limit() {
    gives(
        "backoff",
        &[
            ("[0, 1, 2].map(|retry| m::delay(retry, #{ jitter: 0 }))", json!([10.0, 20.0, 40.0])),
            ("m::delay(50, #{ jitter: 0 })", json!(600.0)),
            ("m::delay(3, #{ base: \"1s\", factor: 3, max: \"20s\", jitter: 0 })", json!(20.0)),
            ("[m::delay(0)].all(|d| d >= 9.0 && d <= 11.0)", json!(true)),
        ],
    );
    fails("backoff", &[("m::delay(1, #{ bas: 1 })", "backoff::delay has no option bas")]);
}

#[test]
fn rollouts_are_finished_when_all_pods_are_new_and_available() {
    let workload = |kind: &str, status: &str| {
        format!(
            "#{{ kind: \"{kind}\", metadata: #{{ generation: 2 }}, spec: #{{ replicas: 2 }}, status: #{{ observedGeneration: 2, {status} }} }}"
        )
    };
    let cases = [
        ("Deployment", "replicas: 2, updatedReplicas: 2, availableReplicas: 2", Value::Null),
        ("Deployment", "replicas: 3, updatedReplicas: 2, availableReplicas: 2", json!("old pods have not ended yet")),
        ("Deployment", "replicas: 2, updatedReplicas: 1", json!("1 of 2 pods are new")),
        ("Deployment", "replicas: 2, updatedReplicas: 2, availableReplicas: 1", json!("1 of 2 pods are available")),
        ("StatefulSet", "readyReplicas: 1", json!("1 of 2 pods are ready")),
        ("StatefulSet", "readyReplicas: 2, updatedReplicas: 2", Value::Null),
        ("DaemonSet", "desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3", Value::Null),
    ];
    for (kind, status, expected) in cases {
        gives("rollout", &[(&format!("m::pending({})", workload(kind, status)), expected)]);
    }
    let stale = "#{ kind: \"Deployment\", metadata: #{ generation: 3 }, status: #{ observedGeneration: 2 } }";
    gives("rollout", &[(&format!("m::pending({stale})"), json!("its newest state is not observed yet"))]);
    gives(
        "rollout",
        &[("m::digest(#{ a: 1 }) == m::digest(#{ a: 2 })", json!(false)), ("m::digest(#{ a: 1 }).len()", json!(16))],
    );
}

#[test]
fn conditions_are_found_by_their_type() {
    let status = "#{ conditions: [#{ type: \"Ready\", status: \"True\" }, #{ type: \"Stalled\", status: \"False\" }] }";
    gives(
        "conditions",
        &[
            (&format!("m::get({status}, \"Ready\").status"), json!("True")),
            (&format!("m::get({status}, \"Other\")"), Value::Null),
            (
                &format!(
                    "[m::is_true({status}, \"Ready\"), m::is_true({status}, \"Stalled\"), m::is_true((), \"Ready\")]"
                ),
                json!([true, false, false]),
            ),
        ],
    );
}

//! `examples/helm` with the real helm, and `examples/certificates` with the real openssl.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::{ExampleKind, SMALL, TestContext, apply_definition, crash, launch_copy};
use crate::harness::Launch;
use crate::harness::child::{output, output_with_input};

pub(super) fn releases_are_those_of_helm(context: &TestContext<'_>) {
    let tools = std::env::var_os("KOPFD_CLUSTER_TOOLS")
        .expect("KOPFD_CLUSTER_TOOLS is not set; start the suite by tests/cluster/run");
    let helm = PathBuf::from(tools).join("helm");
    let folder = context.directory().join("helm");
    let (charts, defaults) = (format!("{}/charts/", folder.display()), format!("{}/defaults", folder.display()));
    apply_definition(context, "helm");
    let kind = ExampleKind { group: "kopfd.dev", kind: "Release", plural: "releases" }.kind();
    // helm finds this cluster by a kubeconfig: that of the operator, with its rights.
    let launch = launch_copy(
        context,
        "helm",
        &[
            ("operator.yaml", "/usr/bin/helm", &helm.display().to_string()),
            ("operator.yaml", "/charts/", &charts),
            ("operator.yaml", "/etc/releases", &defaults),
            ("operator.yaml", "KUBERNETES_SERVICE_HOST", "KUBECONFIG"),
            ("releases.rhai", "/charts/", &charts),
            ("releases.rhai", "/etc/releases", &defaults),
            ("releases.rhai", "KUBERNETES_SERVICE_HOST", "KUBECONFIG"),
        ],
    );
    std::fs::create_dir_all(&defaults).expect("the directory of the case can be written");
    std::fs::write(Path::new(&defaults).join("values.yaml"), "replicas: 2")
        .expect("the directory of the case can be written");
    let launch = context.with_derived_rights(launch);
    let operator = context.start(&launch);

    context.create(&kind, "shop", json!({"chart": "web"}));
    context.create(&kind, "wiki", json!({"chart": "web", "values": {"replicas": 5}}));
    for (name, replicas) in [("shop", "2"), ("wiki", "5")] {
        let object = context.handled(&kind, name);
        assert_eq!(object["status"], json!({"deploy/spec": {"revision": 1}}));
        assert_eq!(installed(context, name), Some(replicas.to_owned()));
    }
    context.merge(&kind, "shop", json!({"spec": {"values": {"replicas": 3}}}));
    context.handled_again(&kind, "shop");
    assert_eq!(installed(context, "shop"), Some("3".into()));

    crash(context, &operator, &launch, || {
        context.merge(&kind, "shop", json!({"spec": {"values": {"replicas": 4}}}));
    });
    context.handled_again(&kind, "shop");
    assert_eq!(installed(context, "shop"), Some("4".into()));
    let revision = |release: &Value| release["revision"].as_str().and_then(|text| text.parse::<u32>().ok());
    let listed = releases(context, &helm, &launch);
    assert_eq!(
        listed.iter().map(|release| (&release["name"], &release["status"])).collect::<Vec<_>>(),
        [(&json!("shop"), &json!("deployed")), (&json!("wiki"), &json!("deployed"))]
    );
    assert!(revision(&listed[0]) >= Some(3), "each change is a revision: {listed:?}");

    // One of them is uninstalled by hand before its object is deleted.
    let by_hand = output(
        Command::new(&helm)
            .args(["uninstall", "wiki", "--namespace", &context.namespace])
            .env("KUBECONFIG", &launch.kubeconfig),
    );
    assert!(by_hand.status.success(), "{}", String::from_utf8_lossy(&by_hand.stderr));
    for name in ["shop", "wiki"] {
        context.delete(&kind, name);
        context.gone(&kind, name);
        assert_eq!(installed(context, name), None);
    }
    assert_eq!(releases(context, &helm, &launch), Vec::<Value>::new());
}

/// Returns what the chart has made of the number of replicas.
fn installed(context: &TestContext<'_>, name: &str) -> Option<String> {
    let map = context.client().get(&format!("/api/v1/namespaces/{}/configmaps/{name}-web", context.namespace))?;
    map["data"]["replicas"].as_str().map(ToOwned::to_owned)
}

/// Returns what helm knows of the namespace.
fn releases(context: &TestContext<'_>, helm: &Path, launch: &Launch) -> Vec<Value> {
    let list = ["list", "--all", "--output", "json", "--namespace", &context.namespace];
    let printed = output(Command::new(helm).args(list).env("KUBECONFIG", &launch.kubeconfig));
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    serde_json::from_slice(&printed.stdout).expect("helm prints JSON")
}

pub(super) fn certificates_are_made_by_openssl(context: &TestContext<'_>) {
    let kind = SMALL.kind();
    apply_definition(context, "certificates");
    let launch = context.with_derived_rights(launch_copy(context, "certificates", &[]));
    let operator = context.start(&launch);
    context.create(&kind, "shop", json!({"host": "shop.example.com", "days": 30}));
    let object = context.handled(&kind, "shop");
    assert_eq!(object["status"]["issue"], "subject=CN=shop.example.com");
    let first = secret(context, "shop").expect("the certificate is in a Secret");
    assert_eq!(first["type"], "kubernetes.io/tls");
    verify(&first, "shop.example.com");

    // After a crash the other object gets its certificate, and the first one keeps its own.
    crash(context, &operator, &launch, || {
        context.create(&kind, "wiki", json!({"host": "wiki.example.com"}));
    });
    context.handled(&kind, "wiki");
    verify(&secret(context, "wiki").expect("the certificate is in a Secret"), "wiki.example.com");
    assert_eq!(secret(context, "shop").expect("it stays")["data"], first["data"], "nothing is issued twice");
    for name in ["shop", "wiki"] {
        context.delete(&kind, name);
        context.gone(&kind, name);
        // The garbage collector takes half a minute to notice a new kind of owners.
        let limit = Duration::from_mins(2);
        context.eventually_within(limit, "the Secret goes with its owner", || {
            secret(context, name).is_none().then_some(())
        });
    }
}

fn secret(context: &TestContext<'_>, name: &str) -> Option<Value> {
    context.client().get(&format!("/api/v1/namespaces/{}/secrets/{name}", context.namespace))
}

/// Has openssl check that the certificate is for a host and belongs to the key.
fn verify(secret: &Value, host: &str) {
    let script = "import base64, json, sys; data = json.load(sys.stdin)['data']; print(base64.b64decode(data[sys.argv[1]]).decode())";
    let part = |name: &str| {
        let decoded = output_with_input(Command::new("python3").args(["-c", script, name]), &secret.to_string());
        String::from_utf8(decoded.stdout).expect("PEM is text")
    };
    let openssl = |arguments: &[&str], input: &str| {
        let printed = output_with_input(Command::new("openssl").args(arguments), input);
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        String::from_utf8(printed.stdout).expect("openssl prints text")
    };
    let certificate = part("tls.crt");
    let subject = openssl(&["x509", "-noout", "-subject", "-nameopt", "RFC2253"], &certificate);
    assert_eq!(subject.trim(), format!("subject=CN={host}"));
    let of_certificate = openssl(&["x509", "-noout", "-pubkey"], &certificate);
    assert_eq!(of_certificate, openssl(&["pkey", "-pubout"], &part("tls.key")), "the key is that of the certificate");
}

//! `kubectl wait`.

use crate::cases::{Case, cases};
use crate::stage::Stage;

pub(crate) const CASES: &[Case] = cases![Both: conditions_fields_and_ends_are_waited_for];

fn status(stage: &Stage<'_>, status: &str) {
    stage.kubectl(&format!("patch gauge dial --subresource=status --type=merge -p '{{\"status\":{status}}}'")).prints("patched");
}

fn conditions_fields_and_ends_are_waited_for(stage: &Stage<'_>) {
    stage.file("gauge.yaml", "apiVersion: clients.kopfd.dev/v1\nkind: Gauge\nmetadata: {name: dial, labels: {a: b}}\nspec: {}\n");
    let created = stage.start_kubectl("wait --for=create gauge/dial --timeout=30s");
    std::thread::sleep(std::time::Duration::from_millis(500));
    stage.kubectl("create -f gauge.yaml");
    assert!(created.finish().contains("gauge.clients.kopfd.dev/dial condition met"));

    let ready = stage.start_kubectl("wait --for=condition=Ready gauge/dial --timeout=30s");
    let unready = stage.start_kubectl("wait --for=condition=Ready=Unknown gauge -l a=b --timeout=30s");
    let phase = stage.start_kubectl("wait --for=jsonpath='{.status.phase}'=Done gauge --all --timeout=30s");
    let value = stage.start_kubectl("wait --for=jsonpath='{.status.message}' -f gauge.yaml --timeout=30s");
    std::thread::sleep(std::time::Duration::from_millis(500));
    status(stage, r#"{"conditions":[{"type":"Ready","status":"False"}],"phase":"Busy"}"#);
    status(stage, r#"{"conditions":[{"type":"Ready","status":"Unknown"}]}"#);
    assert!(unready.finish().contains("condition met"));
    status(stage, r#"{"conditions":[{"type":"Ready","status":"True"}]}"#);
    assert!(ready.finish().contains("gauge.clients.kopfd.dev/dial condition met"));
    status(stage, r#"{"phase":"Done","message":"well"}"#);
    assert!(phase.finish().contains("condition met"));
    assert!(value.finish().contains("condition met"));
    stage
        .kubectl_fails("wait --for=condition=Never gauge/dial --timeout=1s")
        .complains("timed out waiting for the condition on gauges/dial");
    stage.kubectl_fails("wait --for=condition=Ready gauge/absent --timeout=1s").complains("not found");

    let gone = stage.start_kubectl("wait --for=delete gauge/dial --timeout=30s");
    std::thread::sleep(std::time::Duration::from_millis(500));
    stage.kubectl("delete gauge dial");
    gone.finish();
    stage.kubectl("wait --for=delete gauge/dial --timeout=5s");
}

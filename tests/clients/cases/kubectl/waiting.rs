//! `kubectl wait`.

use crate::cases::{Case, cases};
use crate::context::CaseContext;

pub(crate) const CASES: &[Case] = cases![Both: conditions_fields_and_ends_are_waited_for];

fn status(context: &CaseContext<'_>, status: &str) {
    context
        .kubectl(&format!("patch gauge dial --subresource=status --type=merge -p '{{\"status\":{status}}}'"))
        .expect_output("patched");
}

fn conditions_fields_and_ends_are_waited_for(context: &CaseContext<'_>) {
    context.file(
        "gauge.yaml",
        "apiVersion: clients.kopfd.dev/v1\nkind: Gauge\nmetadata: {name: dial, labels: {a: b}}\nspec: {}\n",
    );
    let created = context.start_kubectl("wait --for=create gauge/dial --timeout=30s");
    std::thread::sleep(std::time::Duration::from_millis(500));
    context.kubectl("create -f gauge.yaml");
    assert!(created.finish().contains("gauge.clients.kopfd.dev/dial condition met"));

    let ready = context.start_kubectl("wait --for=condition=Ready gauge/dial --timeout=30s");
    let unready = context.start_kubectl("wait --for=condition=Ready=Unknown gauge -l a=b --timeout=30s");
    let phase = context.start_kubectl("wait --for=jsonpath='{.status.phase}'=Done gauge --all --timeout=30s");
    let value = context.start_kubectl("wait --for=jsonpath='{.status.message}' -f gauge.yaml --timeout=30s");
    std::thread::sleep(std::time::Duration::from_millis(500));
    status(context, r#"{"conditions":[{"type":"Ready","status":"False"}],"phase":"Busy"}"#);
    status(context, r#"{"conditions":[{"type":"Ready","status":"Unknown"}]}"#);
    assert!(unready.finish().contains("condition met"));
    status(context, r#"{"conditions":[{"type":"Ready","status":"True"}]}"#);
    assert!(ready.finish().contains("gauge.clients.kopfd.dev/dial condition met"));
    status(context, r#"{"phase":"Done","message":"well"}"#);
    assert!(phase.finish().contains("condition met"));
    assert!(value.finish().contains("condition met"));
    context
        .kubectl_fails("wait --for=condition=Never gauge/dial --timeout=1s")
        .expect_stderr("timed out waiting for the condition on gauges/dial");
    context.kubectl_fails("wait --for=condition=Ready gauge/absent --timeout=1s").expect_stderr("not found");

    let gone = context.start_kubectl("wait --for=delete gauge/dial --timeout=30s");
    std::thread::sleep(std::time::Duration::from_millis(500));
    context.kubectl("delete gauge dial");
    gone.finish();
    context.kubectl("wait --for=delete gauge/dial --timeout=5s");
}

//! `kubectl explain`, `api-resources`, `api-versions`.

use crate::cases::{Case, cases};
use crate::context::CaseContext;

pub(crate) const CASES: &[Case] =
    cases![Both: custom_resources_are_explained, built_in_kinds_are_explained, resources_and_versions_are_listed];

fn custom_resources_are_explained(context: &CaseContext<'_>) {
    context
        .kubectl("explain gauge")
        .expect_output("A gauge shows a number.")
        .expect_output("spec\t<Object> -required-");
    context
        .kubectl("explain gauges.spec")
        .expect_output("What the gauge is to show.")
        .expect_output("How large the gauge is to be.");
    context.kubectl("explain gauge.spec.size").expect_output("FIELD: size <integer>");
    context.kubectl("explain gauge.spec.mode").expect_output("plain\n    precise");
    context.kubectl("explain gauge.spec.marks").expect_output("<[]Object>").expect_output("Where the mark is.");
    context
        .kubectl("explain gauge.spec --recursive")
        .expect_output("marks\t<[]Object>")
        .expect_output("  value\t<integer>");
    context.kubectl("explain gg --api-version=clients.kopfd.dev/v1").expect_output("VERSION:    v1");
    context.kubectl_fails("explain gauge.spec.none").expect_stderr("field \"none\" does not exist");
    context.kubectl_fails("explain nonsense").expect_stderr("the server doesn't have a resource type \"nonsense\"");
}

fn built_in_kinds_are_explained(context: &CaseContext<'_>) {
    context.kubectl("explain pods").expect_output("KIND:       Pod").expect_output("spec");
    context.kubectl("explain configmap.data").expect_output("FIELD: data");
    context.kubectl("explain deployment").expect_output("GROUP:      apps");
    context.kubectl("explain gauge.metadata.labels").expect_output("<map[string]string>");
}

fn resources_and_versions_are_listed(context: &CaseContext<'_>) {
    context
        .kubectl("api-resources --api-group=clients.kopfd.dev")
        .expect_lines(&["NAME SHORTNAMES APIVERSION NAMESPACED KIND", "gauges gg clients.kopfd.dev/v1 true Gauge"]);
    context
        .kubectl("api-resources --api-group=clients.kopfd.dev -o wide")
        .expect_output("create,")
        .expect_output("all,meters");
    context.kubectl("api-resources --api-group=apps --sort-by=name").expect_output("deployments");
    context.kubectl("api-resources --api-group=batch --verbs=list,watch -o name").expect_output("cronjobs.batch");
    context.kubectl("api-resources --namespaced=false --api-group=").expect_output("namespaces");
    context.kubectl("api-resources --categories=meters -o name").expect_lines(&["gauges.clients.kopfd.dev"]);
    context.kubectl("api-resources").expect_output("configmaps").expect_output("gauges");
    context.kubectl("api-versions").expect_output("apps/v1").expect_output("clients.kopfd.dev/v1");
}

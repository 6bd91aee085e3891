//! `kubectl explain`, `api-resources`, `api-versions`.

use crate::cases::{Case, cases};
use crate::stage::Stage;

pub(crate) const CASES: &[Case] =
    cases![Both: custom_resources_are_explained, built_in_kinds_are_explained, resources_and_versions_are_listed];

fn custom_resources_are_explained(stage: &Stage<'_>) {
    stage.kubectl("explain gauge").prints("A gauge shows a number.").prints("spec\t<Object> -required-");
    stage.kubectl("explain gauges.spec").prints("What the gauge is to show.").prints("How large the gauge is to be.");
    stage.kubectl("explain gauge.spec.size").prints("FIELD: size <integer>");
    stage.kubectl("explain gauge.spec.mode").prints("plain\n    precise");
    stage.kubectl("explain gauge.spec.marks").prints("<[]Object>").prints("Where the mark is.");
    stage.kubectl("explain gauge.spec --recursive").prints("marks\t<[]Object>").prints("  value\t<integer>");
    stage.kubectl("explain gg --api-version=clients.kopfd.dev/v1").prints("VERSION:    v1");
    stage.kubectl_fails("explain gauge.spec.none").complains("field \"none\" does not exist");
    stage.kubectl_fails("explain nonsense").complains("the server doesn't have a resource type \"nonsense\"");
}

fn built_in_kinds_are_explained(stage: &Stage<'_>) {
    stage.kubectl("explain pods").prints("KIND:       Pod").prints("spec");
    stage.kubectl("explain configmap.data").prints("FIELD: data");
    stage.kubectl("explain deployment").prints("GROUP:      apps");
    stage.kubectl("explain gauge.metadata.labels").prints("<map[string]string>");
}

fn resources_and_versions_are_listed(stage: &Stage<'_>) {
    stage
        .kubectl("api-resources --api-group=clients.kopfd.dev")
        .prints_lines(&["NAME SHORTNAMES APIVERSION NAMESPACED KIND", "gauges gg clients.kopfd.dev/v1 true Gauge"]);
    stage.kubectl("api-resources --api-group=clients.kopfd.dev -o wide").prints("create,").prints("all,meters");
    stage.kubectl("api-resources --api-group=apps --sort-by=name").prints("deployments");
    stage.kubectl("api-resources --api-group=batch --verbs=list,watch -o name").prints("cronjobs.batch");
    stage.kubectl("api-resources --namespaced=false --api-group=").prints("namespaces");
    stage.kubectl("api-resources --categories=meters -o name").prints_lines(&["gauges.clients.kopfd.dev"]);
    stage.kubectl("api-resources").prints("configmaps").prints("gauges");
    stage.kubectl("api-versions").prints("apps/v1").prints("clients.kopfd.dev/v1");
}

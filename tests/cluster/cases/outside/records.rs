//! `examples/http` with a server that plays its API.

use serde_json::json;

use super::{Counterpart, ExampleKind, TestContext, apply_definition, crash, launch_copy, log_says};

pub(super) fn records_are_those_of_the_api(context: &TestContext<'_>) {
    let server = Counterpart::play(context, "records.py", "Authorization: Bearer not-a-real-token");
    apply_definition(context, "http");
    let secret = json!({"metadata": {"name": "dns-api"}, "stringData": {"token": "not-a-real-token"}});
    context.client().create(&format!("/api/v1/namespaces/{}/secrets", context.namespace), &secret);
    let kind = ExampleKind { group: "example.com", kind: "DnsRecord", plural: "dnsrecords" }.kind();
    let launch = launch_copy(
        context,
        "http",
        &[
            ("operator.yaml", "dns.example.com", server.address()),
            ("dns.rhai", "https://dns.example.com", &format!("http://{}", server.address())),
        ],
    );
    let launch = context.with_derived_rights(launch);
    let operator = context.start(&launch);
    let stored = || server.ask_ok("GET", "/v1/records", None);

    context.create(&kind, "www", json!({"address": "192.0.2.7"}));
    let object = context.handled(&kind, "www");
    assert_eq!(object["status"]["publish"], json!({"id": "r-www", "address": "192.0.2.7"}));
    assert_eq!(stored(), json!({"www": {"id": "r-www", "address": "192.0.2.7"}}));
    context.create(&kind, "reserved", json!({"address": "198.51.100.1"}));
    log_says(context, &operator, "Handler 'publish' failed permanently: the address 198.51.100.1 is refused: reserved");

    // The request is at the server when the operator is killed; it is sent again.
    server.signal("STOP");
    context.merge(&kind, "www", json!({"spec": {"address": "192.0.2.8"}}));
    std::thread::sleep(std::time::Duration::from_secs(1));
    let operator = crash(context, &operator, &launch, || server.signal("CONT"));
    context.handled_again(&kind, "www");
    assert_eq!(stored(), json!({"www": {"id": "r-www", "address": "192.0.2.8"}}));

    // The record is gone already: that is no failure.
    server.ask_ok("DELETE", "/v1/records/www", None);
    for name in ["www", "reserved"] {
        context.delete(&kind, name);
        context.gone(&kind, name);
    }
    assert_eq!(stored(), json!({}));
    assert!(!operator.log().contains("not-a-real-token"), "the log has no token");
}

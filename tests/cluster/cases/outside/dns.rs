//! `examples/dns-records` with a real PowerDNS.

use serde_json::{Value, json};

use super::{
    Counterpart, ExampleKind, Kind, Launch, TestContext, apply_definition, crash, has_reason, launch_copy, log_says,
};

const ZONE: &str = "/api/v1/servers/localhost/zones/example.org.";

/// A server with a zone, and the start options of an operator that knows it.
struct Records<'c> {
    context: &'c TestContext<'c>,
    server: Counterpart,
    kind: Kind,
    launch: Launch,
}

impl<'c> Records<'c> {
    fn new(context: &'c TestContext<'c>) -> Self {
        let server = Counterpart::powerdns(context);
        server.ask_ok(
            "POST",
            "/api/v1/servers/localhost/zones",
            Some(&json!({"name": "example.org.", "kind": "Native", "nameservers": []})),
        );
        apply_definition(context, "dns-records");
        context.make_namespace("dns");
        let secret = json!({"metadata": {"name": "powerdns"}, "stringData": {"api-key": "not-a-real-key"}});
        context.client().ensure("/api/v1/namespaces/dns/secrets", &secret);
        let kind = ExampleKind { group: "dns.example.com", kind: "DnsRecord", plural: "dnsrecords" }.kind();
        let launch = launch_copy(
            context,
            "dns-records",
            &[
                ("operator.yaml", "powerdns.dns.svc:8081", server.address()),
                ("records.rhai", "powerdns.dns.svc:8081", server.address()),
                ("operator.yaml", "interval: 60s, initialDelay: 60s", "interval: 1s, initialDelay: 1s"),
                ("records.rhai", "\"1m\"", "\"1s\""),
                ("records.rhai", "\"5m\"", "\"1s\""),
            ],
        );
        let launch = context.with_derived_rights(launch);
        Self { context, server, kind, launch }
    }

    fn make(&self, name: &str, host: &str, value: &str) {
        self.context.create(
            &self.kind,
            name,
            json!({"zone": "example.org", "name": host, "type": "A", "values": [value]}),
        );
    }

    /// Returns the record sets of a host at the server: their values and their comments.
    fn stored(&self, host: &str) -> Vec<Value> {
        let zone = self.server.ask_ok("GET", ZONE, None);
        let sets = zone["rrsets"].as_array().expect("a zone has record sets").iter();
        sets.filter(|set| set["name"] == host)
            .map(|set| json!([set["ttl"], set["records"][0]["content"], set["comments"][0]["content"]]))
            .collect()
    }

    fn expect(&self, host: &str, ttl: u32, value: &str, object: &str) {
        let expected = json!([[ttl, value, format!("{}/{object}", self.context.namespace)]]);
        self.context.eventually(&format!("{host} is {value}"), || (json!(self.stored(host)) == expected).then_some(()));
        assert_eq!(
            self.server.resolve(host).map(|address| address.to_string()).as_deref(),
            Some(value),
            "resolvers get it, too"
        );
    }

    fn write(&self, set: Value) {
        self.server.ask_ok("PATCH", ZONE, Some(&json!({"rrsets": [set]})));
    }
}

pub(super) fn records_are_those_of_the_server(context: &TestContext<'_>) {
    let records = Records::new(context);
    let kind = &records.kind;
    let operator = context.start(&records.launch);
    records.make("www", "www", "192.0.2.7");
    records.expect("www.example.org.", 300, "192.0.2.7", "www");
    context.merge(kind, "www", json!({"spec": {"values": ["192.0.2.8"], "ttl": 60}}));
    records.expect("www.example.org.", 60, "192.0.2.8", "www");

    // The other types in the form of the server: none of them is written again by the timer.
    for (kind_of, value) in [("TXT", "say \"hello\""), ("MX", "10 mail.example.org"), ("AAAA", "2001:DB8::0:1")] {
        let spec = json!({"zone": "example.org", "name": "other", "type": kind_of, "values": [value]});
        let name = format!("other-{}", kind_of.to_lowercase());
        context.create(kind, &name, spec);
        has_reason(context, kind, &name, "Ready", "Published");
    }
    assert_eq!(records.stored("other.example.org.").len(), 3);

    // The operator is killed, and the object renamed before it is back.
    let operator = crash(context, &operator, &records.launch, || {
        context.merge(kind, "www", json!({"spec": {"name": "web"}}));
    });
    records.expect("web.example.org.", 60, "192.0.2.8", "www");
    context.eventually("the earlier name is gone", || records.stored("www.example.org.").is_empty().then_some(()));
    assert_eq!(records.server.resolve("www.example.org."), None);

    // As somebody would do it in another client of the server, which knows nothing of comments.
    let changed = json!([{"content": "192.0.2.66", "disabled": false}]);
    records
        .write(json!({"name": "web.example.org.", "type": "A", "ttl": 1, "changetype": "REPLACE", "records": changed}));
    records.expect("web.example.org.", 60, "192.0.2.8", "www");
    records.write(json!({"name": "web.example.org.", "type": "A", "changetype": "DELETE"}));
    records.expect("web.example.org.", 60, "192.0.2.8", "www");
    assert_eq!(operator.log().matches("is 2001:db8::1").count(), 1, "what is as it should be is left alone");

    records.make("second", "web", "192.0.2.9");
    has_reason(context, kind, "second", "Ready", "Conflict");
    records.write(
        json!({"name": "taken.example.org.", "type": "A", "ttl": 1, "changetype": "REPLACE", "records": changed}),
    );
    records.make("third", "taken", "192.0.2.10");
    has_reason(context, kind, "third", "Ready", "Conflict");
    context.create(kind, "lost", json!({"zone": "example.net", "name": "www", "type": "A", "values": ["192.0.2.7"]}));
    has_reason(context, kind, "lost", "Ready", "ZoneMissing");
    // A CNAME stands alone.
    context.create(
        kind,
        "cname",
        json!({"zone": "example.org", "name": "other", "type": "CNAME", "values": ["web.example.org"]}),
    );
    has_reason(context, kind, "cname", "Ready", "Refused");
    assert_eq!(records.stored("other.example.org.").len(), 3);

    for name in ["www", "third", "lost", "cname", "other-txt", "other-mx", "other-aaaa"] {
        context.delete(kind, name);
        context.gone(kind, name);
    }
    records.expect("web.example.org.", 300, "192.0.2.9", "second");
    context.delete(kind, "second");
    context.gone(kind, "second");
    let left = records.server.ask_ok("GET", ZONE, None);
    let mut names: Vec<&str> =
        left["rrsets"].as_array().expect("sets").iter().filter_map(|set| set["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["example.org.", "taken.example.org."],
        "only the zone itself and the record of the other client are left"
    );
    log_says(context, &operator, "web.example.org. A is removed");
}

pub(super) fn a_crash_leaves_no_record(context: &TestContext<'_>) {
    let records = Records::new(context);
    let operator = context.start(&records.launch);
    records.make("first", "first", "192.0.2.7");
    records.expect("first.example.org.", 300, "192.0.2.7", "first");
    // The server takes requests, and does not answer them.
    records.server.signal("STOP");
    records.make("www", "www", "192.0.2.7");
    context.object(&records.kind, "www", "is handled", |object| object["metadata"]["finalizers"].is_array());
    std::thread::sleep(std::time::Duration::from_secs(1));
    let second = crash(context, &operator, &records.launch, || {
        context.delete(&records.kind, "www");
        records.server.signal("CONT");
    });
    context.gone(&records.kind, "www");
    assert!(records.stored("www.example.org.").is_empty(), "nothing is left at the server");
    records.expect("first.example.org.", 300, "192.0.2.7", "first");
    context.delete(&records.kind, "first");
    context.gone(&records.kind, "first");
    log_says(context, &second, "first.example.org. A is removed");
}

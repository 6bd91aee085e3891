//! `examples/monitoring` with a server that plays Healthchecks.io.

use serde_json::{Value, json};

use super::{
    Counterpart, ExampleKind, Kind, LIVENESS, Launch, TestContext, apply_definition, ask, crash, has_reason,
    launch_copy, log_says,
};

/// The service, and the start options of an operator that knows it.
struct Checks<'c> {
    context: &'c TestContext<'c>,
    service: Counterpart,
    kind: Kind,
    launch: Launch,
}

impl<'c> Checks<'c> {
    fn new(context: &'c TestContext<'c>) -> Self {
        let service = Counterpart::play(context, "checks.py", "X-Api-Key: not-a-real-key");
        apply_definition(context, "monitoring");
        context.make_namespace("monitoring");
        for (name, key, value) in
            [("healthchecks", "api-key", "not-a-real-key"), ("healthchecks-webhook", "token", "not-a-real-token")]
        {
            let secret = json!({"metadata": {"name": name}, "stringData": {key: value}});
            context.client().ensure("/api/v1/namespaces/monitoring/secrets", &secret);
        }
        let kind = ExampleKind { group: "monitoring.example.com", kind: "Check", plural: "checks" }.kind();
        let launch = launch_copy(
            context,
            "monitoring",
            &[
                ("operator.yaml", "[healthchecks.io]", &format!("[\"{}\"]", service.address())),
                ("checks.rhai", "https://healthchecks.io", &format!("http://{}", service.address())),
                // Long enough that what the webhook brings is not the timer's.
                ("operator.yaml", "interval: 60s, initialDelay: 60s", "interval: 4s, initialDelay: 4s"),
                ("checks.rhai", "\"10m\"", "\"1s\""),
            ],
        );
        let launch = context.with_derived_rights(Launch { options: vec![LIVENESS.into()], ..launch });
        Self { context, service, kind, launch }
    }

    /// Returns a check at the service by the name of its object.
    fn stored(&self, name: &str) -> Option<Value> {
        let name = format!("{}/{name}", self.context.namespace);
        let all = self.service.ask_ok("GET", "/api/v3/checks/", None);
        let found: Vec<&Value> =
            all["checks"].as_array().expect("a list").iter().filter(|check| check["name"] == name).collect();
        assert!(found.len() <= 1, "there is one check of the name: {found:?}");
        found.first().map(|check| (*check).clone())
    }

    fn expect(&self, name: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        self.context.eventually(&format!("the check {name} {what}"), || self.stored(name).filter(&condition))
    }

    fn make(&self, name: &str, spec: Value) {
        self.context.create(&self.kind, name, spec);
    }

    fn remove(&self, name: &str) {
        self.context.delete(&self.kind, name);
        self.context.gone(&self.kind, name);
    }
}

pub(super) fn checks_are_those_of_the_service(context: &TestContext<'_>) {
    let checks = Checks::new(context);
    let kind = &checks.kind;
    let operator = context.start(&checks.launch);
    checks.make("backups", json!({"period": "12h", "tags": ["prod", "database"], "deletionPolicy": "Pause"}));
    let object = has_reason(context, kind, "backups", "Synced", "Published");
    let stored = checks.stored("backups").expect("it is at the service");
    assert_eq!(
        (&stored["timeout"], &stored["grace"], &stored["tags"]),
        (&json!(43200), &json!(3600), &json!("prod database"))
    );
    assert_eq!((&object["status"]["id"], &object["status"]["url"]), (&stored["uuid"], &stored["ping_url"]));
    let id = stored["uuid"].as_str().expect("it has an id").to_owned();

    // The job fails: the service sends its webhook, and the status has it before the answer.
    checks.service.ask_ok("GET", &format!("/ping/{id}/fail"), None);
    let (hooks, body) = (operator.endpoints(), json!({"code": id, "status": "down"}));
    let (status, answer) = ask(&hooks, "Authorization: Bearer not-a-real-token", "POST", "/healthchecks", Some(&body));
    assert_eq!((status, answer), (200, json!({"state": "down"})));
    assert_eq!(context.get(kind, "backups").expect("it is there")["status"]["state"], "down");
    assert_eq!(ask(&hooks, "Authorization: Bearer wrong", "POST", "/healthchecks", Some(&body)).0, 403);
    // Without a webhook, the timer brings it.
    checks.service.ask_ok("GET", &format!("/ping/{id}"), None);
    context
        .object(kind, "backups", "is up", |object| object["status"]["state"] == "up" && object["status"]["pings"] == 2);

    // While the operator is down, the object is changed, and the check is deleted at the service.
    let operator = crash(context, &operator, &checks.launch, || {
        context.merge(kind, "backups", json!({"spec": {"period": null, "schedule": "0 3 * * *"}}));
        checks.service.ask_ok("DELETE", &format!("/api/v3/checks/{id}"), None);
    });
    let stored = checks.expect("backups", "has the schedule", |check| check["schedule"] == "0 3 * * *");
    assert_eq!(stored.get("timeout"), None);
    // Somebody changes it at the service.
    let path = format!("/api/v3/checks/{}", stored["uuid"].as_str().expect("it has an id"));
    checks.service.ask_ok("POST", &path, Some(&json!({"schedule": "0 4 * * *", "grace": 60})));
    checks.expect("backups", "is repaired", |check| check["schedule"] == "0 3 * * *" && check["grace"] == 3600);

    follow_a_job(&checks);
    checks.make("refused", json!({"schedule": "at three in the morning"}));
    has_reason(context, kind, "refused", "Synced", "Refused");
    let names = ["one", "two", "three", "four", "five"];
    for name in names {
        checks.make(name, json!({"period": "1d"}));
    }
    context.eventually("one check is too many", || names.iter().any(|name| is_limited(&checks, name)).then_some(()));
    // The policy of this one is to pause it, and it is resumed with a new object of its name.
    checks.remove("backups");
    assert_eq!(checks.stored("backups").expect("it stays")["status"], "paused");
    checks.make("backups", json!({"schedule": "0 3 * * *"}));
    checks.expect("backups", "is resumed", |check| check["status"] == "new");
    checks.remove("backups");
    // There is room for the others.
    for name in names {
        has_reason(context, kind, name, "Synced", "Published");
        checks.remove(name);
    }
    checks.remove("refused");
    assert_eq!(checks.service.ask_ok("GET", "/api/v3/checks/", None), json!({"checks": []}));
    log_says(context, &operator, "is deleted.");
    assert!(!operator.log().contains("not-a-real"), "the log has neither the key nor the token");
}

fn is_limited(checks: &Checks<'_>, name: &str) -> bool {
    let object = checks.context.get(&checks.kind, name).expect("it is there");
    super::reason(&object, "Synced") == Some("LimitReached")
}

/// A CronJob with the annotation has a check, until it loses the annotation.
fn follow_a_job(checks: &Checks<'_>) {
    let context = checks.context;
    let pod =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/main:1"}]}});
    let job = json!({
        "metadata": {"name": "report", "annotations": {"monitoring.example.com/check": "30m"}},
        "spec": {"schedule": "0 6 * * 1-5", "suspend": true, "jobTemplate": {"spec": {"template": pod}}},
    });
    let path = format!("/apis/batch/v1/namespaces/{}/cronjobs", context.namespace);
    context.client().create(&path, &job);
    let stored = checks.expect("job-report", "is made", |check| check["schedule"] == "0 6 * * 1-5");
    assert_eq!((&stored["tz"], &stored["grace"]), (&json!("UTC"), &json!(1800)));
    let annotations = json!({"metadata": {"annotations": {"monitoring.example.com/check": null}}});
    context.client().merge(&format!("{path}/report"), &annotations);
    context.gone(&checks.kind, "job-report");
    assert_eq!(checks.stored("job-report"), None);
}

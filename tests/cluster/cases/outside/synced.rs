//! `examples/secrets-sync` with namespaces that come and go, and with a vault.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Counterpart, ExampleKind, Kind, Launch, Operator, TIMEOUT, TestContext, apply_definition, crash, has_reason,
    launch_copy,
};

/// The operator, its vault, and the namespaces of teams.
struct Synced<'c> {
    context: &'c TestContext<'c>,
    vault: Counterpart,
    kind: Kind,
    launch: Launch,
}

impl<'c> Synced<'c> {
    fn new(context: &'c TestContext<'c>) -> Self {
        let vault = Counterpart::play(context, "vault.py", "X-Vault-Token: root");
        apply_definition(context, "secrets-sync");
        context.make_namespace("secrets-sync");
        let login = json!({"metadata": {"name": "vault"}, "stringData": {"role_id": "not-a-real-role", "secret_id": "not-a-real-secret"}});
        context.client().ensure("/api/v1/namespaces/secrets-sync/secrets", &login);
        let kind = ExampleKind { group: "sync.example.com", kind: "SyncedSecret", plural: "syncedsecrets" }
            .kind()
            .cluster_scoped();
        let launch = launch_copy(
            context,
            "secrets-sync",
            &[
                ("operator.yaml", "vault.vault.svc:8200", vault.address()),
                ("vault.rhai", "vault.vault.svc:8200", vault.address()),
                ("operator.yaml", "interval: 30s, initialDelay: 30s", "interval: 1s, initialDelay: 1s"),
                ("vault.rhai", "\"1m\"", "\"1s\""),
                ("vault.rhai", "\"30s\"", "\"1s\""),
            ],
        );
        // It has a cluster-scoped kind, and copies into all namespaces.
        let launch = context.with_derived_rights(Launch { namespaces: Vec::new(), ..launch });
        Self { context, vault, kind, launch }
    }

    fn team(&self, team: &str) -> String {
        format!("{}-team-{team}", self.context.namespace)
    }

    fn make_team(&self, team: &str, labels: &Value) {
        self.context
            .client()
            .ensure("/api/v1/namespaces", &json!({"metadata": {"name": self.team(team), "labels": labels}}));
    }

    fn path(&self, team: &str, name: &str) -> String {
        format!("/api/v1/namespaces/{}/secrets/{name}", self.team(team))
    }

    /// Waits until a copy has a value, in base64; without one, until there is no copy.
    fn expect(&self, team: &str, name: &str, key: &str, value: Option<&str>) {
        // The garbage collector takes half a minute to notice a new kind of owners.
        let limit = if value.is_some() { TIMEOUT } else { Duration::from_mins(2) };
        self.context.eventually_within(limit, &format!("{name} of team {team} has {value:?}"), || {
            let copy = self.context.client().get(&self.path(team, name));
            (copy.as_ref().and_then(|copy| copy["data"][key].as_str()) == value && copy.is_some() == value.is_some())
                .then_some(())
        });
    }

    fn source(&self, token: &str) {
        let path = format!("/api/v1/namespaces/{}/secrets/registry", self.context.namespace);
        self.context.client().merge(&path, &json!({"stringData": {"token": token}}));
    }

    fn store(&self, password: &str) {
        let body = json!({"data": {"username": "reader", "password": password}});
        self.vault.ask_ok("POST", "/v1/secret/data/shop/warehouse", Some(&body));
    }
}

pub(super) fn copies_follow_a_secret_and_a_vault(context: &TestContext<'_>) {
    let synced = Synced::new(context);
    let (name, other) = (format!("registry-{}", context.namespace), format!("warehouse-{}", context.namespace));
    let secret = json!({"metadata": {"name": "registry"}, "stringData": {"token": "first"}});
    context.client().create(&format!("/api/v1/namespaces/{}/secrets", context.namespace), &secret);
    synced.make_team("a", &json!({}));
    let operator = context.start(&synced.launch);
    let source = json!({"secret": {"namespace": context.namespace, "name": "registry"}});
    let patterns = json!([format!("{}-team-*", context.namespace)]);
    context.create(
        &synced.kind,
        &name,
        json!({"source": source, "target": {"name": "registry"}, "namespaces": {"patterns": patterns}}),
    );
    synced.expect("a", "registry", "token", Some("Zmlyc3Q="));
    synced.make_team("b", &json!({}));
    synced.expect("b", "registry", "token", Some("Zmlyc3Q="));
    synced.source("second");
    synced.expect("b", "registry", "token", Some("c2Vjb25k"));
    context.client().merge(&synced.path("a", "registry"), &json!({"stringData": {"token": "first"}}));
    synced.expect("a", "registry", "token", Some("c2Vjb25k"));
    context.client().delete(&synced.path("b", "registry"));
    synced.expect("b", "registry", "token", Some("c2Vjb25k"));

    let operator = crash(context, &operator, &synced.launch, || {
        synced.source("third");
        synced.make_team("c", &json!({"warehouse": "reader"}));
        context.client().delete(&synced.path("a", "registry"));
    });
    for team in ["a", "b", "c"] {
        synced.expect(team, "registry", "token", Some("dGhpcmQ="));
    }
    follow_the_vault(&synced, &other, &operator);

    context.delete(&synced.kind, &name);
    context.gone(&synced.kind, &name);
    for team in ["a", "b", "c"] {
        synced.expect(team, "registry", "token", None);
    }
    let source = context.client().get(&format!("/api/v1/namespaces/{}/secrets/registry", context.namespace));
    assert_eq!(source.expect("the source stays")["data"]["token"], "dGhpcmQ=");
}

fn follow_the_vault(synced: &Synced<'_>, name: &str, operator: &Rc<Operator>) {
    let (context, kind) = (synced.context, &synced.kind);
    let spec = json!({
        "source": {"vault": {"path": "shop/warehouse", "refresh": "1s"}},
        "target": {"name": "warehouse", "type": "kubernetes.io/basic-auth"},
        "namespaces": {"patterns": [format!("{}-*", context.namespace)], "labels": {"warehouse": "reader"}},
    });
    context.create(kind, name, spec);
    has_reason(context, kind, name, "Ready", "NoData");
    synced.store("first");
    synced.expect("c", "warehouse", "password", Some("Zmlyc3Q="));
    synced.store("second");
    synced.expect("c", "warehouse", "password", Some("c2Vjb25k"));
    synced.expect("a", "warehouse", "password", None);
    // The tokens of all logins are revoked.
    synced.vault.ask_ok("POST", "/v1/sys/leases/revoke-force/auth/approle", None);
    synced.store("third");
    synced.expect("c", "warehouse", "password", Some("dGhpcmQ="));
    let logins = synced.vault.ask_ok("GET", "/v1/auth/approle/role/test/logins", None);
    assert_eq!(logins["logins"], 2, "one login, and one after the revocation");
    synced.vault.ask_ok("POST", "/v1/sys/seal", None);
    context.object(kind, name, "tells that the vault is sealed", |object| {
        object["status"]["conditions"][0]["message"] == "the vault is sealed"
    });
    synced.expect("c", "warehouse", "password", Some("dGhpcmQ="));
    synced.vault.ask_ok("POST", "/v1/sys/unseal", None);
    let object = has_reason(context, kind, name, "Ready", "Synced");
    assert_eq!((&object["status"]["version"], &object["status"]["copies"]), (&json!(3), &json!(1)));
    // The namespace loses its label, and gets it again.
    let namespace = format!("/api/v1/namespaces/{}", synced.team("c"));
    context.client().merge(&namespace, &json!({"metadata": {"labels": {"warehouse": null}}}));
    synced.expect("c", "warehouse", "password", None);
    context.client().merge(&namespace, &json!({"metadata": {"labels": {"warehouse": "reader"}}}));
    synced.expect("c", "warehouse", "password", Some("dGhpcmQ="));
    context.delete(kind, name);
    context.gone(kind, name);
    synced.expect("c", "warehouse", "password", None);
    let log = operator.log();
    for value in ["third", "dGhpcmQ=", "not-a-real", "hvs."] {
        assert!(!log.contains(value), "the log has {value}");
    }
}

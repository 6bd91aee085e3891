//! The stored form of a `coordination.k8s.io/v1` Lease of an election, with the fields of client-go.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::handling::leading::LeaseRecord;

/// Reads the fields of a Lease. Missing and malformed fields count as empty, as in client-go.
pub(crate) fn read(lease: &Value) -> LeaseRecord {
    let field = |key: &str| lease.get("spec").and_then(|spec| spec.get(key));
    let text = |key: &str| field(key).and_then(Value::as_str);
    let moment = |key: &str| text(key).and_then(|text| text.parse::<Timestamp>().ok());
    let seconds = field("leaseDurationSeconds").and_then(Value::as_u64).unwrap_or_default();
    LeaseRecord {
        holder: text("holderIdentity").unwrap_or_default().to_owned(),
        duration: Duration::from_secs(seconds),
        acquired_at: moment("acquireTime"),
        renewed_at: moment("renewTime"),
        transitions: field("leaseTransitions").and_then(Value::as_i64).unwrap_or_default(),
    }
}

/// Writes the fields of a Lease into an object; its other fields are kept.
pub(crate) fn write(record: &LeaseRecord, lease: &mut Value) {
    let moment = |moment: Option<Timestamp>| moment.map(|moment| moment.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string());
    let fields = json!({
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration.as_secs(),
        "acquireTime": moment(record.acquired_at),
        "renewTime": moment(record.renewed_at),
        "leaseTransitions": record.transitions,
    });
    if let Some(lease) = lease.as_object_mut() {
        let spec = lease.entry("spec").or_insert_with(|| Value::Object(Map::new()));
        if !spec.is_object() {
            *spec = Value::Object(Map::new());
        }
        if let (Some(spec), Value::Object(fields)) = (spec.as_object_mut(), fields) {
            spec.extend(fields);
        }
    }
}

/// Returns a new Lease.
pub(crate) fn create(namespace: &str, name: &str, record: &LeaseRecord) -> Value {
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
    });
    write(record, &mut lease);
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> LeaseRecord {
        LeaseRecord {
            holder: "demo-0_1a2b".to_owned(),
            duration: Duration::from_secs(15),
            acquired_at: Some("2020-01-01T00:00:00.5Z".parse().unwrap()),
            renewed_at: Some("2020-01-01T00:00:02Z".parse().unwrap()),
            transitions: 2,
        }
    }

    /// A Lease of `kube-controller-manager`, as kubectl shows it.
    fn of_client_go() -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "demo", "namespace": "ops"},
            "spec": {
                "acquireTime": "2020-01-01T00:00:00.500000Z", "holderIdentity": "demo-0_1a2b", "leaseDurationSeconds": 15,
                "leaseTransitions": 2, "renewTime": "2020-01-01T00:00:02.000000Z",
            },
        })
    }

    #[test]
    fn a_lease_has_the_fields_of_client_go() {
        assert_eq!(create("ops", "demo", &record()), of_client_go());
        assert_eq!(read(&of_client_go()), record());
    }

    #[test]
    fn other_fields_are_kept_and_malformed_ones_are_replaced() {
        let mut lease =
            json!({"metadata": {"name": "demo", "labels": {"a": "b"}}, "spec": {"strategy": "OldestEmulationVersion"}});
        assert_eq!(read(&lease), LeaseRecord::default());
        write(&record(), &mut lease);
        assert_eq!((read(&lease), &lease["metadata"]["labels"]["a"]), (record(), &json!("b")));
        assert_eq!(lease["spec"]["strategy"], "OldestEmulationVersion");
        let mut broken = json!({"spec": 5});
        write(&record(), &mut broken);
        assert_eq!(read(&broken), record());
    }
}

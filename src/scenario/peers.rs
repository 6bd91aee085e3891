//! Peers in scenarios and in `kopfd dev`: the definitions of peerings, and the records of other operators.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::apiserver::{ApiServer, admin_client, bootstrap};
use crate::cluster::apply::MERGE_PATCH;
use crate::engines::peering::GROUPS;
use crate::kit::duration;
use crate::manifest::Operator;
use crate::manifest::reader::{Item, Reader};
use crate::object::{namespace, yaml};
use crate::persistence::peering;

use super::model::{PeerChange, PeerRecord, Scenario, StepAction};
use super::read_context::ReadContext;

/// The definitions, as in `manifests/peering`.
const DEFINITIONS: &str = include_str!("../../manifests/peering/kopf.dev.yaml");

/// The identity of a peer without an `id`.
const DEFAULT_ID: &str = "other";

/// The lifetime of a record without one, as in kopf.
const DEFAULT_LIFETIME: i64 = 60;

/// The kinds by whether they are namespaced.
fn kind(is_namespaced: bool) -> (&'static str, &'static str) {
    if is_namespaced {
        ("KopfPeering", "kopfpeerings.kopf.dev")
    } else {
        ("ClusterKopfPeering", "clusterkopfpeerings.kopf.dev")
    }
}

/// Reads the step `peer`.
pub(super) fn read(context: &ReadContext<'_>, item: &Item<'_>) -> Option<PeerChange> {
    let reader = context.reader;
    let fields =
        reader.fields(item, "a peer", &["id", "peering", "namespace", "priority", "lifetime", "lastSeen", "gone"])?;
    let text = |key: &str| fields.get(key).and_then(|item| reader.owned(&item));
    let (id, is_gone) = (text("id").unwrap_or_else(|| DEFAULT_ID.to_owned()), fields.get("gone"));
    let mut record = PeerRecord { priority: 0, lifetime: DEFAULT_LIFETIME, age: Duration::ZERO };
    reader.set(&fields, "priority", &mut record.priority, |reader, item| reader.whole(item, i64::MIN));
    reader.set(&fields, "lifetime", &mut record.lifetime, |reader, item| {
        reader.duration(item).map(|lifetime| i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX))
    });
    reader.set(&fields, "lastSeen", &mut record.age, age);
    let is_gone = is_gone.as_ref().is_some_and(|item| reader.boolean(item).unwrap_or_default());
    if is_gone && let Some(item) = ["priority", "lifetime", "lastSeen"].iter().find_map(|key| fields.get(key)) {
        reader.key_error(&item, "a peer that is gone has no record", "leave it out, or `gone`");
        return None;
    }
    let record = (!is_gone).then_some(record);
    Some(PeerChange { id, peering: text("peering"), namespace: text("namespace"), record })
}

/// Reads how long ago a record was written: `10s ago`, or a duration.
fn age(reader: &Reader, item: &Item<'_>) -> Option<Duration> {
    let whole = reader.text(item)?.value.clone();
    let text = whole.strip_suffix(" ago").unwrap_or(&whole);
    let age = duration::parse(text).ok();
    if age.is_none() {
        reader.error_with(item, format!("`{whole}` is no time ago"), "write such as `lastSeen: 10s ago`");
    }
    age
}

/// Returns the summary of a step.
pub(super) fn title(change: &PeerChange) -> String {
    let PeerChange { id, peering, namespace, record } = change;
    let at = peering.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
    let of = namespace.as_ref().map(|namespace| format!(" of namespace {namespace}")).unwrap_or_default();
    match record {
        Some(PeerRecord { priority, lifetime, .. }) => {
            format!("peer {id}{at}{of}: priority {priority}, lifetime {lifetime}s")
        }
        None => format!("peer {id}{at}{of} is gone"),
    }
}

/// Writes or removes the record of a peer, as another operator would.
///
/// # Errors
/// If the server refuses it.
pub(super) async fn change(
    api: &ApiServer,
    operators: &[Operator],
    change: &PeerChange,
    now: Timestamp,
) -> Result<(), String> {
    let own = operators.first().map(|operator| operator.settings.peering.name.clone()).unwrap_or_default();
    let name = change.peering.clone().unwrap_or(own);
    let (kind, resource) = kind(change.namespace.is_some());
    let found =
        || admin_client::find(api, resource, &name, change.namespace.as_deref()).map_err(|error| error.to_string());
    let mut object = found()?;
    if object.value().is_none() {
        let created = peering_object(kind, &name, change.namespace.as_deref());
        bootstrap::apply(api, vec![created]).await.map_err(|refused| refused.to_string())?;
        object = found()?;
    }
    let record = change.record.as_ref().map(|PeerRecord { priority, lifetime, age }| {
        let age = SignedDuration::try_from(*age).unwrap_or(SignedDuration::MAX);
        peering::record(*priority, *lifetime, now.checked_sub(age).unwrap_or(Timestamp::MIN))
    });
    let patch = json!({"status": {change.id.as_str(): record}});
    let sent = admin_client::patch(api, &object, None, MERGE_PATCH, &patch).await;
    sent.map_err(|refused| format!("the peering {name}: {refused}"))
}

fn peering_object(kind: &str, name: &str, namespace: Option<&str>) -> Value {
    json!({"apiVersion": "kopf.dev/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}})
}

/// Returns the definitions of peerings, and the objects that mandatory peerings need: there would be nothing to see of
/// an operator that waits for them.
///
/// # Panics
/// If the definitions are no YAML, which a test rules out.
pub(crate) fn needed(operators: &[Operator], namespaces: &[namespace::Pattern]) -> Vec<Value> {
    let mut objects = yaml::parse(DEFINITIONS).expect("the definitions are YAML");
    for peering in operators
        .iter()
        .map(|operator| &operator.settings.peering)
        .filter(|peering| peering.mandatory && !peering.standalone)
    {
        let is_clusterwide = peering.clusterwide.unwrap_or_default() || namespaces.is_empty();
        let (kind, _) = kind(!is_clusterwide);
        let places =
            if is_clusterwide { vec![None] } else { namespace::exact(namespaces).into_iter().map(Some).collect() };
        objects.extend(places.into_iter().map(|place| peering_object(kind, &peering.name, place.as_deref())));
    }
    objects
}

/// Tells whether operators wait for a peering.
pub(crate) fn is_mandatory(operators: &[Operator]) -> bool {
    operators.iter().any(|operator| operator.settings.peering.mandatory && !operator.settings.peering.standalone)
}

/// Tells whether an object is a definition of peerings.
pub(crate) fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
        && object
            .pointer("/spec/names/plural")
            .and_then(Value::as_str)
            .is_some_and(|plural| plural.ends_with("kopfpeerings"))
        && object.pointer("/spec/group").and_then(Value::as_str).is_some_and(|group| GROUPS.contains(&group))
}

fn is_peering(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|kind| kind == "KopfPeering" || kind == "ClusterKopfPeering")
}

/// Returns the objects that a scenario needs, unless it applies definitions of peerings itself.
pub(super) fn of_scenario(scenario: &Scenario) -> Vec<Value> {
    let applied = scenario.applied_objects();
    let has_definitions = applied.iter().any(|object| is_definition(object));
    let has_peers = scenario.all_steps().any(|step| matches!(step.action, StepAction::Peer(_)))
        || applied.iter().any(|object| is_peering(object));
    if has_definitions || !(has_peers || is_mandatory(&scenario.operators)) {
        return Vec::new();
    }
    needed(&scenario.operators, &scenario.namespaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_of_manifests_are_those_of_both_kinds() {
        let definitions = needed(&[], &[]);
        assert_eq!(definitions.len(), 2);
        assert!(definitions.iter().all(is_definition));
        let scopes: Vec<&Value> = definitions.iter().map(|definition| &definition["spec"]["scope"]).collect();
        assert_eq!(scopes, ["Cluster", "Namespaced"]);
    }

    #[test]
    fn a_mandatory_peering_gets_its_object() {
        let mut operator = Operator::default();
        operator.settings.peering.mandatory = true;
        let objects = |operator: &Operator, patterns: &[&str]| {
            let patterns: Vec<_> = patterns.iter().map(|pattern| namespace::Pattern::of_globs(pattern)).collect();
            needed(std::slice::from_ref(operator), &patterns).split_off(2)
        };
        assert_eq!(objects(&operator, &[]), [peering_object("ClusterKopfPeering", "default", None)]);
        assert_eq!(objects(&operator, &["a", "b-*"]), [peering_object("KopfPeering", "default", Some("a"))]);
        operator.settings.peering.standalone = true;
        assert!(objects(&operator, &[]).is_empty() && !is_mandatory(&[operator]));
    }
}

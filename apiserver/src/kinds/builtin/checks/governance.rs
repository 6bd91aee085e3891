//! The checks of limit ranges, quotas and persistent volumes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field::{Field, FieldErrors};
use super::resources::{amount_of, number, resource_name};
use super::{storage, volumes};

/// Checks a limit range.
pub(super) fn limits(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    const KINDS: &[&str] = &["Container", "Pod", "PersistentVolumeClaim"];
    let mut kinds = BTreeSet::new();
    for limit in spec.at("limits").items() {
        let kind = limit.at("type");
        if kind.is_empty() {
            causes.push(kind.invalid("must be a standard limit type or fully qualified"));
        }
        if !KINDS.contains(&kind.text()) && !kind.text().contains('/') {
            causes.push(kind.invalid("must be a standard limit type or fully qualified"));
        }
        if !kinds.insert(kind.text()) {
            causes.push(kind.duplicate());
        }
        limit_amounts(&limit, causes);
    }
}

fn limit_amounts(limit: &Field<'_, '_>, causes: &mut FieldErrors) {
    let kind = limit.at("type").text();
    let (least, most) = (limit.at("min"), limit.at("max"));
    let (default, request) = (limit.at("default"), limit.at("defaultRequest"));
    if kind == "Pod" {
        for list in [&default, &request] {
            if !list.is_empty() {
                causes.push(list.forbidden("may not be specified when `type` is 'Pod'"));
            }
        }
    }
    if kind == "PersistentVolumeClaim" && least.value["storage"].is_null() && most.value["storage"].is_null() {
        causes.push(
            limit
                .at("limits")
                .required("either minimum or maximum storage value is required, but neither was provided"),
        );
    }
    let lists = [&least, &most, &default, &request];
    let names: BTreeSet<&str> =
        lists.iter().filter_map(|list| list.value.as_object()).flatten().map(|(name, _)| name.as_str()).collect();
    for name in names {
        let amount = |list: &Field<'_, '_>| number(&list.at(name));
        let (low, high, preset, asked) = (amount(&least), amount(&most), amount(&default), amount(&request));
        let mut must_not_exceed = |list: &Field<'_, '_>, value: Option<f64>, bound: Option<f64>| {
            if value.zip(bound).is_some_and(|(value, bound)| value > bound) {
                let place = format!("{}[{name}]", list.path());
                causes.push(Field::named(list.at(name).value, &place).invalid("contradicts another limit"));
            }
        };
        must_not_exceed(&least, low, high);
        must_not_exceed(&request, low, asked);
        must_not_exceed(&request, asked, high);
        must_not_exceed(&request, asked, preset);
        must_not_exceed(&default, low, preset);
        must_not_exceed(&default, preset, high);
    }
    let ratios = limit.at("maxLimitRequestRatio");
    for (name, ratio) in ratios.entries() {
        let amounts = (number(&most.at(name)), number(&least.at(name)));
        let largest = if let (Some(most), Some(least)) = amounts { Some(most / least) } else { None };
        let ratio_number = number(&ratio).unwrap_or_default();
        if ratio_number < 1.0 || largest.is_some_and(|largest| ratio_number > largest) {
            causes.push(ratio.invalid("ratio is less than 1 or greater than max/min"));
        }
    }
}

/// Checks a quota.
pub(super) fn quota(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    const SCOPES: &[&str] =
        &["BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating"];
    amounts(&spec.at("hard"), causes);
    let scopes = spec.at("scopes");
    let has = |name: &str| scopes.list().iter().any(|scope| scope == name);
    if scopes.list().iter().any(|scope| !SCOPES.iter().any(|known| scope == known)) {
        causes.push(scopes.invalid("unsupported scope"));
    }
    if (has("BestEffort") && has("NotBestEffort")) || (has("Terminating") && has("NotTerminating")) {
        causes.push(scopes.invalid("conflicting scopes"));
    }
}

fn amounts(list: &Field<'_, '_>, causes: &mut FieldErrors) {
    for (name, amount) in list.entries() {
        let is_right = resource_name(name, &amount, causes);
        if !is_right && !name.contains('/') {
            causes.push(amount.invalid("must be a standard resource for quota"));
        }
        amount_of(name, &amount, causes);
    }
}

/// Checks a persistent volume.
pub(super) fn volume(object: &Field<'_, '_>, causes: &mut FieldErrors) {
    let spec = object.at("spec");
    storage::access_modes(&spec.at("accessModes"), causes);
    let capacity = spec.at("capacity");
    capacity.must_be_filled(causes);
    let names: Vec<&String> = capacity.value.as_object().into_iter().flat_map(serde_json::Map::keys).collect();
    if !(names.len() == 1 && names[0] == "storage") {
        causes.push(capacity.not_supported(&["storage"]));
    }
    for (_, amount) in capacity.entries().filter(|(name, _)| *name == "storage") {
        if number(&amount).is_some_and(|amount| amount <= 0.0) {
            causes.push(amount.invalid("must be greater than zero"));
        }
    }
    volume_source(&spec, causes);
    spec.at("persistentVolumeReclaimPolicy").must_be_supported(&["Delete", "Recycle", "Retain"], causes);
    if spec.value["hostPath"]["path"] == "/" && spec.value["persistentVolumeReclaimPolicy"] == "Recycle" {
        causes.push(
            spec.at("persistentVolumeReclaimPolicy").forbidden("may not be 'recycle' for a hostPath mount of '/'"),
        );
    }
    if !spec.at("storageClassName").is_empty() {
        spec.at("storageClassName").must_be_a_subdomain(causes);
    }
    spec.at("volumeMode").may_be_one_of(&["Block", "Filesystem"], causes);
}

/// Fields of a volume's specification that are not sources.
const NOT_SOURCES: &[&str] = &[
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

fn volume_source(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    // The order of checks in the real server.
    const FIRST: &[&str] = &["hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs"];
    let members = spec.value.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let mut sources: Vec<&str> = members.filter(|name| !NOT_SOURCES.contains(name)).collect();
    sources.sort_by_key(|name| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    let Some(first) = sources.first() else {
        causes.push(spec.required("must specify a volume type"));
        return;
    };
    let source = spec.at(first);
    match *first {
        "hostPath" => volumes::host_path(&source, causes),
        "nfs" => volumes::nfs(&source, causes),
        "csi" => {
            volumes::csi_driver(&source.at("driver"), causes);
            source.at("volumeHandle").must_be_filled(causes);
        }
        "local" => drop(source.at("path").must_be_filled(causes)),
        _ => {}
    }
    causes.extend(sources[1..].iter().map(|other| spec.at(other).forbidden("may not specify more than 1 volume type")));
}

/// Checks the status of a quota.
pub(super) fn quota_status(status: &Field<'_, '_>, causes: &mut FieldErrors) {
    for list in ["hard", "used"] {
        amounts(&status.at(list), causes);
    }
}

/// The scopes of a quota are immutable, in any order.
pub(super) fn check_quota_change(now: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    let scopes = |quota: &Field<'_, '_>| -> BTreeSet<String> {
        quota.at("scopes").list().iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if scopes(now) != scopes(before) {
        causes.push(now.at("scopes").invalid("field is immutable"));
    }
}

/// The source of a volume is immutable.
pub(super) fn check_volume_change(now: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    let sources = |spec: &Field<'_, '_>| -> Vec<(String, Value)> {
        let members =
            spec.value.as_object().into_iter().flatten().filter(|(name, _)| !NOT_SOURCES.contains(&name.as_str()));
        members.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    if sources(now) != sources(before) {
        causes.push(
            now.at("persistentvolumesource").forbidden("spec.persistentvolumesource is immutable after creation"),
        );
    }
    // The real server omits `spec` in the path of this field.
    Field::named(now.at("volumeMode").value, "volumeMode").must_stay(&before.at("volumeMode"), causes);
}

//! The checks of persistent volume claims.

use serde_json::Value;

use super::field::{Field, FieldErrors};
use super::labels;
use super::resources::number;

const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Checks access modes.
pub(super) fn access_modes(modes: &Field<'_, '_>, causes: &mut FieldErrors) {
    if modes.is_empty() {
        causes.push(modes.required("at least 1 access mode is required"));
    }
    for mode in modes.list() {
        // The error is reported for the list, not for the mode in it.
        modes.with(mode).must_be_supported(MODES, causes);
    }
    let is_alone = |mode: &Value| mode == "ReadWriteOncePod";
    let is_known = |mode: &Value| MODES.iter().any(|known| mode == known);
    if modes.list().iter().any(is_alone) && modes.list().iter().any(|mode| is_known(mode) && !is_alone(mode)) {
        causes.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

/// Checks the specification of a claim.
pub(super) fn claim_spec(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    access_modes(&spec.at("accessModes"), causes);
    labels::selector(&spec.at("selector"), causes);
    let resources = spec.at("resources");
    let size = &resources.value["requests"]["storage"];
    let place = format!("{}[storage]", resources.path());
    let size = Field::named(size, &place);
    if !size.is_set() {
        causes.push(size.required(""));
    } else if number(&size).is_some_and(|size| size <= 0.0) {
        causes.push(size.invalid("must be greater than zero"));
    }
    for class in ["storageClassName", "volumeAttributesClassName"] {
        if !spec.at(class).is_empty() {
            spec.at(class).must_be_a_subdomain(causes);
        }
    }
    spec.at("volumeMode").may_be_one_of(&["Block", "Filesystem"], causes);
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    for origin in [&source, &reference] {
        if origin.is_set() {
            origin_of(origin, causes);
        }
    }
    let is_same = ["apiGroup", "kind", "name"].iter().all(|name| source.value[*name] == reference.value[*name]);
    if source.is_set() && reference.is_set() && (!is_same || !reference.at("namespace").is_empty()) {
        causes.push(spec.invalid("dataSource must match dataSourceRef"));
    }
}

fn origin_of(origin: &Field<'_, '_>, causes: &mut FieldErrors) {
    for name in ["name", "kind"] {
        origin.at(name).must_be_filled(causes);
    }
    if !origin.at("apiGroup").is_empty() {
        origin.at("apiGroup").must_be_a_subdomain(causes);
    } else if origin.at("kind").text() != "PersistentVolumeClaim" {
        causes.push(origin.invalid("must be 'PersistentVolumeClaim' when referencing the default apiGroup"));
    }
}

/// Checks the changes of a claim: only the requests of a bound claim may change.
pub(super) fn check_claim_change(now: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (spec, old) = (now.at("spec"), before.at("spec"));
    let is_bound = now.value["status"]["phase"] == "Bound";
    let mut kept = spec.value.clone();
    let mut free = |name: &str| match old.value.get(name) {
        Some(value) => kept[name] = value.clone(),
        None => drop(kept.as_object_mut().map(|kept| kept.remove(name))),
    };
    if old.at("volumeName").is_empty() {
        free("volumeName");
    }
    if !old.at("storageClassName").is_set() && spec.at("storageClassName").is_set() {
        free("storageClassName");
    }
    if is_bound {
        free("volumeAttributesClassName");
        if let Some(requests) = kept["resources"]["requests"].as_object_mut() {
            requests.insert("storage".to_owned(), old.value["resources"]["requests"]["storage"].clone());
        }
    }
    if kept != *old.value {
        causes.push(spec.forbidden(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    let size = |holder: &Value| number(&Field::root(&holder["storage"])).unwrap_or_default();
    let (asked, had) = (size(&spec.value["resources"]["requests"]), size(&old.value["resources"]["requests"]));
    if asked < had && asked <= size(&before.value["status"]["capacity"]) {
        let place = Field::named(&spec.value["resources"]["requests"]["storage"], "spec.resources.requests.storage");
        causes.push(place.forbidden("field can not be less than status.capacity"));
    }
    let mode = Field::named(&spec.value["volumeMode"], "volumeMode");
    mode.must_stay(&old.at("volumeMode"), causes);
}

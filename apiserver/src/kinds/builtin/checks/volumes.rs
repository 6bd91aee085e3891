//! The checks of volumes and volume mounts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::field::{Field, FieldErrors};
use super::resources::number;
use super::{references, storage};

/// The valid volumes of a pod, by name.
pub(super) struct Volumes<'a>(BTreeMap<&'a str, &'a Value>);

impl<'a> Volumes<'a> {
    /// Checks the volumes of a pod, and returns the valid ones.
    pub(super) fn check(list: &Field<'_, 'a>, causes: &mut FieldErrors) -> Self {
        let mut known = BTreeMap::new();
        for (index, value) in list.list().iter().enumerate() {
            let volume = list.item(index);
            let mut own = FieldErrors::new();
            source(&volume, &mut own);
            let name = volume.at("name");
            if name.must_be_filled(&mut own) {
                name.must_be_a_label(&mut own);
            }
            let text = value["name"].as_str().unwrap_or_default();
            if known.contains_key(text) {
                own.push(name.duplicate());
            }
            if own.is_empty() {
                known.insert(text, value);
            }
            causes.append(&mut own);
        }
        Self(known)
    }

    /// Adds implicit volumes: those of the claims of stateful sets.
    pub(super) fn with(mut self, names: impl Iterator<Item = &'a str>) -> Self {
        static CLAIM: std::sync::LazyLock<Value> =
            std::sync::LazyLock::new(|| serde_json::json!({"persistentVolumeClaim": {}}));
        self.0.extend(names.map(|name| (name, &*CLAIM)));
        self
    }

    /// Checks the volume mounts and volume devices of a container.
    pub(super) fn check_mounts(&self, container: &Field<'_, '_>, causes: &mut FieldErrors) {
        let (mounts, devices) = (container.at("volumeMounts"), container.at("volumeDevices"));
        let has = |list: &Field<'_, '_>, key: &str, value: &Value| {
            list.list().iter().any(|one| one[key] == *value && !value.is_null())
        };
        let mut paths = BTreeSet::new();
        for mount in mounts.items() {
            let (name, path) = (mount.at("name"), mount.at("mountPath"));
            name.must_be_filled(causes);
            if !self.0.contains_key(name.text()) {
                causes.push(name.not_found());
            }
            path.must_be_filled(causes);
            if !paths.insert(path.text()) {
                causes.push(path.invalid("must be unique"));
            }
            if has(&devices, "name", name.value) {
                causes.push(name.invalid("must not already exist in volumeDevices"));
            }
            if has(&devices, "devicePath", path.value) {
                causes.push(path.invalid("must not already exist as a path in volumeDevices"));
            }
            mount_options(&mounts, &mount, container, causes);
        }
        let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
        for device in devices.items() {
            let (name, path) = (device.at("name"), device.at("devicePath"));
            name.must_be_filled(causes);
            if !names.insert(name.text()) {
                causes.push(name.invalid("must be unique"));
            }
            match self.0.get(name.text()) {
                None => causes.push(name.not_found()),
                Some(volume) if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() => {
                    causes.push(name.invalid(
                        "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                    ));
                }
                Some(_) => {}
            }
            path.must_be_filled(causes);
            if !paths.insert(path.text()) {
                causes.push(path.invalid("must be unique"));
            }
            if path.text().split('/').any(|part| part == "..") {
                causes.push(path.invalid("can not contain backsteps ('..')"));
            }
            if has(&mounts, "name", name.value) {
                causes.push(name.invalid("must not already exist in volumeMounts"));
            }
            if has(&mounts, "mountPath", path.value) {
                causes.push(path.invalid("must not already exist as a path in volumeMounts"));
            }
        }
    }
}

/// The real server reports these errors for the list, not for the mount in it.
fn mount_options(mounts: &Field<'_, '_>, mount: &Field<'_, '_>, container: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (path, expression) = (mount.at("subPath"), mount.at("subPathExpr"));
    descending_path(&mounts.at("subPath"), &path, causes);
    if !path.is_empty() && !expression.is_empty() {
        causes.push(expression.invalid("subPathExpr and subPath are mutually exclusive"));
    }
    descending_path(&mounts.at("subPathExpr"), &expression, causes);
    let propagation = mount.at("mountPropagation");
    let (place, is_privileged) =
        (mounts.at("mountPropagation"), container.at("securityContext").at("privileged").is_true());
    place.with(propagation.value).may_be_one_of(&["Bidirectional", "HostToContainer", "None"], causes);
    if propagation.text() == "Bidirectional" && !is_privileged {
        causes.push(place.forbidden("Bidirectional mount propagation is available only to privileged containers"));
    }
    let place = mounts.at("recursiveReadOnly");
    match mount.at("recursiveReadOnly").text() {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.at("readOnly").is_true() {
                causes.push(place.forbidden("may only be specified when readOnly is true"));
            }
            if !matches!(propagation.text(), "" | "None") {
                causes.push(place.forbidden("may only be specified when mountPropagation is None or not specified"));
            }
        }
        _ => causes.push(place.not_supported(&["Disabled", "Enabled", "IfPossible"])),
    }
}

/// Checks that a path is relative without `..`. The error may be reported for another field.
pub(super) fn descending_path(place: &Field<'_, '_>, path: &Field<'_, '_>, causes: &mut FieldErrors) {
    if path.text().starts_with('/') {
        causes.push(place.with(path.value).invalid("must be a relative path"));
    }
    no_steps_back(&place.with(path.value), causes);
}

fn no_steps_back(path: &Field<'_, '_>, causes: &mut FieldErrors) {
    if path.text().split('/').any(|part| part == "..") {
        causes.push(path.invalid("must not contain '..'"));
    }
}

fn file_path(path: &Field<'_, '_>, causes: &mut FieldErrors) {
    path.must_be_filled(causes);
    descending_path(path, path, causes);
    if path.text().starts_with("..") && !path.text().starts_with("../") && path.text() != ".." {
        causes.push(path.invalid("must not start with '..'"));
    }
}

/// The names of sources, in the order of checks in the real server.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "persistentVolumeClaim",
    "image",
];

fn source(volume: &Field<'_, '_>, causes: &mut FieldErrors) {
    let mut given = SOURCES.iter().filter(|name| volume.at(name).is_set());
    let Some(first) = given.next() else {
        causes.push(volume.required("must specify a volume type"));
        return;
    };
    let source = volume.at(first);
    match *first {
        "emptyDir" if number(&source.at("sizeLimit")).is_some_and(|limit| limit < 0.0) => {
            causes.push(source.at("sizeLimit").forbidden("SizeLimit field must be a valid resource quantity"));
        }
        "hostPath" => host_path(&source, causes),
        "secret" => files(&source, "secretName", causes),
        "configMap" => files(&source, "name", causes),
        "persistentVolumeClaim" => drop(source.at("claimName").must_be_filled(causes)),
        "downwardAPI" => downward(&source, causes),
        "projected" => projected(&source, causes),
        "nfs" => nfs(&source, causes),
        "csi" => csi_driver(&source.at("driver"), causes),
        "ephemeral" => {
            let template = source.at("volumeClaimTemplate");
            if template.is_set() {
                storage::claim_spec(&template.at("spec"), causes);
            } else {
                causes.push(template.required(""));
            }
        }
        _ => {}
    }
    causes.extend(given.map(|other| volume.at(other).forbidden("may not specify more than 1 volume type")));
}

/// Checks an NFS share.
pub(super) fn nfs(source: &Field<'_, '_>, causes: &mut FieldErrors) {
    source.at("server").must_be_filled(causes);
    if source.at("path").must_be_filled(causes) && !source.at("path").text().starts_with('/') {
        causes.push(source.at("path").invalid("must be an absolute path"));
    }
}

/// Checks a host path.
pub(super) fn host_path(source: &Field<'_, '_>, causes: &mut FieldErrors) {
    const TYPES: &[&str] =
        &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if source.at("path").must_be_filled(causes) {
        no_steps_back(&source.at("path"), causes);
    }
    source.at("type").may_be_one_of(TYPES, causes);
}

/// Checks the name of a driver.
pub(super) fn csi_driver(driver: &Field<'_, '_>, causes: &mut FieldErrors) {
    if !driver.must_be_filled(causes) {
        return;
    }
    if driver.text().len() > 63 {
        causes.push(driver.too_long(63));
    }
    let lower = Value::from(driver.text().to_lowercase());
    driver.with(&lower).must_be_a_subdomain(causes);
}

fn mode(mode: &Field<'_, '_>, causes: &mut FieldErrors) {
    if !(0..=0o777).contains(&mode.number()) {
        causes.push(mode.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}

fn files(source: &Field<'_, '_>, name: &str, causes: &mut FieldErrors) {
    source.at(name).must_be_filled(causes);
    mode(&source.at("defaultMode"), causes);
    keys(source, causes);
}

fn keys(source: &Field<'_, '_>, causes: &mut FieldErrors) {
    for item in source.at("items").items() {
        item.at("key").must_be_filled(causes);
        file_path(&item.at("path"), causes);
        mode(&item.at("mode"), causes);
    }
}

fn downward(source: &Field<'_, '_>, causes: &mut FieldErrors) {
    mode(&source.at("defaultMode"), causes);
    downward_files(source, causes);
}

/// The real server reports the error for the source, not for the file in it.
fn downward_files(source: &Field<'_, '_>, causes: &mut FieldErrors) {
    const FIELDS: &[&str] =
        &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    for item in source.at("items").list() {
        let file = source.with(item);
        file_path(&file.at("path"), causes);
        match (file.at("fieldRef").is_set(), file.at("resourceFieldRef").is_set()) {
            (true, has_both) => {
                references::field_reference(&file.at("fieldRef"), FIELDS, causes);
                if has_both {
                    causes.push(file.invalid("fieldRef and resourceFieldRef can not be specified simultaneously"));
                }
            }
            (false, true) => references::resource_reference(&file.at("resourceFieldRef"), true, causes),
            (false, false) => causes.push(file.required("one of fieldRef and resourceFieldRef is required")),
        }
        mode(&file.at("mode"), causes);
    }
}

fn projected(source: &Field<'_, '_>, causes: &mut FieldErrors) {
    mode(&source.at("defaultMode"), causes);
    for part in source.at("sources").items() {
        let kinds =
            ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
        let mut given = kinds.iter().filter(|kind| part.at(kind).is_set());
        let Some(first) = given.next() else {
            causes.push(part.required(""));
            continue;
        };
        let projection = part.at(first);
        match *first {
            "secret" | "configMap" => {
                projection.at("name").must_be_filled(causes);
                keys(&projection, causes);
            }
            "downwardAPI" => downward_files(&projection, causes),
            "serviceAccountToken" => token(&projection, causes),
            _ => {}
        }
        causes.extend(given.map(|other| part.at(other).forbidden("may not specify more than 1 volume type")));
    }
}

fn token(token: &Field<'_, '_>, causes: &mut FieldErrors) {
    let seconds = token.at("expirationSeconds");
    if seconds.number() < 600 {
        causes.push(seconds.invalid("may not specify a duration less than 10 minutes"));
    }
    if seconds.number() > 1 << 32 {
        causes.push(seconds.invalid("may not specify a duration larger than 2^32 seconds"));
    }
    file_path(&token.at("path"), causes);
}

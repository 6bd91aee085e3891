//! Discovers the resources of the API server.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing::warn;

use crate::object::Resource;

use super::address;
use super::client::{Client, Request};
use super::error::Error;

/// Concurrent requests; a cluster has about fifty groups.
const PARALLEL: usize = 8;

/// Retries of the request for one group: a broken group must not delay the others for a minute.
const MAX_RETRIES: usize = 2;

/// The result of a scan.
#[derive(Debug, Default)]
pub struct Scan {
    /// The resources, in order.
    pub resources: Vec<Resource>,
    /// The groups that could not be read; their resources are missing, though they may exist.
    pub skipped: BTreeSet<String>,
}

/// Returns the resources of some groups, or of all. A group that cannot be read is skipped with a warning.
///
/// # Errors
/// If the list of groups cannot be read, or the server is unreachable.
pub async fn scan(client: &Client, groups: Option<&BTreeSet<String>>) -> Result<Scan, Error> {
    scan_with(groups, |path, max_retries| async move {
        let request = Request { max_retries, ..Request::get(path) };
        client.request(&request).await?.json()
    })
    .await
}

/// Returns the current resources of one group.
///
/// # Errors
/// As for [`scan`].
pub async fn rescan(client: &Client, group: &str) -> Result<Scan, Error> {
    scan(client, Some(&BTreeSet::from([group.to_owned()]))).await
}

/// A version of a group.
struct Target {
    group: String,
    version: String,
    is_preferred: bool,
}

/// Returns the resources as [`scan`] does, with a function that fetches the answer for a path, given its timeout.
///
/// # Errors
/// As for [`scan`].
pub async fn scan_with<F>(groups: Option<&BTreeSet<String>>, fetch: impl Fn(String, usize) -> F) -> Result<Scan, Error>
where
    F: Future<Output = Result<Value, Error>>,
{
    let mut targets = Vec::new();
    if groups.is_none_or(|groups| groups.contains("")) {
        let versions: Versions = parse(fetch("/api".to_owned(), usize::MAX).await?)?;
        let core =
            versions.versions.into_iter().map(|version| Target { group: String::new(), version, is_preferred: true });
        targets.extend(core);
    }
    if groups.is_none_or(|groups| groups.iter().any(|group| !group.is_empty())) {
        let all: Groups = parse(fetch("/apis".to_owned(), usize::MAX).await?)?;
        let wanted = all.groups.into_iter().filter(|group| groups.is_none_or(|groups| groups.contains(&group.name)));
        targets.extend(wanted.flat_map(Group::targets));
    }
    let found = stream::iter(targets).map(|target| {
        let answer = fetch(address::version(&target.group, &target.version), MAX_RETRIES);
        async move { (target, answer.await.and_then(parse::<Entries>)) }
    });
    let found: Vec<_> = found.buffered(PARALLEL).collect().await;
    gather(found)
}

fn gather(found: Vec<(Target, Result<Entries, Error>)>) -> Result<Scan, Error> {
    let mut scan = Scan::default();
    for (target, answer) in found {
        match answer {
            Ok(entries) => scan.resources.extend(entries.resources(&target)),
            Err(error) if error.is_not_found() => {}
            Err(error @ (Error::Connect(_) | Error::Connection(_) | Error::Login(_))) => return Err(error),
            Err(error) => {
                warn!(
                    group = target.group,
                    version = target.version,
                    error = error.chain(),
                    "An API group cannot be read and is skipped."
                );
                scan.skipped.insert(target.group);
            }
        }
    }
    scan.resources.retain(|resource| !scan.skipped.contains(&resource.group));
    scan.resources.sort();
    Ok(scan)
}

fn parse<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|error| Error::Payload(error.into()))
}

#[derive(Deserialize)]
struct Versions {
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

impl Group {
    fn targets(self) -> impl Iterator<Item = Target> {
        let preferred = self.preferred_version.map(|preferred| preferred.version);
        self.versions.into_iter().map(move |GroupVersion { version }| {
            let is_preferred = preferred.as_ref() == Some(&version);
            Target { group: self.name.clone(), version, is_preferred }
        })
    }
}

#[derive(Deserialize)]
struct Entries {
    resources: Option<Vec<Entry>>,
}

/// A resource (`pods`) or a subresource (`pods/status`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    kind: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    verbs: Option<Vec<String>>,
    short_names: Option<Vec<String>>,
    categories: Option<Vec<String>>,
}

impl Entries {
    fn resources(self, target: &Target) -> impl Iterator<Item = Resource> {
        let (parts, whole): (Vec<Entry>, Vec<Entry>) =
            self.resources.unwrap_or_default().into_iter().partition(|entry| entry.name.contains('/'));
        let mut subresources: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (plural, subresource) in parts.iter().filter_map(|entry| entry.name.split_once('/')) {
            subresources.entry(plural.to_owned()).or_default().insert(subresource.to_owned());
        }
        whole.into_iter().map(move |entry| Resource {
            group: target.group.clone(),
            version: target.version.clone(),
            preferred: target.is_preferred,
            subresources: subresources.remove(&entry.name).into_iter().flatten().collect(),
            singular: if entry.singular_name.is_empty() { entry.kind.to_lowercase() } else { entry.singular_name },
            plural: entry.name,
            kind: entry.kind,
            namespaced: entry.namespaced,
            verbs: sorted(entry.verbs),
            shortcuts: sorted(entry.short_names),
            categories: sorted(entry.categories),
        })
    }
}

fn sorted(names: Option<Vec<String>>) -> Vec<String> {
    names.into_iter().flatten().collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use parking_lot::Mutex;
    use serde_json::json;

    const VECTORS: &str = include_str!("../../tests/conformance/vectors/resource-selectors.json");

    async fn scanned(api: &Value, groups: Option<&BTreeSet<String>>) -> (Vec<String>, Result<Scan, Error>) {
        let requested = Mutex::new(Vec::new());
        let scan = scan_with(groups, |path, _| {
            requested.lock().push(path.clone());
            std::future::ready(match api.get(&path) {
                None => Err(Error::of_answer(404, None, b"")),
                Some(Value::Number(status)) => Err(Error::of_answer(status.as_u64().unwrap() as u16, None, b"")),
                Some(answer) => Ok(answer.clone()),
            })
        })
        .await;
        let mut requested = requested.into_inner();
        requested.sort();
        (requested, scan)
    }

    fn to_value(resource: &Resource) -> Value {
        json!({
            "group": resource.group, "version": resource.version, "plural": resource.plural, "kind": resource.kind,
            "singular": resource.singular, "shortcuts": resource.shortcuts, "categories": resource.categories,
            "subresources": resource.subresources, "namespaced": resource.namespaced, "preferred": resource.preferred, "verbs": resource.verbs,
        })
    }

    fn vector_api() -> Value {
        let cases: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
        cases.into_iter().find(|case| case["input"]["op"] == "scan").unwrap()
    }

    #[tokio::test]
    async fn the_golden_vector_passes() {
        let case = vector_api();
        let (requested, scan) = scanned(&case["input"]["api"], None).await;
        assert_eq!(json!(requested), case["expected"]["requested_urls"]);
        assert_eq!(
            json!(scan.unwrap().resources.iter().map(to_value).collect::<Vec<_>>()),
            case["expected"]["resources"]
        );
    }

    #[tokio::test]
    async fn only_the_selected_groups_are_discovered() {
        let api = vector_api()["input"]["api"].take();
        let groups = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>());
        assert_eq!(scanned(&api, groups(&[""]).as_ref()).await.0, ["/api", "/api/v1"]);
        assert_eq!(scanned(&api, groups(&["apps"]).as_ref()).await.0, ["/apis", "/apis/apps/v1"]);
    }

    #[tokio::test]
    async fn a_broken_group_is_skipped_and_named() {
        let mut api = vector_api()["input"]["api"].take();
        api["/apis/kopf.dev/v1"] = json!(503);
        let scan = scanned(&api, None).await.1.unwrap();
        assert_eq!(scan.skipped, BTreeSet::from(["kopf.dev".to_owned()]));
        assert_eq!(scan.resources.len(), 2);
        api["/apis"] = json!(503);
        assert_eq!(scanned(&api, None).await.1.unwrap_err().status(), Some(503));
    }
}

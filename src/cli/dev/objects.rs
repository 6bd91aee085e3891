//! The objects that operators are given: those of files, applied at the beginning, and again when the files have changed.
//!
//! What vanishes from the files stays: whoever wants it to go deletes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value, json};
use tracing::{error, info};

use crate::apiserver::{Api, admin_client, bootstrap};
use crate::cli::apiserver;

/// The objects of files.
pub struct Given {
    api: Api,
    /// What was accepted, by what it is.
    applied: BTreeMap<[String; 4], Value>,
}

impl Given {
    /// Applies the objects of files and directories for the first time.
    ///
    /// # Errors
    /// If a file cannot be read, or an object is not accepted.
    pub async fn begin(api: Api, paths: Vec<PathBuf>) -> Result<Self, String> {
        let (objects, problems) = read(&paths);
        if let Some(problem) = problems.into_iter().next() {
            return Err(problem);
        }
        let mut given = Self { api, applied: BTreeMap::new() };
        match given.apply(objects, |_, _| {}).await.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(given),
        }
    }

    /// Applies what is new or has changed. What cannot be read or is not accepted is told, and the rest goes on.
    pub async fn renew(&mut self, paths: Vec<PathBuf>) {
        let (objects, mut problems) = read(&paths);
        let told = |place: &[String; 4], is_new: bool| {
            let what = if is_new { "is new" } else { "has changed" };
            info!(target: "kopfd", "The {} {what} in the files. It is applied.", shown(place));
        };
        problems.extend(self.apply(objects, told).await);
        for problem in problems {
            error!(target: "kopfd", "{problem}");
        }
    }

    async fn apply(&mut self, objects: Vec<Value>, told: impl Fn(&[String; 4], bool)) -> Vec<String> {
        let changed: Vec<Value> = objects.into_iter().filter(|object| self.applied.get(&place(object)) != Some(object)).collect();
        let changed = [self.missing_namespaces(&changed), changed].concat();
        let mut problems = Vec::new();
        bootstrap::apply_each(&self.api, changed, |object, accepted| match accepted {
            Ok(()) => {
                let place = place(&object);
                told(&place, !self.applied.contains_key(&place));
                self.applied.insert(place, object);
            }
            Err(refused) => problems.push(format!("{refused}")),
        })
        .await;
        problems
    }

    /// Returns the namespaces of objects that neither exist nor are among the objects.
    fn missing_namespaces(&self, objects: &[Value]) -> Vec<Value> {
        let namespaces = objects.iter().filter_map(|object| object.pointer("/metadata/namespace")?.as_str());
        let is_given = |name: &str| objects.iter().any(|object| place(object) == place(&namespace(name)));
        let is_there = |name: &str| admin_client::find(&self.api, "namespaces", name, None).is_ok_and(|meant| meant.stored.is_some());
        let missing: BTreeSet<&str> = namespaces.filter(|name| !name.is_empty() && !is_given(name) && !is_there(name)).collect();
        for name in &missing {
            info!(target: "kopfd", "The namespace {name} does not exist. It is created.");
        }
        missing.into_iter().map(namespace).collect()
    }
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Returns the objects of files without manifests and scenarios, which are for kopfd and not for the server, and what cannot be read.
fn read(paths: &[PathBuf]) -> (Vec<Value>, Vec<String>) {
    let (objects, problems) = apiserver::read(paths);
    let objects = objects.into_iter().flat_map(bootstrap::items).filter(|object| !is_of_kopfd(object));
    (objects.collect(), problems)
}

/// Tells whether a document is a manifest or a scenario.
pub fn is_of_kopfd(document: &Value) -> bool {
    document["apiVersion"].as_str().is_some_and(|version| version.starts_with("kopfd.dev/"))
        && matches!(document["kind"].as_str(), Some("Operator" | "Scenario"))
}

/// Returns what tells an object from others: version, kind, namespace, name.
fn place(object: &Value) -> [String; 4] {
    ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"]
        .map(|pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned())
}

fn shown([_, kind, namespace, name]: &[String; 4]) -> String {
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

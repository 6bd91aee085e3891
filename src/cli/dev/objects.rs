//! The objects of files: applied at the start, and again when the files change.
//!
//! Objects that vanish from the files are not deleted on the server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value, json};
use tracing::{error, info};

use crate::apiserver::{ApiServer, admin_client, bootstrap};
use crate::cli::apiserver;

/// The objects of files.
pub(super) struct AppliedObjects {
    api: ApiServer,
    /// Accepted objects by apiVersion, kind, namespace and name.
    applied: BTreeMap<[String; 4], Value>,
}

/// The result of applying one object, with its apiVersion, kind, namespace and name.
enum Applied<'a> {
    New(&'a [String; 4]),
    Changed(&'a [String; 4]),
    Refused(String),
}

impl AppliedObjects {
    /// Applies the objects of files and directories for the first time.
    ///
    /// # Errors
    /// If a file cannot be read, or an object is refused.
    pub(super) async fn apply_initial(api: ApiServer, paths: Vec<PathBuf>) -> Result<Self, String> {
        let (objects, problems) = read(&paths);
        if let Some(problem) = problems.into_iter().next() {
            return Err(problem);
        }
        let mut given = Self { api, applied: BTreeMap::new() };
        let mut problem = None;
        let note = |applied: Applied<'_>| {
            if let Applied::Refused(refused) = applied {
                problem.get_or_insert(refused);
            }
        };
        given.apply(objects, note).await;
        problem.map_or(Ok(given), Err)
    }

    /// Applies objects that no file has.
    ///
    /// # Errors
    /// If one is refused.
    pub(super) async fn apply_further(&self, objects: Vec<Value>) -> Result<(), String> {
        let objects = [self.missing_namespaces(&objects), objects].concat();
        bootstrap::apply(&self.api, objects).await.map(drop).map_err(|refused| refused.to_string())
    }

    /// Applies new and changed objects. Errors are logged when they occur, and the other objects are applied.
    pub(super) async fn apply_changes(&mut self, paths: Vec<PathBuf>) {
        let (objects, problems) = read(&paths);
        for problem in problems {
            error!(target: "kopfd", "{problem}");
        }
        let log = |applied: Applied<'_>| match applied {
            Applied::New(key) => info!(target: "kopfd", "The {} is new in the files. It is applied.", describe(key)),
            Applied::Changed(key) => {
                info!(target: "kopfd", "The {} has changed in the files. It is applied.", describe(key));
            }
            Applied::Refused(problem) => error!(target: "kopfd", "{problem}"),
        };
        self.apply(objects, log).await;
    }

    async fn apply(&mut self, objects: Vec<Value>, mut note: impl FnMut(Applied<'_>)) {
        let changed: Vec<Value> =
            objects.into_iter().filter(|object| self.applied.get(&key(object)) != Some(object)).collect();
        let changed = [self.missing_namespaces(&changed), changed].concat();
        bootstrap::apply_each(&self.api, changed, |object, accepted| match accepted {
            Ok(()) => {
                let key = key(&object);
                note(if self.applied.contains_key(&key) { Applied::Changed(&key) } else { Applied::New(&key) });
                self.applied.insert(key, object);
            }
            Err(refused) => note(Applied::Refused(refused.to_string())),
        })
        .await;
    }

    /// Returns the namespaces that objects need, and that neither exist nor are among the objects.
    fn missing_namespaces(&self, objects: &[Value]) -> Vec<Value> {
        let namespaces = objects.iter().filter_map(|object| object.pointer("/metadata/namespace")?.as_str());
        let is_given = |name: &str| objects.iter().any(|object| key(object) == key(&namespace(name)));
        let is_there = |name: &str| {
            admin_client::find(&self.api, "namespaces", name, None).is_ok_and(|object| object.stored.is_some())
        };
        let missing: BTreeSet<&str> =
            namespaces.filter(|name| !name.is_empty() && !is_given(name) && !is_there(name)).collect();
        for name in &missing {
            info!(target: "kopfd", "The namespace {name} does not exist. It is created.");
        }
        missing.into_iter().map(namespace).collect()
    }
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Returns the objects of files without manifests and scenarios, and the errors of files.
fn read(paths: &[PathBuf]) -> (Vec<Value>, Vec<String>) {
    let (objects, problems) = apiserver::read(paths);
    let objects = objects.into_iter().flat_map(bootstrap::items).filter(|object| !is_kopfd_document(object));
    (objects.collect(), problems)
}

/// Tells whether a document is a manifest or a scenario.
pub(super) fn is_kopfd_document(document: &Value) -> bool {
    document["apiVersion"].as_str().is_some_and(|version| version.starts_with("kopfd.dev/"))
        && matches!(document["kind"].as_str(), Some("Operator" | "Scenario"))
}

/// Returns apiVersion, kind, namespace and name.
fn key(object: &Value) -> [String; 4] {
    ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"]
        .map(|pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned())
}

fn describe([_, kind, namespace, name]: &[String; 4]) -> String {
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

//! Applies the definitions of kinds to the cluster, unless they remove parts of the existing ones.

use serde_json::{Value, json};
use tracing::info;

use crate::cluster::object_client::{ObjectAddress, ObjectClient};
use crate::cluster::{self, Client};
use crate::handling::definitions::narrowings;
use crate::object::Resource;

/// The field manager of definitions, the same for all operators: it owns the fields of a definition as a whole.
const MANAGER: &str = "kopfd";

/// Attempts to apply a definition that others change meanwhile.
const ATTEMPTS: usize = 5;

/// The reason why definitions are not applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DefinitionsError {
    /// A definition removes parts of the one in the cluster.
    #[error("the definition of {name} takes away what objects or clients may use: {}", losses.join("; "))]
    Narrower {
        /// The name of the definition.
        name: String,
        /// The versions, fields or values that the new definition takes away.
        losses: Vec<String>,
    },
    /// A request has failed.
    #[error("cannot {verb} the definition of {name}")]
    Request {
        /// The verb.
        verb: &'static str,
        /// The name of the definition.
        name: String,
        /// The cause.
        #[source]
        source: cluster::Error,
    },
    /// Others change the definition all the time.
    #[error("the definition of {0} is changed by others all the time")]
    Contended(String),
}

/// Applies definitions. Without force, nothing is applied if one of them removes parts of an existing one.
///
/// # Errors
/// The first problem.
pub(crate) async fn apply(client: &Client, definitions: &[Value], is_forced: bool) -> Result<(), DefinitionsError> {
    let applier = Applier { objects: ObjectClient::new(client.clone(), MANAGER), resource: resource(), is_forced };
    for definition in definitions {
        applier.checked(definition).await?;
    }
    for definition in definitions {
        applier.apply(definition).await?;
    }
    Ok(())
}

fn resource() -> Resource {
    Resource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        ..Resource::default()
    }
}

struct Applier {
    objects: ObjectClient,
    resource: Resource,
    is_forced: bool,
}

impl Applier {
    /// Returns the definition in the cluster, which the new one does not narrow.
    async fn checked(&self, definition: &Value) -> Result<Option<Value>, DefinitionsError> {
        let name = name(definition);
        let place = ObjectAddress::of(&self.resource, definition);
        let found = self.objects.get(place).await.map_err(|source| DefinitionsError::Request {
            verb: "get",
            name: name.clone(),
            source,
        })?;
        let losses = found.as_ref().map(|found| narrowings(found, definition)).unwrap_or_default();
        if losses.is_empty() || self.is_forced { Ok(found) } else { Err(DefinitionsError::Narrower { name, losses }) }
    }

    async fn apply(&self, definition: &Value) -> Result<(), DefinitionsError> {
        let name = name(definition);
        for _ in 0..ATTEMPTS {
            let found = self.checked(definition).await?;
            let mut wanted = definition.clone();
            // Only the version that was compared is replaced.
            if let Some(version) = found.as_ref().and_then(|found| found.pointer("/metadata/resourceVersion")) {
                wanted["metadata"]["resourceVersion"] = version.clone();
            }
            match self.objects.apply(&self.resource, &wanted, true).await {
                Ok(applied) => {
                    let is_same = found.is_some_and(|found| {
                        found.pointer("/metadata/resourceVersion") == applied.pointer("/metadata/resourceVersion")
                    });
                    let what = if is_same { "is as declared" } else { "was applied" };
                    info!(target: "kopfd", "The definition of {name} {what}.");
                    return Ok(());
                }
                Err(error) if error.status() == Some(409) => {}
                Err(source) => return Err(DefinitionsError::Request { verb: "apply", name, source }),
            }
        }
        Err(DefinitionsError::Contended(name))
    }
}

fn name(definition: &Value) -> String {
    definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the definitions in the texts of files; other documents are left out.
pub(crate) fn of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
    let mut definitions: Vec<Value> = Vec::new();
    for document in texts.into_iter().flat_map(|text| crate::object::yaml::parse(text).unwrap_or_default()) {
        let is_definition = document["kind"] == json!("CustomResourceDefinition");
        // Operators may share a file.
        if is_definition && !definitions.contains(&document) {
            definitions.push(document);
        }
    }
    definitions
}

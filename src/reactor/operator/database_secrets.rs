//! The Secrets with the passwords of databases, in the namespace of the operator.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::cluster::Client;
use crate::cluster::object_client::{ObjectAddress, ObjectClient};
use crate::object::Resource;
use crate::outside::Secrets;
use crate::script::outside::sql::SecretKey;

/// Reads Secrets with the credentials of the operator.
pub(super) struct DatabaseSecrets {
    client: Client,
    operator: String,
}

impl DatabaseSecrets {
    /// Returns the Secrets of an operator.
    pub(super) fn new(client: Client, operator: &str) -> Self {
        Self { client, operator: operator.to_owned() }
    }
}

impl Secrets for DatabaseSecrets {
    fn read(&self, key: &SecretKey) -> BoxFuture<'static, Result<String, String>> {
        let objects = ObjectClient::new(self.client.clone(), &self.operator);
        let (namespace, key) = (self.client.default_namespace(), key.clone());
        async move {
            let (version, plural, kind) = ("v1".to_owned(), "secrets".to_owned(), "Secret".to_owned());
            let resource = Resource { version, plural, kind, namespaced: true, ..Resource::default() };
            let place = ObjectAddress { resource: &resource, namespace: Some(&namespace), name: &key.name };
            let found = objects.get(place).await.map_err(|error| error.to_string())?;
            let found = found.ok_or_else(|| format!("there is none in the namespace {namespace}"))?;
            let encoded = found["data"][&key.key].as_str().ok_or_else(|| format!("it has no key {}", key.key))?;
            let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let decoded = decoded.ok_or_else(|| format!("the key {} is no text", key.key))?;
            // Files and editors like to end with one.
            Ok(decoded.trim_end_matches('\n').to_owned())
        }
        .boxed()
    }
}

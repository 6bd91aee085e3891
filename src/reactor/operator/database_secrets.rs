//! The Secrets with the passwords of databases, in the namespace of the operator.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::cluster::Client;
use crate::cluster::secret_values::SecretValues;
use crate::kit::errors::chain;
use crate::object::SecretKey;
use crate::script::outside::sql::Secrets;

/// Reads Secrets with the credentials of the operator.
pub(super) struct DatabaseSecrets(Arc<SecretValues>);

impl DatabaseSecrets {
    /// Returns the Secrets of an operator.
    pub(super) fn new(client: Client, operator: &str) -> Self {
        Self(Arc::new(SecretValues::new(client, operator)))
    }
}

impl Secrets for DatabaseSecrets {
    fn read(&self, key: &SecretKey) -> BoxFuture<'static, Result<String, String>> {
        let (values, SecretKey { name, namespace, key }) = (Arc::clone(&self.0), key.clone());
        async move {
            let value = values.read(namespace.as_deref(), &name, &key).await.map_err(|error| chain(&error))?;
            String::from_utf8(value).map_err(|_| format!("`{key}` of the Secret {name} is no text"))
        }
        .boxed()
    }
}

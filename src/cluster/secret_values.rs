//! Values of Secrets that the operator itself needs.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::client::Client;
use super::error::Error;
use super::object_client::{ObjectAddress, ObjectClient};
use crate::object::Resource;

/// Time limit of a request for a Secret.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the values of Secrets.
pub(crate) struct SecretValues {
    client: Client,
    objects: ObjectClient,
    resource: Resource,
}

impl SecretValues {
    /// Returns the Secrets that an operator can read.
    pub(crate) fn new(client: Client, operator: &str) -> Self {
        let objects = ObjectClient::new(client.clone(), operator);
        let (version, plural, kind) = ("v1".to_owned(), "secrets".to_owned(), "Secret".to_owned());
        let resource = Resource { version, plural, kind, namespaced: true, ..Resource::default() };
        Self { client, objects, resource }
    }

    /// Returns a value, without a line break at its end. Without a namespace, the Secret is in that of the operator.
    ///
    /// # Errors
    /// If it cannot be read, or there is none.
    pub(crate) async fn read(&self, namespace: Option<&str>, secret: &str, key: &str) -> Result<Vec<u8>, SecretError> {
        let namespace = namespace.map_or_else(|| self.client.default_namespace(), str::to_owned);
        let name = format!("{namespace}/{secret}");
        let address = ObjectAddress { resource: &self.resource, namespace: Some(&namespace), name: secret };
        let read = tokio::time::timeout(TIMEOUT, self.objects.get(address)).await;
        let Ok(read) = read else { return Err(SecretError::Timeout(name)) };
        let found = read.map_err(|source| SecretError::Read(name.clone(), source))?;
        let found = found.ok_or_else(|| SecretError::Missing(name.clone()))?;
        value_of(&found, &name, key)
    }
}

/// The reason why a value is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    /// It cannot be read.
    #[error("the Secret {0} cannot be read")]
    Read(String, #[source] Error),
    /// The API server does not answer.
    #[error("the Secret {0} cannot be read: the API server does not answer in time")]
    Timeout(String),
    /// There is no such Secret.
    #[error("there is no Secret {0}")]
    Missing(String),
    /// It has no such key.
    #[error("the Secret {name} has no `{key}`")]
    NoKey {
        /// The Secret.
        name: String,
        /// The key.
        key: String,
    },
    /// The value is empty: everybody could make valid credentials.
    #[error("`{key}` of the Secret {name} is empty")]
    Empty {
        /// The Secret.
        name: String,
        /// The key.
        key: String,
    },
}

/// Returns a value of a Secret, without a line break at its end: files and editors add one.
fn value_of(secret: &Value, name: &str, key: &str) -> Result<Vec<u8>, SecretError> {
    let (name, owned) = (name.to_owned(), key.to_owned());
    let encoded = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
    let value = encoded.and_then(|text| STANDARD.decode(text).ok());
    let Some(mut value) = value else { return Err(SecretError::NoKey { name, key: owned }) };
    for end in [b'\n', b'\r'] {
        if value.last() == Some(&end) {
            value.pop();
        }
    }
    if value.is_empty() { Err(SecretError::Empty { name, key: owned }) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_has_no_line_break_at_its_end_and_is_not_empty() {
        let value = |text: &str| {
            value_of(&json!({"data": {"token": STANDARD.encode(text)}}), "ops/ci", "token").map_err(|e| e.to_string())
        };
        assert_eq!(value("s3cret").unwrap(), b"s3cret");
        assert_eq!(value("s3cret\n").unwrap(), b"s3cret");
        assert_eq!(value("a\nb\r\n").unwrap(), b"a\nb");
        for empty in ["", "\n", "\r\n"] {
            assert_eq!(value(empty).unwrap_err(), "`token` of the Secret ops/ci is empty");
        }
        assert_eq!(
            value_of(&json!({}), "ops/ci", "token").unwrap_err().to_string(),
            "the Secret ops/ci has no `token`"
        );
    }
}

//! The Secrets by which requests are verified. They are kept for a short time, and read again when a verification fails, so that a replaced
//! Secret counts at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::object_client::{ObjectAddress, ObjectClient};
use crate::cluster::{self, Client};
use crate::handling::hook::auth::SecretKey;
use crate::kit::errors::chain;
use crate::object::Resource;

/// How long a Secret is used without reading it again.
const LIFETIME: Duration = Duration::from_mins(1);

/// The minimum age of a Secret that is read again after a failed verification: senders of wrong credentials cause no more requests.
const MIN_AGE: Duration = Duration::from_secs(5);

/// Time limit of a request for a Secret.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why a value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(Arc<str>);

/// The value of an entry, without a line break at its end.
pub type SecretValue = Arc<[u8]>;

#[derive(Clone)]
struct Known {
    value: Result<SecretValue, Unreadable>,
    read_at: Instant,
}

/// The Secrets of one operator.
pub struct Secrets {
    client: Client,
    objects: ObjectClient,
    resource: Resource,
    /// The entries that hooks have asked for.
    known: Mutex<BTreeMap<SecretKey, Known>>,
}

impl Secrets {
    /// Returns the Secrets that an operator can read.
    pub fn new(client: Client, operator: &str) -> Self {
        let objects = ObjectClient::new(client.clone(), operator);
        let (version, plural, kind) = ("v1".to_owned(), "secrets".to_owned(), "Secret".to_owned());
        let resource = Resource { version, plural, kind, namespaced: true, ..Resource::default() };
        Self { client, objects, resource, known: Mutex::default() }
    }

    /// Returns the value of an entry.
    ///
    /// # Errors
    /// If it cannot be read, or there is none.
    pub async fn get(&self, key: &SecretKey) -> Result<SecretValue, Unreadable> {
        let known = self.known.lock().get(key).cloned();
        let is_young = |known: &Known| known.read_at.elapsed() < if known.value.is_ok() { LIFETIME } else { MIN_AGE };
        match known.filter(is_young) {
            Some(known) => known.value,
            None => self.read_again(key).await,
        }
    }

    /// Returns the value of an entry that has changed; `None` if it has not.
    ///
    /// # Errors
    /// If it cannot be read, or there is none.
    pub async fn changed(&self, key: &SecretKey, before: &SecretValue) -> Result<Option<SecretValue>, Unreadable> {
        let young = {
            let mut all = self.known.lock();
            let young = all.get(key).filter(|known| known.read_at.elapsed() < MIN_AGE).cloned();
            // Others that fail meanwhile do not read it, too.
            if let Some(known) = all.get_mut(key).filter(|_| young.is_none()) {
                known.read_at = Instant::now();
            }
            young
        };
        let newest = match young {
            Some(known) => known.value?,
            None => self.read_again(key).await?,
        };
        Ok(Some(newest).filter(|newest| newest != before))
    }

    async fn read_again(&self, key: &SecretKey) -> Result<SecretValue, Unreadable> {
        let value = self.read(key).await.map(Arc::from).map_err(|error| Unreadable(chain(&error).into()));
        self.known.lock().insert(key.clone(), Known { value: value.clone(), read_at: Instant::now() });
        value
    }

    async fn read(&self, key: &SecretKey) -> Result<Vec<u8>, SecretError> {
        let namespace = key.namespace.clone().unwrap_or_else(|| self.client.default_namespace());
        let name = format!("{namespace}/{}", key.name);
        let address = ObjectAddress { resource: &self.resource, namespace: Some(&namespace), name: &key.name };
        let read = tokio::time::timeout(TIMEOUT, self.objects.get(address)).await;
        let Ok(read) = read else { return Err(SecretError::Timeout(name)) };
        let secret = read.map_err(|source| SecretError::Read(name.clone(), source))?;
        let secret = secret.ok_or_else(|| SecretError::Missing(name.clone()))?;
        value_of(&secret, &name, &key.key)
    }
}

/// Why a value is not there.
#[derive(Debug, thiserror::Error)]
enum SecretError {
    /// It cannot be read.
    #[error("the Secret {0} cannot be read")]
    Read(String, #[source] cluster::Error),
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
        let value = |text: &str| value_of(&json!({"data": {"token": STANDARD.encode(text)}}), "ops/ci", "token").map_err(|e| e.to_string());
        assert_eq!(value("s3cret").unwrap(), b"s3cret");
        assert_eq!(value("s3cret\n").unwrap(), b"s3cret");
        assert_eq!(value("a\nb\r\n").unwrap(), b"a\nb");
        for empty in ["", "\n", "\r\n"] {
            assert_eq!(value(empty).unwrap_err(), "`token` of the Secret ops/ci is empty");
        }
        assert_eq!(value_of(&json!({}), "ops/ci", "token").unwrap_err().to_string(), "the Secret ops/ci has no `token`");
    }
}

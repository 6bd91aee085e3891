//! The Secrets by which requests are verified. They are kept for a short time, and read again when a verification
//! fails, so that a replaced Secret counts at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cluster::Client;
use crate::cluster::secret_values::{SecretError, SecretValues};
use crate::kit::errors::chain;
use crate::object::SecretKey;

/// How long a Secret is used without reading it again.
const LIFETIME: Duration = Duration::from_mins(1);

/// The minimum age of a Secret that is read again after a failed verification: senders of wrong credentials cause no
/// more requests.
const MIN_AGE: Duration = Duration::from_secs(5);

/// The reason why a value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(Arc<str>);

/// The value of an entry, without a line break at its end.
pub(crate) type SecretValue = Arc<[u8]>;

#[derive(Clone)]
struct Known {
    value: Result<SecretValue, Unreadable>,
    read_at: Instant,
}

/// The Secrets of one operator.
pub struct Secrets {
    values: SecretValues,
    /// The entries that hooks have asked for.
    known: Mutex<BTreeMap<SecretKey, Known>>,
}

impl Secrets {
    /// Returns the Secrets that an operator can read.
    pub fn new(client: Client, operator: &str) -> Self {
        Self { values: SecretValues::new(client, operator), known: Mutex::default() }
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
        self.values.read(key.namespace.as_deref(), &key.name, &key.key).await
    }
}

//! The Secret that keeps made certificates, so that replicas share them and a restart changes nothing.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::made::Made;
use super::served::{CertificateProblem, items};
use crate::cluster::object_client::{ObjectAddress, ObjectClient};
use crate::cluster::{self, Client};
use crate::http::Certificate;
use crate::manifest::admission::SecretName;
use crate::object::Resource;

/// The certificate that is served, and its key: the names that Kubernetes gives them.
const SERVED: [&str; 2] = ["tls.crt", "tls.key"];

/// The authorities, and their keys in the same order.
const AUTHORITIES: [&str; 2] = ["ca.crt", "ca.key"];

/// The Secret of one server.
pub(super) struct Store {
    objects: ObjectClient,
    resource: Resource,
    namespace: String,
    name: String,
}

impl Store {
    /// Returns the store in a Secret, by default in the namespace of the credentials.
    pub(super) fn new(client: &Client, operator: &str, secret: &SecretName) -> Self {
        let (version, plural, kind) = ("v1".to_owned(), "secrets".to_owned(), "Secret".to_owned());
        Self {
            objects: ObjectClient::new(client.clone(), operator),
            resource: Resource { version, plural, kind, namespaced: true, ..Resource::default() },
            namespace: secret.namespace.clone().unwrap_or_else(|| client.default_namespace()),
            name: secret.name.clone(),
        }
    }

    /// Returns the Secret, if it exists.
    pub(super) async fn get(&self) -> Result<Option<Value>, CertificateProblem> {
        let place = ObjectAddress { resource: &self.resource, namespace: Some(&self.namespace), name: &self.name };
        self.objects.get(place).await.map_err(|error| self.failed("get", error))
    }

    /// Writes made certificates into the Secret as it was read. Returns false if another client has written it
    /// meanwhile.
    pub(super) async fn put(&self, found: Option<Value>, made: &Made) -> Result<bool, CertificateProblem> {
        let (verb, written) = match found {
            Some(found) => ("update", self.objects.update(&self.resource, &with_data(found, made)).await),
            None => ("create", self.objects.create(&self.resource, &with_data(self.empty(), made)).await),
        };
        match written {
            Ok(_) => Ok(true),
            // Another replica was faster, or it was deleted.
            Err(error) if matches!(error.status(), Some(404 | 409)) => Ok(false),
            Err(error) => Err(self.failed(verb, error)),
        }
    }

    /// Returns the error for a Secret that never stays as it was read.
    pub(super) fn contended(&self) -> CertificateProblem {
        CertificateProblem::Contended { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    fn empty(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {"app.kubernetes.io/managed-by": "kopfd"},
            },
        })
    }

    fn failed(&self, verb: &'static str, source: cluster::Error) -> CertificateProblem {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        match source.status() {
            Some(403) => CertificateProblem::Forbidden { verb, namespace, name, source },
            _ => CertificateProblem::Secret { verb, namespace, name, source },
        }
    }
}

fn with_data(mut secret: Value, made: &Made) -> Value {
    let served = made.served.clone().unwrap_or_else(|| Certificate { chain: String::new(), key: String::new() });
    let keys: String = made.authorities.iter().map(|authority| authority.key.as_str()).collect();
    let texts =
        [(SERVED[0], served.chain), (SERVED[1], served.key), (AUTHORITIES[0], made.bundle()), (AUTHORITIES[1], keys)];
    let texts = texts.map(|(key, text)| (key, STANDARD.encode(text)));
    if !secret["data"].is_object() {
        secret["data"] = json!({});
    }
    for (key, text) in BTreeMap::from(texts) {
        secret["data"][key] = text.into();
    }
    secret
}

/// Returns the certificates in a Secret. Those that cannot be used are replaced later.
pub(super) fn read(secret: &Value) -> Made {
    let text = |key: &str| {
        let bytes = secret["data"][key].as_str().and_then(|text| STANDARD.decode(text).ok());
        bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    };
    let [chain, key] = SERVED.map(text);
    let [authorities, keys] = AUTHORITIES.map(text);
    let pairs = items(&authorities).into_iter().zip(items(&keys));
    Made {
        authorities: pairs.map(|(chain, key)| Certificate { chain, key }).collect(),
        served: (!chain.is_empty()).then_some(Certificate { chain, key }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_certificates_are_read_as_they_were_written() {
        let now = "2027-01-01T00:00:00Z".parse().unwrap();
        let mut made = Made::default();
        made.renew(&["a.b".to_owned()], now).unwrap();
        let mut second = Made::default();
        second.renew(&["a.b".to_owned()], now).unwrap();
        made.authorities.extend(second.authorities);
        let secret = with_data(json!({"data": {"other": "eA=="}}), &made);
        assert_eq!(read(&secret), made);
        assert_eq!(secret["data"]["other"], "eA==", "what others keep there stays");
    }

    #[test]
    fn a_secret_without_certificates_is_empty() {
        for secret in [json!({}), json!({"data": {"tls.crt": "%", "ca.crt": "eA==", "ca.key": 5}})] {
            assert_eq!(read(&secret), Made::default());
        }
    }
}

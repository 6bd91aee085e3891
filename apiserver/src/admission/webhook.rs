//! Webhooks of configurations.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// One webhook of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    /// Its full name.
    pub name: String,
    /// Its address.
    pub client: Client,
    /// The accepted authorities of its certificate, as PEM; empty for those of the system.
    pub authorities: Vec<u8>,
    /// The time limit.
    pub timeout: Duration,
    /// Whether requests are allowed when it cannot be called.
    pub ignores_failures: bool,
    /// Whether it has side effects, so that dry runs cannot be sent to it.
    pub has_side_effects: bool,
    /// Whether it is called again after changes by later webhooks.
    pub reinvoke: bool,
    /// The version of the reviews.
    pub review_version: &'static str,
    /// The declaration: rules, selectors and conditions.
    pub declared: Value,
}

/// The address of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Client {
    /// A URL.
    Url(String),
    /// A service of the cluster.
    Service {
        /// The service's namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
        /// The path of the address.
        path: String,
    },
}

impl Webhook {
    /// Returns the webhooks of the configurations, in the order of the configurations' names.
    pub fn all(configurations: &[&Value]) -> Vec<Self> {
        let mut sorted = configurations.to_vec();
        sorted.sort_by_key(|configuration| configuration["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        sorted
            .iter()
            .filter_map(|configuration| configuration["webhooks"].as_array())
            .flatten()
            .map(Self::read)
            .collect()
    }

    /// Reads one webhook of a configuration. Missing fields have the defaults of the API.
    pub fn read(declared: &Value) -> Self {
        let text = |name: &str| declared[name].as_str().unwrap_or_default();
        let client = &declared["clientConfig"];
        let versions = declared["admissionReviewVersions"].as_array();
        let first =
            versions.and_then(|versions| versions.iter().find(|version| **version == "v1" || **version == "v1beta1"));
        Self {
            name: text("name").to_owned(),
            client: Client::read(client),
            authorities: client["caBundle"]
                .as_str()
                .and_then(|bundle| STANDARD.decode(bundle).ok())
                .unwrap_or_default(),
            timeout: Duration::from_secs(declared["timeoutSeconds"].as_u64().unwrap_or(10)),
            ignores_failures: text("failurePolicy") == "Ignore",
            has_side_effects: !matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            reinvoke: text("reinvocationPolicy") == "IfNeeded",
            review_version: if first.is_some_and(|version| version == "v1beta1") { "v1beta1" } else { "v1" },
            declared: declared.clone(),
        }
    }
}

impl Client {
    /// Reads a `clientConfig`.
    pub fn read(client: &Value) -> Self {
        if let Some(url) = client["url"].as_str() {
            return Self::Url(url.to_owned());
        }
        let service = &client["service"];
        let text = |name: &str| service[name].as_str().unwrap_or_default().to_owned();
        let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
        Self::Service { namespace: text("namespace"), name: text("name"), port, path: text("path") }
    }
}

//! Connection info: credentials in kopf's words, as login functions return them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue, header};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use kube::config::Kubeconfig;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::config::{self, BuiltIn, setup};
use super::error::LoginError;
use super::plugin;
use super::settings::{ConnectionSettings, Networking};
use super::transport::Connection;

/// The priorities of kopf's built-in logins.
const SERVICE_ACCOUNT_PRIORITY: i64 = 20;
const KUBECONFIG_PRIORITY: i64 = 10;

/// The only name in generated kubeconfigs.
const NAME: &str = "login";

/// The credentials of one login function. A pair of a path and data excludes each other.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionInfo {
    /// The address of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The certificates of the authorities, as a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_path: Option<PathBuf>,
    /// The certificates of the authorities, as PEM or base64 of PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_data: Option<String>,
    /// Whether the server is not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,
    /// The user name, used together with the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// The scheme of the `Authorization` header; `Bearer` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The token of the `Authorization` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The client certificate, as a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_path: Option<PathBuf>,
    /// The client certificate, as PEM or base64 of PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_data: Option<String>,
    /// The private key of the client certificate, as a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key_path: Option<PathBuf>,
    /// The private key of the client certificate, as PEM or base64 of PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key_data: Option<String>,
    /// The namespace of Events about cluster-scoped objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_namespace: Option<String>,
    /// The proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    /// Whether proxies of the environment are used; by default as the settings say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_env: Option<bool>,
    /// The preference among several credentials: higher is better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// When the credentials expire; without a zone, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration: Option<String>,
}

/// Secrets are not shown.
impl std::fmt::Debug for ConnectionInfo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { server, priority, expiration, .. } = self;
        let mut shown = formatter.debug_struct("ConnectionInfo");
        shown
            .field("server", server)
            .field("priority", priority)
            .field("expiration", expiration)
            .finish_non_exhaustive()
    }
}

impl ConnectionInfo {
    /// Reads the result of a login function.
    ///
    /// # Errors
    /// If it is not a map of the known keys, or two of them exclude each other. The text contains no secrets.
    pub fn read(value: &Value) -> Result<Self, String> {
        if !value.is_object() {
            return Err("it must return a map with `server`, or nothing".to_owned());
        }
        // Errors of types would show the value.
        let info: Self = serde_json::from_value(value.clone()).map_err(|error| described(&error, value))?;
        if info.server.as_deref().is_none_or(str::is_empty) {
            return Err("`server` is missing: the URL of the API server".to_owned());
        }
        let pairs = [
            ("ca_path", info.ca_path.is_some(), "ca_data", info.ca_data.is_some()),
            ("certificate_path", info.certificate_path.is_some(), "certificate_data", info.certificate_data.is_some()),
            ("private_key_path", info.private_key_path.is_some(), "private_key_data", info.private_key_data.is_some()),
        ];
        if let Some((path, _, data, _)) = pairs.iter().find(|(_, has_path, _, has_data)| *has_path && *has_data) {
            return Err(format!("`{path}` and `{data}` exclude each other"));
        }
        info.expires_at()?;
        Ok(info)
    }

    /// Returns when the credentials expire.
    ///
    /// # Errors
    /// If `expiration` is not a time.
    pub fn expires_at(&self) -> Result<Option<Timestamp>, String> {
        let Some(text) = &self.expiration else { return Ok(None) };
        let zoneless = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
        let found = text.parse::<Timestamp>().ok().or_else(zoneless);
        found.map(Some).ok_or_else(|| "`expiration` must be a time, or such as `2030-01-31T12:00:00Z`".to_owned())
    }

    /// Returns a hash that identifies the credentials without storing them, with the contents of their files.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(self).unwrap_or_default().hash(&mut hasher);
        for file in [&self.ca_path, &self.certificate_path, &self.private_key_path].into_iter().flatten() {
            std::fs::read(file).unwrap_or_default().hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns a connection with these credentials. `id` names their source.
    ///
    /// # Errors
    /// If they cannot be used.
    pub async fn connect(self, id: String, settings: Arc<ConnectionSettings>) -> Result<Connection, LoginError> {
        config::blocking(move || {
            let expires_at = self.expires_at().map_err(|problem| setup(&problem))?;
            let connection = config::open(self.config(&settings.networking)?, expires_at, &settings)?;
            Ok(Connection { id, fingerprint: self.fingerprint(), ..connection })
        })
        .await
    }

    fn config(&self, networking: &Networking) -> Result<kube::Config, LoginError> {
        let networking = Networking { trust_env: self.trust_env.unwrap_or(networking.trust_env), ..networking.clone() };
        let mut config = config::resolve(self.kubeconfig()?, &networking)?;
        if let Some(scheme) = self.scheme.as_deref().filter(|scheme| !scheme.is_empty()) {
            let text = self.token.as_ref().map_or_else(|| scheme.to_owned(), |token| format!("{scheme} {token}"));
            let mut value =
                HeaderValue::from_str(&text).map_err(|_| setup("`scheme` and `token` must be plain text"))?;
            value.set_sensitive(true);
            let name: HeaderName = header::AUTHORIZATION;
            config.headers.push((name, value));
        }
        Ok(config)
    }

    /// Returns the kubeconfig with the same meaning, except for the scheme.
    fn kubeconfig(&self) -> Result<Kubeconfig, LoginError> {
        let both = |one: bool, other: bool| one && other;
        let is_filled = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        let mut user = serde_json::Map::new();
        let mut set = |key: &str, value: Option<Value>| drop(value.map(|value| user.insert(key.to_owned(), value)));
        if both(is_filled(&self.username), is_filled(&self.password)) {
            set("username", self.username.clone().map(Value::from));
            set("password", self.password.clone().map(Value::from));
        }
        if !is_filled(&self.scheme) {
            set("token", self.token.clone().map(Value::from));
        }
        let has_certificate = self.certificate_path.is_some() || self.certificate_data.is_some();
        if both(has_certificate, self.private_key_path.is_some() || self.private_key_data.is_some()) {
            set("client-certificate", self.certificate_path.clone().map(|path| json!(path)));
            set("client-certificate-data", self.certificate_data.as_deref().map(encoded));
            set("client-key", self.private_key_path.clone().map(|path| json!(path)));
            set("client-key-data", self.private_key_data.as_deref().map(encoded));
        }
        let cluster = json!({
            "server": self.server,
            "certificate-authority": self.ca_path,
            "certificate-authority-data": self.ca_data.as_deref().map(encoded),
            "insecure-skip-tls-verify": self.insecure,
            "proxy-url": self.proxy_url,
        });
        let whole = json!({
            "current-context": NAME,
            "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": self.default_namespace}}],
            "clusters": [{"name": NAME, "cluster": cluster}],
            "users": [{"name": NAME, "user": user}],
        });
        serde_json::from_value(whole).map_err(|error| setup(&error.to_string()))
    }
}

/// Returns the text of an error without the value that it is about.
fn described(error: &serde_json::Error, value: &Value) -> String {
    let text = error.to_string();
    if text.starts_with("unknown field") {
        return text;
    }
    let is_wrong = |(key, value): &(&String, &Value)| {
        let single = json!({ key.as_str(): value });
        serde_json::from_value::<ConnectionInfo>(single).is_err()
    };
    let wrong = value.as_object().and_then(|entries| entries.iter().find(is_wrong));
    wrong.map_or_else(|| "it must return a map".to_owned(), |(key, _)| format!("`{key}` has a wrong type"))
}

/// Returns base64 of PEM; data that is not PEM is base64 already.
fn encoded(data: &str) -> Value {
    if data.contains("-----BEGIN") { STANDARD.encode(data).into() } else { data.trim().into() }
}

impl BuiltIn {
    /// Returns the credentials of the service account; `None` outside of a container.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) async fn service_account_info(&self) -> Result<Option<ConnectionInfo>, LoginError> {
        let login = self.clone();
        config::blocking(move || {
            let Some(config) = login.of_service_account()? else { return Ok(None) };
            let token = config.auth_info.token_file.as_ref().map(std::fs::read_to_string).transpose();
            let token = token.map_err(|error| LoginError::ServiceAccount(error.to_string()))?;
            Ok(Some(ConnectionInfo {
                server: Some(config.cluster_url.to_string()),
                ca_path: config.root_cert_file,
                token: token.map(|token| token.trim().to_owned()),
                default_namespace: Some(config.default_namespace),
                priority: Some(SERVICE_ACCOUNT_PRIORITY),
                ..ConnectionInfo::default()
            }))
        })
        .await
    }

    /// Returns the credentials of the kubeconfig in a context; `None` without a kubeconfig.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) async fn kubeconfig_info(&self, context: Option<String>) -> Result<Option<ConnectionInfo>, LoginError> {
        let login = self.in_context(context);
        config::blocking(move || {
            let kubeconfig = match login.merged_sources() {
                Err(LoginError::Nothing) => return Ok(None),
                other => other?,
            };
            info_of_kubeconfig(&kubeconfig).map(Some)
        })
        .await
    }
}

fn info_of_kubeconfig(kubeconfig: &Kubeconfig) -> Result<ConnectionInfo, LoginError> {
    let missing = |what: &str| LoginError::Kubeconfig(format!("there is no {what}"));
    let current = kubeconfig.current_context.as_ref().ok_or_else(|| missing("current context"))?;
    let context =
        kubeconfig.contexts.iter().find(|named| named.name == *current).and_then(|named| named.context.clone());
    let context = context.ok_or_else(|| missing(&format!("context {current:?}")))?;
    let cluster =
        kubeconfig.clusters.iter().find(|named| named.name == context.cluster).and_then(|named| named.cluster.clone());
    let cluster = cluster.ok_or_else(|| missing(&format!("cluster {:?}", context.cluster)))?;
    let user = kubeconfig.auth_infos.iter().find(|named| Some(&named.name) == context.user.as_ref());
    let mut user = user.and_then(|named| named.auth_info.clone()).unwrap_or_default();
    let expires_at = plugin::resolve(&mut user)?;
    let user = serde_json::to_value(&user).unwrap_or_default();
    let text = |pointer: &str| user.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let of_file = || {
        let read = text("/tokenFile")
            .map(|file| std::fs::read_to_string(&file).map_err(|error| format!("cannot read {file}: {error}")));
        read.transpose().map(|token| token.map(|token| token.trim().to_owned())).map_err(LoginError::Kubeconfig)
    };
    let token = match text("/token").or_else(|| text("/auth-provider/config/access-token")) {
        Some(token) => Some(token),
        None => of_file()?,
    };
    Ok(ConnectionInfo {
        server: cluster.server,
        ca_path: cluster.certificate_authority.map(PathBuf::from),
        ca_data: cluster.certificate_authority_data,
        insecure: cluster.insecure_skip_tls_verify,
        proxy_url: cluster.proxy_url,
        username: text("/username"),
        password: text("/password"),
        token,
        certificate_path: text("/client-certificate").map(PathBuf::from),
        certificate_data: text("/client-certificate-data"),
        private_key_path: text("/client-key").map(PathBuf::from),
        private_key_data: text("/client-key-data"),
        default_namespace: context.namespace,
        priority: Some(KUBECONFIG_PRIORITY),
        expiration: expires_at.map(|at| at.to_string()),
        ..ConnectionInfo::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(value: Value) -> String {
        ConnectionInfo::read(&value).unwrap_err()
    }

    #[test]
    fn mistakes_in_connection_info_are_named_without_showing_secrets() {
        assert_eq!(problem(json!("x")), "it must return a map with `server`, or nothing");
        assert_eq!(problem(json!({"token": "t"})), "`server` is missing: the URL of the API server");
        assert!(problem(json!({"sever": "x"})).starts_with("unknown field `sever`, expected one of `server`"));
        assert_eq!(problem(json!({"server": "x", "token": 12345})), "`token` has a wrong type");
        assert_eq!(
            problem(json!({"server": "x", "ca_path": "a", "ca_data": "b"})),
            "`ca_path` and `ca_data` exclude each other"
        );
        assert!(problem(json!({"server": "x", "expiration": "soon"})).starts_with("`expiration` must be a time"));
        assert!(
            !format!("{:?}", ConnectionInfo { token: Some("secret".into()), ..ConnectionInfo::default() })
                .contains("secret")
        );
    }

    #[test]
    fn a_time_without_a_zone_is_in_utc() {
        for text in ["2030-01-31T12:00:00", "2030-01-31T12:00:00Z", "2030-01-31T14:00:00+02:00"] {
            let info = ConnectionInfo::read(&json!({"server": "x", "expiration": text})).unwrap();
            assert_eq!(info.expires_at().unwrap().unwrap().to_string(), "2030-01-31T12:00:00Z");
        }
    }

    #[test]
    fn credentials_become_those_of_a_kubeconfig() {
        let config = |value: Value| ConnectionInfo::read(&value).unwrap().config(&Networking::default()).unwrap();
        let found =
            config(json!({"server": "https://one:6443", "token": "t", "default_namespace": "mine", "insecure": true}));
        assert_eq!((found.cluster_url.host(), found.default_namespace.as_str()), (Some("one"), "mine"));
        assert!(found.accept_invalid_certs && found.auth_info.token.is_some() && found.headers.is_empty());
        let header = |value: Value| config(value).headers.first().map(|(_, value)| value.to_str().unwrap().to_owned());
        assert_eq!(
            header(json!({"server": "https://one", "scheme": "Token", "token": "t"})).as_deref(),
            Some("Token t")
        );
        assert_eq!(header(json!({"server": "https://one", "scheme": "Negotiate"})).as_deref(), Some("Negotiate"));
        let user = |value: Value| config(value).auth_info;
        assert!(user(json!({"server": "https://one", "username": "u"})).username.is_none());
        assert!(user(json!({"server": "https://one", "username": "u", "password": "p"})).username.is_some());
        assert!(user(json!({"server": "https://one", "certificate_path": "c"})).client_certificate.is_none());
        assert!(
            user(json!({"server": "https://one", "certificate_path": "c", "private_key_path": "k"}))
                .client_certificate
                .is_some()
        );
    }

    #[test]
    fn data_may_be_pem_or_base64_of_pem() {
        let pem = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";
        assert_eq!(encoded(pem), json!(STANDARD.encode(pem)));
        assert_eq!(encoded(&STANDARD.encode(pem)), json!(STANDARD.encode(pem)));
    }

    #[test]
    fn equal_credentials_have_equal_fingerprints() {
        let info =
            |token: &str| ConnectionInfo { token: Some(token.to_owned()), ..ConnectionInfo::default() }.fingerprint();
        assert_eq!(info("a"), info("a"));
        assert_ne!(info("a"), info("b"));
    }

    #[test]
    fn a_kubeconfig_becomes_connection_info() {
        let whole = json!({
            "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "n"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://one", "certificate-authority": "/ca", "proxy-url": "http://p"}}],
            "users": [{"name": "u", "user": {"token": "t", "username": "a", "password": "b"}}],
        });
        let info = info_of_kubeconfig(&serde_json::from_value(whole).unwrap()).unwrap();
        let expected = json!({
            "server": "https://one", "ca_path": "/ca", "proxy_url": "http://p", "token": "t", "username": "a", "password": "b",
            "default_namespace": "n", "priority": 10,
        });
        assert_eq!(serde_json::to_value(info).unwrap(), expected);
    }
}

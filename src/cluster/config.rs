//! Addresses and credentials of API servers: kubeconfigs, service accounts, and network settings.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderValue, header};
use kube::config::{Kubeconfig, KubeconfigError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::error::LoginError;
use super::plugin;
use super::transport::{self, Connection, Login};
use crate::http::install_crypto_provider;

/// How to connect.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A kubeconfig; if `None`, the default locations are searched.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; if `None`, the current one.
    pub context: Option<String>,
    /// Settings of all requests.
    pub networking: Networking,
    /// Settings of watches.
    pub watching: Watching,
}

/// Settings of all requests: kopf's `settings.networking`.
#[derive(Debug, Clone)]
pub struct Networking {
    /// Time limit of one attempt of a request.
    pub request_timeout: Option<Duration>,
    /// For how long a connection may take to open.
    pub connect_timeout: Option<Duration>,
    /// The pauses between the attempts of a request; there is one more attempt than pauses.
    pub error_backoffs: Vec<Duration>,
    /// Whether the server's `Retry-After` is used even if it is shorter than our own pause.
    pub enforce_retry_after: bool,
    /// Whether proxies of the environment are used.
    pub trust_env: bool,
}

impl Default for Networking {
    fn default() -> Self {
        Self {
            request_timeout: Some(Duration::from_mins(5)),
            connect_timeout: None,
            error_backoffs: [1, 1, 2, 3, 5, 8, 13, 21].map(Duration::from_secs).to_vec(),
            enforce_retry_after: false,
            trust_env: false,
        }
    }
}

/// Settings of watches: kopf's `settings.watching`.
#[derive(Debug, Clone)]
pub struct Watching {
    /// Time limit of a watch, requested from the server.
    pub server_timeout: Option<Duration>,
    /// Time limit of a watch, enforced by the client.
    pub client_timeout: Option<Duration>,
    /// Time limit for connecting a watch.
    pub connect_timeout: Option<Duration>,
    /// The pause before the next list.
    pub reconnect_backoff: Duration,
    /// Time limit without data on a watch: the server sends bookmarks about once a minute.
    pub inactivity_timeout: Option<Duration>,
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            server_timeout: None,
            client_timeout: None,
            connect_timeout: None,
            reconnect_backoff: Duration::from_millis(100),
            inactivity_timeout: Some(Duration::from_secs(70)),
        }
    }
}

/// The parts of the process environment that locate the API server.
#[derive(Debug, Clone)]
pub struct CredentialSources {
    /// The list of kubeconfigs in `KUBECONFIG`.
    pub kubeconfigs: Option<OsString>,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// The directory where a container finds its service account.
    pub service_account: PathBuf,
    /// The host and port of the API server from the environment of a container.
    pub service: Option<(String, String)>,
}

impl CredentialSources {
    /// Returns the environment of this process.
    pub fn of_process() -> Self {
        let text = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        Self {
            kubeconfigs: std::env::var_os("KUBECONFIG"),
            home: std::env::home_dir(),
            service_account: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount"),
            service: text("KUBERNETES_SERVICE_HOST").zip(text("KUBERNETES_SERVICE_PORT")),
        }
    }
}

/// The built-in login: the given kubeconfig, else the service account, else the kubeconfigs of the environment.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    options: Options,
    sources: CredentialSources,
}

impl BuiltIn {
    /// Returns the login for these options.
    pub fn new(options: Options, sources: CredentialSources) -> Self {
        Self { options, sources }
    }

    /// Reads files and runs plug-ins, so it blocks.
    fn connect(&self) -> Result<Connection, LoginError> {
        install_crypto_provider();
        let mut config = self.config()?;
        config.default_retry = false;
        config.disable_compression = true;
        config.read_timeout = None;
        config.headers.push((header::USER_AGENT, user_agent()));
        let expires_at = plugin::resolve(&mut config.auth_info)?;
        let (networking, watching) = (&self.options.networking, &self.options.watching);
        let connect = networking.connect_timeout;
        Ok(Connection {
            calls: transport::open(&config, connect)?,
            watches: transport::open(&config, watching.connect_timeout.or(connect))?,
            expires_at,
            fingerprint: fingerprint(&config),
            server: config.cluster_url.to_string(),
            default_namespace: config.default_namespace,
        })
    }

    fn config(&self) -> Result<kube::Config, LoginError> {
        if let Some(file) = &self.options.kubeconfig {
            return self.of_kubeconfigs(std::slice::from_ref(file));
        }
        if self.options.context.is_none()
            && let Some(config) = self.of_service_account()?
        {
            return Ok(config);
        }
        self.of_kubeconfigs(&self.files())
    }

    fn files(&self) -> Vec<PathBuf> {
        let listed = self.sources.kubeconfigs.as_deref().filter(|list| !list.is_empty());
        if let Some(listed) = listed {
            return std::env::split_paths(listed).filter_map(|path| self.tidy(&path)).collect();
        }
        let default = self.sources.home.as_ref().map(|home| home.join(".kube/config"));
        default.into_iter().filter(|file| file.exists()).collect()
    }

    fn tidy(&self, path: &Path) -> Option<PathBuf> {
        let path = path.to_str().map_or_else(|| path.to_path_buf(), |text| PathBuf::from(text.trim()));
        match (path.strip_prefix("~"), &self.sources.home) {
            _ if path.as_os_str().is_empty() => None,
            (Ok(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(path),
        }
    }

    fn of_kubeconfigs(&self, files: &[PathBuf]) -> Result<kube::Config, LoginError> {
        let failed = |error| LoginError::Kubeconfig(message(error));
        if files.is_empty() {
            return Err(LoginError::Nothing);
        }
        let mut merged = Kubeconfig::default();
        for file in files {
            merged = merged.merge(Kubeconfig::read_from(file).map_err(failed)?).map_err(failed)?;
        }
        if let Some(context) = &self.options.context {
            check_context(&merged, context)?;
            merged.current_context = Some(context.clone());
        }
        let own_proxy = proxy(&merged);
        let mut config = kube::Config::try_from(merged).map_err(failed)?;
        if !self.options.networking.trust_env {
            config.proxy_url = own_proxy.map(|url| url.parse()).transpose().map_err(|_| setup("the proxy's address cannot be read"))?;
        }
        Ok(config)
    }

    fn of_service_account(&self) -> Result<Option<kube::Config>, LoginError> {
        let directory = &self.sources.service_account;
        let token = directory.join("token");
        if !token.exists() {
            return Ok(None);
        }
        let failed = |error: &dyn std::fmt::Display| LoginError::ServiceAccount(error.to_string());
        let server = match &self.sources.service {
            Some((host, port)) if host.contains(':') => format!("https://[{host}]:{port}"),
            Some((host, port)) => format!("https://{host}:{port}"),
            None => "https://kubernetes.default.svc".to_owned(),
        };
        let mut config = kube::Config::new(server.parse().map_err(|error| failed(&error))?);
        config.auth_info.token_file = Some(token.to_string_lossy().into_owned());
        if let Ok(namespace) = std::fs::read_to_string(directory.join("namespace")) {
            namespace.trim().clone_into(&mut config.default_namespace);
        }
        let authority = directory.join("ca.crt");
        if authority.exists() {
            let certificates = CertificateDer::pem_file_iter(&authority).map_err(|error| failed(&error))?;
            let certificates: Result<Vec<_>, _> = certificates.map(|found| found.map(|certificate| certificate.to_vec())).collect();
            config.root_cert = Some(certificates.map_err(|error| failed(&error))?);
            config.root_cert_file = Some(authority);
        }
        Ok(Some(config))
    }
}

impl Login for BuiltIn {
    fn login(&self) -> BoxFuture<'_, Result<Connection, LoginError>> {
        let login = self.clone();
        Box::pin(async move {
            let connected = tokio::task::spawn_blocking(move || login.connect()).await;
            connected.unwrap_or_else(|error| Err(setup(&error.to_string())))
        })
    }
}

fn setup(problem: &str) -> LoginError {
    LoginError::Setup(problem.to_owned())
}

fn user_agent() -> HeaderValue {
    HeaderValue::from_static(concat!("kopfd/", env!("CARGO_PKG_VERSION")))
}

fn message(error: KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, path) => format!("cannot read {}: {error}", path.display()),
        error => error.to_string(),
    }
}

/// The error for a misspelt context lists the existing ones.
fn check_context(kubeconfig: &Kubeconfig, wanted: &str) -> Result<(), LoginError> {
    let names: Vec<&str> = kubeconfig.contexts.iter().map(|named| named.name.as_str()).collect();
    if names.contains(&wanted) {
        return Ok(());
    }
    let known = if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
    Err(LoginError::Kubeconfig(format!("there is no context {wanted:?}: {known}")))
}

/// Returns the proxy that the kubeconfig itself names for the current context.
fn proxy(kubeconfig: &Kubeconfig) -> Option<String> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == *current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|url| !url.is_empty())
}

/// Returns a hash of the credentials, including credentials in files.
fn fingerprint(config: &kube::Config) -> u64 {
    let mut hasher = DefaultHasher::new();
    config.cluster_url.hash(&mut hasher);
    serde_json::to_string(&config.auth_info).unwrap_or_default().hash(&mut hasher);
    for file in [&config.auth_info.token_file, &config.auth_info.client_certificate].into_iter().flatten() {
        std::fs::read(file).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn kubeconfig(directory: &TempDir, file: &str, current: &str, server: &str) -> PathBuf {
        let path = directory.path().join(file);
        let text = format!(
            "{{current-context: '{current}', contexts: [{{name: {file}, context: {{cluster: {file}, user: {file}, namespace: of-{file}}}}}],
              clusters: [{{name: {file}, cluster: {{server: '{server}'}}}}], users: [{{name: {file}, user: {{token: t}}}}]}}"
        );
        let text = if current.is_empty() { text.replace("current-context: '', ", "") } else { text };
        std::fs::write(&path, text).unwrap();
        path
    }

    fn sources(directory: &TempDir) -> CredentialSources {
        let home = Some(directory.path().to_path_buf());
        CredentialSources { kubeconfigs: None, home, service_account: directory.path().join("account"), service: None }
    }

    fn config(options: Options, sources: CredentialSources) -> Result<kube::Config, LoginError> {
        BuiltIn::new(options, sources).config()
    }

    #[test]
    fn the_first_current_context_of_a_list_wins() {
        let directory = TempDir::new().unwrap();
        kubeconfig(&directory, "one", "", "https://one");
        kubeconfig(&directory, "two", "one", "https://two");
        let list = std::env::join_paths([Path::new(" ~/one"), &directory.path().join("two"), Path::new("")]).unwrap();
        let sources = CredentialSources { kubeconfigs: Some(list), ..sources(&directory) };
        let found = config(Options::default(), sources.clone()).unwrap();
        assert_eq!((found.cluster_url.host(), found.default_namespace.as_str()), (Some("one"), "of-one"));
        let found = config(Options { context: Some("two".into()), ..Options::default() }, sources).unwrap();
        assert_eq!(found.cluster_url.host(), Some("two"));
    }

    #[test]
    fn a_service_account_takes_precedence_unless_a_kubeconfig_is_requested() {
        let directory = TempDir::new().unwrap();
        let file = kubeconfig(&directory, "one", "one", "https://one");
        let sources = CredentialSources { kubeconfigs: Some(file.clone().into()), ..sources(&directory) };
        std::fs::create_dir(&sources.service_account).unwrap();
        std::fs::write(sources.service_account.join("token"), "secret").unwrap();
        std::fs::write(sources.service_account.join("namespace"), "mine\n").unwrap();
        let found = config(Options::default(), sources.clone()).unwrap();
        assert_eq!((found.cluster_url.host(), found.default_namespace.as_str()), (Some("kubernetes.default.svc"), "mine"));
        let found = config(Options { kubeconfig: Some(file), ..Options::default() }, sources).unwrap();
        assert_eq!(found.cluster_url.host(), Some("one"));
    }

    #[test]
    fn missing_credentials_are_reported() {
        let directory = TempDir::new().unwrap();
        assert!(matches!(config(Options::default(), sources(&directory)), Err(LoginError::Nothing)));
        let file = kubeconfig(&directory, "one", "", "https://one");
        let options = Options { kubeconfig: Some(file), ..Options::default() };
        assert!(config(options, sources(&directory)).unwrap_err().to_string().contains("current context"));
        let options = Options { kubeconfig: Some("/nowhere".into()), ..Options::default() };
        let message = config(options, sources(&directory)).unwrap_err().to_string();
        assert_eq!(message, "failed to use the kubeconfig: cannot read /nowhere: No such file or directory (os error 2)");
        let file = kubeconfig(&directory, "two", "two", "https://two");
        let options = Options { kubeconfig: Some(file), context: Some("zz".into()), ..Options::default() };
        let message = config(options, sources(&directory)).unwrap_err().to_string();
        assert_eq!(message, "failed to use the kubeconfig: there is no context \"zz\": it has two");
    }

    #[test]
    fn a_rotated_token_is_another_set_of_credentials() {
        let directory = TempDir::new().unwrap();
        let token = directory.path().join("token");
        let mut config = kube::Config::new(http::Uri::from_static("https://one"));
        config.auth_info.token_file = Some(token.to_string_lossy().into_owned());
        std::fs::write(&token, "1").unwrap();
        let before = fingerprint(&config);
        std::fs::write(&token, "2").unwrap();
        assert_ne!(before, fingerprint(&config));
    }
}

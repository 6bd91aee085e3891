//! Addresses and credentials of API servers: kubeconfigs, service accounts, and network settings.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use http::{HeaderValue, header};
use jiff::Timestamp;
use kube::config::{Kubeconfig, KubeconfigError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::error::LoginError;
use super::guard::Guard;
use super::plugin;
use super::settings::{ConnectionSettings, Networking, Watching};
use super::transport::{self, Connection, Login};
use crate::http::install_crypto_provider;

/// The options of the connection.
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

/// The parts of the process environment that locate the API server.
#[derive(Debug, Clone)]
pub(crate) struct CredentialSources {
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
    pub(crate) fn of_process() -> Self {
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
pub(crate) struct BuiltIn {
    options: Options,
    sources: CredentialSources,
}

impl BuiltIn {
    /// Returns the login for these options.
    pub(crate) fn new(options: Options, sources: CredentialSources) -> Self {
        Self { options, sources }
    }

    /// Reads files and runs plug-ins, so it blocks.
    fn connect(&self, settings: &ConnectionSettings) -> Result<Connection, LoginError> {
        let mut config = self.config(&settings.networking)?;
        let expires_at = plugin::resolve(&mut config.auth_info)?;
        open(config, expires_at, settings)
    }

    fn config(&self, networking: &Networking) -> Result<kube::Config, LoginError> {
        if let Some(file) = &self.options.kubeconfig {
            return self.of_kubeconfigs(std::slice::from_ref(file), networking);
        }
        if self.options.context.is_none()
            && let Some(config) = self.of_service_account()?
        {
            return Ok(config);
        }
        self.of_kubeconfigs(&self.files(), networking)
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

    fn of_kubeconfigs(&self, files: &[PathBuf], networking: &Networking) -> Result<kube::Config, LoginError> {
        resolve(self.merged(files)?, networking)
    }

    /// Returns the contents of several kubeconfigs, with the wanted context as the current one.
    fn merged(&self, files: &[PathBuf]) -> Result<Kubeconfig, LoginError> {
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
        Ok(merged)
    }

    /// Returns the login with another context, if one is given.
    pub(super) fn in_context(&self, context: Option<String>) -> Self {
        let options = Options { context: context.or_else(|| self.options.context.clone()), ..self.options.clone() };
        Self { options, sources: self.sources.clone() }
    }

    /// Returns the contents of the given kubeconfig, or of those of the environment.
    ///
    /// # Errors
    /// If there is none, or one cannot be read.
    pub(super) fn merged_sources(&self) -> Result<Kubeconfig, LoginError> {
        match &self.options.kubeconfig {
            Some(file) => self.merged(std::slice::from_ref(file)),
            None => self.merged(&self.files()),
        }
    }

    pub(super) fn of_service_account(&self) -> Result<Option<kube::Config>, LoginError> {
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
            let certificates: Result<Vec<_>, _> =
                certificates.map(|found| found.map(|certificate| certificate.to_vec())).collect();
            config.root_cert = Some(certificates.map_err(|error| failed(&error))?);
            config.root_cert_file = Some(authority);
        }
        Ok(Some(config))
    }
}

impl Login for BuiltIn {
    fn login(&self, settings: Arc<ConnectionSettings>) -> BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        let login = self.clone();
        Box::pin(async move { blocking(move || login.connect(&settings)).await.map(|connection| vec![connection]) })
    }
}

/// Runs work that blocks on a thread for that.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoginError> + Send + 'static,
) -> Result<T, LoginError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(setup(&error.to_string())))
}

/// Returns the configuration of a kubeconfig's current context. Proxies of the environment are used only if the
/// settings allow it.
pub(super) fn resolve(kubeconfig: Kubeconfig, networking: &Networking) -> Result<kube::Config, LoginError> {
    let own_proxy = proxy(&kubeconfig);
    let mut config = kube::Config::try_from(kubeconfig).map_err(|error| LoginError::Kubeconfig(message(error)))?;
    if !networking.trust_env {
        config.proxy_url =
            own_proxy.map(|url| url.parse()).transpose().map_err(|_| setup("the proxy's address cannot be read"))?;
    }
    Ok(config)
}

/// Returns connections to the server of a configuration.
pub(super) fn open(
    config: kube::Config,
    expires_at: Option<Timestamp>,
    settings: &ConnectionSettings,
) -> Result<Connection, LoginError> {
    open_guarded(config, expires_at, settings, None)
}

/// Returns connections to the server of a configuration, or to its proxy, if the guard lets it be connected with.
pub(super) fn open_guarded(
    mut config: kube::Config,
    expires_at: Option<Timestamp>,
    settings: &ConnectionSettings,
    guard: Option<&Arc<dyn Guard>>,
) -> Result<Connection, LoginError> {
    install_crypto_provider();
    config.default_retry = false;
    config.disable_compression = true;
    config.read_timeout = None;
    config.headers.push((header::USER_AGENT, user_agent()));
    let ConnectionSettings { networking, watching } = settings;
    let connect = networking.connect_timeout;
    Ok(Connection {
        calls: transport::open(&config, connect, guard)?,
        watches: transport::open(&config, watching.connect_timeout.or(connect), guard)?,
        expires_at,
        id: String::new(),
        fingerprint: fingerprint(&config),
        server: config.cluster_url.to_string(),
        default_namespace: config.default_namespace,
    })
}

pub(super) fn setup(problem: &str) -> LoginError {
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
pub(super) fn proxy(kubeconfig: &Kubeconfig) -> Option<String> {
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
    for (name, value) in &config.headers {
        (name.as_str(), value.as_bytes()).hash(&mut hasher);
    }
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
        BuiltIn::new(options, sources).config(&Networking::default())
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
        assert_eq!(
            (found.cluster_url.host(), found.default_namespace.as_str()),
            (Some("kubernetes.default.svc"), "mine")
        );
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
        assert_eq!(
            message,
            "failed to use the kubeconfig: cannot read /nowhere: No such file or directory (os error 2)"
        );
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

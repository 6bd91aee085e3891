//! Clients of other clusters, by kubeconfigs that are not the operator's own: data, and nothing of this machine.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::config::Kubeconfig;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::client::Client;
use super::config;
use super::error::LoginError;
use super::resource_resolver::ResourceResolver;
use super::settings::ConnectionSettings;
use super::transport::{Connection, Login};

/// Clients that nobody has asked for during this time are closed.
const IDLE: Duration = Duration::from_mins(5);

/// The most clients that are kept.
const MOST: usize = 64;

/// The clients of other clusters, by their kubeconfigs.
#[derive(Default)]
pub struct OtherClusters(Mutex<BTreeMap<u64, Known>>);

struct Known {
    client: Client,
    resolver: Arc<ResourceResolver>,
    used_at: Instant,
}

impl OtherClusters {
    /// Returns the client of a kubeconfig's current context, with its kinds. It has the settings, the clock and the fence of the operator's own
    /// client. The same text gives the same client, while it is in use.
    ///
    /// # Errors
    /// If the kubeconfig cannot be read, or names files or programs: they would be those of this machine.
    pub fn client(&self, kubeconfig: &str, own: &Client) -> Result<(Client, Arc<ResourceResolver>), LoginError> {
        let mut hasher = DefaultHasher::new();
        kubeconfig.hash(&mut hasher);
        let (key, now) = (hasher.finish(), Instant::now());
        let mut known = self.0.lock();
        known.retain(|_, one| now.duration_since(one.used_at) < IDLE);
        if let Some(one) = known.get_mut(&key) {
            one.used_at = now;
            return Ok((one.client.clone(), Arc::clone(&one.resolver)));
        }
        let login = Inline::read(kubeconfig)?;
        let client = own.with_other_login(Box::new(login));
        let resolver = Arc::new(ResourceResolver::new(client.clone()));
        if known.len() >= MOST
            && let Some(oldest) = known.iter().min_by_key(|(_, one)| one.used_at).map(|(key, _)| *key)
        {
            known.remove(&oldest);
        }
        known.insert(key, Known { client: client.clone(), resolver: Arc::clone(&resolver), used_at: now });
        Ok((client, resolver))
    }
}

/// A login by a kubeconfig that consists of data.
struct Inline(Kubeconfig);

impl Inline {
    fn read(text: &str) -> Result<Self, LoginError> {
        // The text of the error may quote the content, which is secret.
        let read = Kubeconfig::from_yaml(text);
        let kubeconfig = read.map_err(|_| LoginError::Kubeconfig("the kubeconfig cannot be read".to_owned()))?;
        match foreign(&kubeconfig) {
            None => Ok(Self(kubeconfig)),
            Some(what) => Err(LoginError::Kubeconfig(format!("`{what}` is refused: the kubeconfig of another cluster has all as data"))),
        }
    }
}

/// Returns the key of what is not data: a file, or a program.
fn foreign(kubeconfig: &Kubeconfig) -> Option<&'static str> {
    let of_cluster = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let mut files = of_cluster.map(|cluster| cluster.certificate_authority.as_ref().map(|_| "certificate-authority"));
    let of_user = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let mut users = of_user.map(|user| {
        let found = [
            (user.exec.is_some(), "exec"),
            (user.auth_provider.is_some(), "auth-provider"),
            (user.token_file.is_some(), "tokenFile"),
            (user.client_certificate.is_some(), "client-certificate"),
            (user.client_key.is_some(), "client-key"),
        ];
        found.into_iter().find_map(|(is_there, key)| is_there.then_some(key))
    });
    files.find_map(|found| found).or_else(|| users.find_map(|found| found))
}

impl Login for Inline {
    fn login(&self, settings: Arc<ConnectionSettings>) -> BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        let kubeconfig = self.0.clone();
        Box::pin(async move {
            let opened = config::blocking(move || config::open(config::resolve(kubeconfig, &settings.networking)?, None, &settings));
            opened.await.map(|connection| vec![connection])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::script::{Script, answer};
    use super::*;

    fn kubeconfig(user: &str, cluster: &str) -> String {
        format!(
            "{{current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
              clusters: [{{name: a, cluster: {{server: \"https://127.0.0.1:1\"{cluster}}}}}], users: [{{name: a, user: {{{user}}}}}]}}"
        )
    }

    #[test]
    fn kubeconfigs_with_files_or_programs_of_this_machine_are_refused() {
        assert!(Inline::read(&kubeconfig("token: x", "")).is_ok());
        for (user, cluster, key) in [
            ("tokenFile: /etc/passwd", "", "tokenFile"),
            ("client-certificate: a.pem, client-key-data: eA==", "", "client-certificate"),
            ("client-key: a.pem", "", "client-key"),
            ("exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}", "", "exec"),
            ("auth-provider: {name: x, config: {}}", "", "auth-provider"),
            ("token: x", ", certificate-authority: /etc/ca.pem", "certificate-authority"),
        ] {
            let error = Inline::read(&kubeconfig(user, cluster)).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(&format!("`{key}`")), "{user}{cluster}: {error}");
        }
        let secret = Inline::read("token: [secret").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!secret.contains("secret") && secret.contains("cannot be read"), "{secret}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_kubeconfig_has_one_client_while_it_is_used() {
        let (clusters, own) = (OtherClusters::default(), Script::new(|_| Ok(answer(200, "{}"))).client().await);
        let text = kubeconfig("token: x", "");
        let count = || clusters.0.lock().len();
        clusters.client(&text, &own).unwrap();
        clusters.client(&text, &own).unwrap();
        assert_eq!(count(), 1);
        for number in 0..MOST {
            clusters.client(&kubeconfig(&format!("token: x{number}"), ""), &own).unwrap();
        }
        assert_eq!(count(), MOST);
        tokio::time::advance(IDLE).await;
        clusters.client(&text, &own).unwrap();
        assert_eq!(count(), 1);
    }
}

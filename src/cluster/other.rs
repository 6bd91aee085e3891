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
use super::guard::{self, Guard};
use super::resource_resolver::ResourceResolver;
use super::settings::{ConnectionSettings, Networking};
use super::transport::{Connection, Login};

/// Clients that were not used during this time are closed.
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
    /// Returns the client of a kubeconfig's current context, with its kinds. It has the settings, the clock and the
    /// fence of the operator's own client. The same text with the same guard gives the same client, while it is in use.
    ///
    /// # Errors
    /// If the kubeconfig cannot be read, if it names files or programs, which would be those of this machine, or if its
    /// server or its proxy may not be connected with.
    pub fn client(
        &self,
        kubeconfig: &str,
        guarded: &Guarded,
        own: &Client,
    ) -> Result<(Client, Arc<ResourceResolver>), LoginError> {
        let mut hasher = DefaultHasher::new();
        (kubeconfig, &guarded.name).hash(&mut hasher);
        let (key, now) = (hasher.finish(), Instant::now());
        let mut known = self.0.lock();
        known.retain(|_, one| now.duration_since(one.used_at) < IDLE);
        if let Some(one) = known.get_mut(&key) {
            one.used_at = now;
            return Ok((one.client.clone(), Arc::clone(&one.resolver)));
        }
        let login = Inline::read(kubeconfig, &guarded.guard)?;
        login.check(&own.settings().networking)?;
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

/// The guard of other clusters, with a name for the servers that it allows.
pub struct Guarded {
    /// A name for the servers that it allows, in any form.
    pub name: String,
    /// The guard.
    pub guard: Arc<dyn Guard>,
}

/// A login by a kubeconfig that consists of data.
struct Inline {
    kubeconfig: Kubeconfig,
    guard: Arc<dyn Guard>,
}

impl Inline {
    fn read(text: &str, guard: &Arc<dyn Guard>) -> Result<Self, LoginError> {
        // The text of the error may quote the content, which is secret.
        let read = Kubeconfig::from_yaml(text);
        let kubeconfig = read.map_err(|_| LoginError::Kubeconfig("the kubeconfig cannot be read".to_owned()))?;
        match foreign(&kubeconfig) {
            None => Ok(Self { kubeconfig, guard: Arc::clone(guard) }),
            Some(what) => Err(LoginError::Kubeconfig(format!(
                "`{what}` is refused: the kubeconfig of another cluster has all as data"
            ))),
        }
    }

    /// Checks the server and the proxy by their names.
    fn check(&self, networking: &Networking) -> Result<(), LoginError> {
        let config = config::resolve(self.kubeconfig.clone(), networking)?;
        let own_proxy = config::proxy(&self.kubeconfig).and_then(|_| config.proxy_url.clone());
        for server in std::iter::once(&config.cluster_url).chain(&own_proxy) {
            guard::check(&*self.guard, server).map_err(|refused| LoginError::Kubeconfig(refused.to_string()))?;
        }
        Ok(())
    }
}

/// Returns the key of a part that is not data: a file, or a program.
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
        let (kubeconfig, guard) = (self.kubeconfig.clone(), Arc::clone(&self.guard));
        Box::pin(async move {
            let opened = config::blocking(move || {
                let own_proxy = config::proxy(&kubeconfig);
                let config = config::resolve(kubeconfig, &settings.networking)?;
                // The proxies of the environment are the administrator's choice, and find the addresses themselves.
                let is_of_environment = config.proxy_url.is_some() && own_proxy.is_none();
                config::open_guarded(config, None, &settings, Some(&guard).filter(|_| !is_of_environment))
            });
            opened.await.map(|connection| vec![connection])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::script::{Script, answer};
    use super::*;
    use std::net::IpAddr;

    fn kubeconfig(user: &str, cluster: &str) -> String {
        format!(
            "{{current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
              clusters: [{{name: a, cluster: {{server: \"https://127.0.0.1:1\"{cluster}}}}}], users: [{{name: a, user: {{{user}}}}}]}}"
        )
    }

    struct NotTheMachine;

    impl Guard for NotTheMachine {
        fn refusal_of_server(&self, host: &str, port: u16) -> Option<String> {
            (host == "unlisted").then(|| format!("{host}:{port} is not listed"))
        }

        fn refusal_of_address(&self, host: &str, address: IpAddr) -> Option<String> {
            address.is_loopback().then(|| format!("{host} is the machine"))
        }
    }

    struct Anywhere;

    impl Guard for Anywhere {
        fn refusal_of_server(&self, _: &str, _: u16) -> Option<String> {
            None
        }

        fn refusal_of_address(&self, _: &str, _: IpAddr) -> Option<String> {
            None
        }
    }

    fn anywhere() -> Guarded {
        Guarded { name: String::new(), guard: Arc::new(Anywhere) }
    }

    #[test]
    fn kubeconfigs_with_files_or_programs_of_this_machine_are_refused() {
        assert!(Inline::read(&kubeconfig("token: x", ""), &anywhere().guard).is_ok());
        for (user, cluster, key) in [
            ("tokenFile: /etc/passwd", "", "tokenFile"),
            ("client-certificate: a.pem, client-key-data: eA==", "", "client-certificate"),
            ("client-key: a.pem", "", "client-key"),
            ("exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}", "", "exec"),
            ("auth-provider: {name: x, config: {}}", "", "auth-provider"),
            ("token: x", ", certificate-authority: /etc/ca.pem", "certificate-authority"),
        ] {
            let error = Inline::read(&kubeconfig(user, cluster), &anywhere().guard)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert!(error.contains(&format!("`{key}`")), "{user}{cluster}: {error}");
        }
        let secret =
            Inline::read("token: [secret", &anywhere().guard).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!secret.contains("secret") && secret.contains("cannot be read"), "{secret}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_kubeconfig_has_one_client_while_it_is_used() {
        let (clusters, own) = (OtherClusters::default(), Script::new(|_| Ok(answer(200, "{}"))).client().await);
        let text = kubeconfig("token: x", "");
        let count = || clusters.0.lock().len();
        clusters.client(&text, &anywhere(), &own).unwrap();
        clusters.client(&text, &anywhere(), &own).unwrap();
        assert_eq!(count(), 1);
        for number in 0..MOST {
            clusters.client(&kubeconfig(&format!("token: x{number}"), ""), &anywhere(), &own).unwrap();
        }
        assert_eq!(count(), MOST);
        tokio::time::advance(IDLE).await;
        clusters.client(&text, &anywhere(), &own).unwrap();
        assert_eq!(count(), 1);
    }

    #[tokio::test]
    async fn servers_and_proxies_are_checked_by_their_names_and_by_what_these_stand_for() {
        let (clusters, own) = (OtherClusters::default(), Script::new(|_| Ok(answer(200, "{}"))).client().await);
        let guarded = Guarded { name: "no machine".to_owned(), guard: Arc::new(NotTheMachine) };
        let refusal = |cluster: &str| {
            let text = kubeconfig("token: x", "").replace("server: \"https://127.0.0.1:1\"", cluster);
            clusters.client(&text, &guarded, &own).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(refusal("server: \"https://[::1]:6443\""), "failed to use the kubeconfig: ::1 is the machine");
        assert_eq!(
            refusal("server: \"https://unlisted:6443\""),
            "failed to use the kubeconfig: unlisted:6443 is not listed"
        );
        let proxied = "server: \"https://example.com\", proxy-url: \"http://127.0.0.1:3128\"";
        assert_eq!(refusal(proxied), "failed to use the kubeconfig: 127.0.0.1 is the machine");
        assert_eq!(refusal("server: \"https://example.com\""), "");
        // A name is checked when it is looked up.
        for (user, cluster) in [("localhost", ""), ("example.com", ", proxy-url: \"http://localhost:3128\"")] {
            let text = kubeconfig("token: x", cluster).replace("127.0.0.1:1", &format!("{user}:1"));
            let (client, _) = clusters.client(&text, &guarded, &own).unwrap();
            let error = client.request(&super::super::client::Request::get("/version")).await.unwrap_err().chain();
            assert_eq!(error, "failed to use the kubeconfig: localhost is the machine", "{text}");
        }
        assert_eq!(clusters.0.lock().len(), 3);
    }
}

//! The address of the developer's machine for the API server: the host by the kind of the cluster, which its
//! certificate shows.

use std::time::Duration;

use tracing::{info, warn};

use crate::cluster::{Client, Request};
use crate::http::{PeerCertificate, presented_certificate};
use crate::manifest::admission::{ServerKind, word_of};

/// The time limit for reading the certificate of the API server.
const LIMIT: Duration = Duration::from_secs(5);

/// The way in which the API server reaches a server of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// At its own address, by a host other than the address if the API server needs another one.
    Direct(Option<&'static str>),
    /// Through a tunnel.
    Tunnel,
}

/// Returns the host by which API servers of a kind of cluster reach the machine.
fn host_of(kind: ServerKind) -> Option<&'static str> {
    match kind {
        ServerKind::K3d => Some("host.k3d.internal"),
        ServerKind::Minikube => Some("host.minikube.internal"),
        ServerKind::DockerDesktop => Some("host.docker.internal"),
        ServerKind::Server | ServerKind::Ngrok | ServerKind::AutoServer | ServerKind::AutoTunnel => None,
    }
}

/// Returns the route of a kind of server. `guess` is the kind of the cluster, for kinds that depend on it.
pub(crate) fn route(kind: ServerKind, guess: Option<ServerKind>) -> Route {
    match (kind, guess.and_then(host_of)) {
        (ServerKind::Ngrok, _) | (ServerKind::AutoTunnel, None) => Route::Tunnel,
        (ServerKind::AutoTunnel | ServerKind::AutoServer, host) => Route::Direct(host),
        (kind, _) => Route::Direct(host_of(kind)),
    }
}

/// Guesses the kind of the cluster by the certificate and the version of its API server. `None` if it is not a known
/// one.
pub(crate) fn guess(certificate: Option<&PeerCertificate>, version: Option<&str>) -> Option<ServerKind> {
    let by_certificate = certificate.and_then(|certificate| {
        let has = |parts: &[(String, String)], key: &str, is_meant: &dyn Fn(&str) -> bool| {
            parts.iter().any(|(name, value)| name == key && is_meant(value))
        };
        let (subject, issuer) = (&certificate.subject, &certificate.issuer);
        let is_k3s = |name: &str| name == "k3s";
        if has(subject, "commonName", &is_k3s)
            || has(subject, "organizationName", &is_k3s)
            || has(issuer, "commonName", &|name| name.starts_with("k3s-"))
        {
            return Some(ServerKind::K3d);
        }
        if has(subject, "commonName", &|name| name == "minikube")
            || has(issuer, "commonName", &|name| name == "minikubeCA")
        {
            return Some(ServerKind::Minikube);
        }
        let is_docker = certificate.alternative_names.iter().any(|(_, name)| name == "docker-for-desktop");
        is_docker.then_some(ServerKind::DockerDesktop)
    });
    by_certificate.or_else(|| version.is_some_and(|version| version.contains("+k3s")).then_some(ServerKind::K3d))
}

/// Finds the route of a kind of server. The cluster is asked only if the kind depends on it.
pub(crate) async fn detect(kind: ServerKind, client: &Client) -> Route {
    if !matches!(kind, ServerKind::AutoServer | ServerKind::AutoTunnel) {
        return route(kind, None);
    }
    let certificate = certificate_of(&client.server()).await;
    let guessed = match guess(certificate.as_ref(), None) {
        Some(guessed) => Some(guessed),
        None => guess(None, version(client).await.as_deref()),
    };
    let route = route(kind, guessed);
    match (guessed, &route) {
        (Some(guessed), _) => {
            info!(target: "kopfd::admission", "The cluster is taken for one of the kind {}.", word_of(guessed));
        }
        (None, Route::Tunnel) => {
            info!(target: "kopfd::admission", "The kind of the cluster is unknown: its requests come through a tunnel.");
        }
        (None, Route::Direct(_)) => warn!(
            target: "kopfd::admission",
            "The kind of the cluster is unknown: its API server must reach this machine by the address of the server, or by the setting `host`."
        ),
    }
    route
}

async fn certificate_of(server: &str) -> Option<PeerCertificate> {
    let address: http::Uri = server.parse().ok()?;
    let host = address.host().filter(|_| address.scheme_str() == Some("https"))?;
    presented_certificate(host, address.port_u16().unwrap_or(443), LIMIT).await.ok()
}

async fn version(client: &Client) -> Option<String> {
    let answer = client.request(&Request::get("/version")).await.ok()?.json().ok()?;
    answer.get("gitVersion")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Validity;
    use ServerKind::{AutoServer, AutoTunnel, DockerDesktop, K3d, Minikube, Ngrok, Server};

    fn certificate(subject: &[(&str, &str)], issuer: &[(&str, &str)], names: &[&str]) -> PeerCertificate {
        let parts = |parts: &[(&str, &str)]| {
            parts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        PeerCertificate {
            subject: parts(subject),
            issuer: parts(issuer),
            version: 3,
            serial_number: "1".to_owned(),
            validity: Validity::unlimited(),
            alternative_names: names.iter().map(|name| ("DNS".to_owned(), (*name).to_owned())).collect(),
        }
    }

    #[test]
    fn the_certificate_and_then_the_version_tell_the_kind_of_the_cluster() {
        let table = [
            (certificate(&[("commonName", "k3s")], &[], &[]), None, Some(K3d)),
            (certificate(&[("organizationName", "k3s")], &[], &[]), None, Some(K3d)),
            (certificate(&[], &[("commonName", "k3s-server-ca@1700000000")], &[]), None, Some(K3d)),
            (certificate(&[("commonName", "k3s-like")], &[("organizationName", "k3s")], &[]), None, None),
            (certificate(&[("commonName", "minikube")], &[], &[]), None, Some(Minikube)),
            (certificate(&[], &[("commonName", "minikubeCA")], &[]), None, Some(Minikube)),
            (
                certificate(&[], &[("commonName", "kubernetes")], &["localhost", "docker-for-desktop"]),
                None,
                Some(DockerDesktop),
            ),
            (
                certificate(&[("commonName", "kube-apiserver")], &[("commonName", "kubernetes")], &["localhost"]),
                None,
                None,
            ),
            (certificate(&[("commonName", "kube-apiserver")], &[], &[]), Some("v1.31.2+k3s1"), Some(K3d)),
            (certificate(&[("commonName", "minikube")], &[], &[]), Some("v1.31.2+k3s1"), Some(Minikube)),
            (certificate(&[], &[], &[]), Some("v1.31.2"), None),
        ];
        for (certificate, version, expected) in table {
            assert_eq!(guess(Some(&certificate), version), expected, "{certificate:?} {version:?}");
        }
        assert_eq!((guess(None, Some("v1.30.0+k3s2")), guess(None, None)), (Some(K3d), None));
    }

    #[test]
    fn kinds_have_their_hosts_and_automatic_ones_that_of_the_cluster() {
        let direct = |host| Route::Direct(Some(host));
        let table = [
            (Server, None, Route::Direct(None)),
            (Server, Some(K3d), Route::Direct(None)),
            (K3d, None, direct("host.k3d.internal")),
            (Minikube, None, direct("host.minikube.internal")),
            (DockerDesktop, None, direct("host.docker.internal")),
            (Ngrok, Some(K3d), Route::Tunnel),
            (AutoServer, Some(K3d), direct("host.k3d.internal")),
            (AutoServer, None, Route::Direct(None)),
            (AutoTunnel, Some(DockerDesktop), direct("host.docker.internal")),
            (AutoTunnel, None, Route::Tunnel),
        ];
        for (kind, guess, expected) in table {
            assert_eq!(route(kind, guess), expected, "{kind:?} {guess:?}");
        }
    }
}

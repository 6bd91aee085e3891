//! Servers of other clusters: which ones a kubeconfig in a Secret may lead to.

use std::net::IpAddr;
use std::sync::Arc;

use url::Url;

use super::hosts::{Grants, is_listed};

/// The clusters that `allow.clusters` allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AllowedClusters {
    /// None.
    #[default]
    Nothing,
    /// All whose addresses are ordinary ones.
    Ordinary,
    /// Those of listed hosts, in the form of `allow.http`. Without a port, an entry stands for all ports: API servers
    /// have no usual one.
    Listed(Vec<String>),
}

/// Knows the addresses that a name may not stand for.
pub trait AddressRule: Send + Sync {
    /// Returns the kind of an address, unless it is an ordinary one, or granted.
    fn refusal(&self, name: &str, address: IpAddr, grants: &Grants) -> Option<&'static str>;
}

/// Decides which servers may be connected with.
#[derive(Clone)]
pub struct ServerRule {
    allowed: AllowedClusters,
    grants: Grants,
    addresses: Arc<dyn AddressRule>,
}

impl ServerRule {
    /// Returns the rule of a manifest.
    pub fn new(allowed: AllowedClusters, addresses: Arc<dyn AddressRule>) -> Self {
        let grants = match &allowed {
            AllowedClusters::Listed(hosts) => Grants::of(hosts),
            AllowedClusters::Nothing | AllowedClusters::Ordinary => Grants::default(),
        };
        Self { allowed, grants, addresses }
    }

    /// Returns the allowed clusters.
    pub fn allowed(&self) -> &AllowedClusters {
        &self.allowed
    }

    /// Returns why a server may not be connected with, by its name and port.
    pub fn refusal_of_server(&self, host: &str, port: u16) -> Option<String> {
        let is_listed = match &self.allowed {
            AllowedClusters::Nothing => false,
            AllowedClusters::Ordinary => true,
            AllowedClusters::Listed(hosts) => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
                Url::parse(&format!("https://{host}:{port}")).is_ok_and(|url| is_listed(hosts, &url))
            }
        };
        (!is_listed).then(|| format!("the server {host}:{port} is not listed under `allow.clusters`"))
    }

    /// Returns why the name of a server may not stand for an address.
    pub fn refusal_of_address(&self, host: &str, address: IpAddr) -> Option<String> {
        let what = self.addresses.refusal(&host.to_ascii_lowercase(), address, &self.grants)?;
        let host = if host.parse() == Ok(address) { host.to_owned() } else { format!("{host} ({address})") };
        Some(format!("the server {host} is {what}, which is not listed under `allow.clusters`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refuses one address.
    struct Loopback;

    impl AddressRule for Loopback {
        fn refusal(&self, _: &str, address: IpAddr, grants: &Grants) -> Option<&'static str> {
            (address.is_loopback() && !grants.addresses.contains(&address))
                .then_some("an address of the machine itself")
        }
    }

    fn listed(hosts: &[&str]) -> ServerRule {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        ServerRule::new(AllowedClusters::Listed(hosts), Arc::new(Loopback))
    }

    #[test]
    fn listed_hosts_are_allowed_at_every_port_unless_they_have_one() {
        let rule = listed(&["*.example.com", "10.0.0.1:6443", "::1"]);
        for (host, port, is_allowed) in [
            ("a.example.com", 443, true),
            ("a.example.com", 6443, true),
            ("example.com", 6443, false),
            ("10.0.0.1", 6443, true),
            ("10.0.0.1", 443, false),
            ("::1", 6443, true),
            ("a b", 443, false),
        ] {
            assert_eq!(rule.refusal_of_server(host, port).is_none(), is_allowed, "{host}:{port}");
        }
        let ordinary = ServerRule::new(AllowedClusters::Ordinary, Arc::new(Loopback));
        assert_eq!(ordinary.refusal_of_server("a.example.com", 1), None);
        let nothing = ServerRule::new(AllowedClusters::Nothing, Arc::new(Loopback));
        assert!(nothing.refusal_of_server("a.example.com", 1).is_some());
    }

    #[test]
    fn unusual_addresses_must_be_listed_themselves() {
        let (ordinary, loopback) =
            (ServerRule::new(AllowedClusters::Ordinary, Arc::new(Loopback)), "127.0.0.1".parse().unwrap());
        let refusal = ordinary.refusal_of_address("evil.example.com", loopback).unwrap();
        assert_eq!(
            refusal,
            "the server evil.example.com (127.0.0.1) is an address of the machine itself, which is not listed under `allow.clusters`"
        );
        assert!(
            ordinary
                .refusal_of_address("127.0.0.1", loopback)
                .unwrap()
                .starts_with("the server 127.0.0.1 is an address")
        );
        assert_eq!(ordinary.refusal_of_address("evil.example.com", "10.0.0.1".parse().unwrap()), None);
        assert_eq!(listed(&["127.0.0.1:6443"]).refusal_of_address("127.0.0.1", loopback), None);
    }
}

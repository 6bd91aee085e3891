//! The hosts that `allow.http` lists.

use std::collections::BTreeSet;
use std::net::IpAddr;

use url::{Host, Url};

/// The hosts that a list allows by name, and not by a pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Network addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// Names, in small letters.
    pub names: BTreeSet<String>,
}

impl Grants {
    /// Returns the grants of a list.
    pub fn of(listed: &[String]) -> Self {
        let mut grants = Self::default();
        for entry in listed {
            match Entry::of(entry).host {
                Pattern::Address(address) => drop(grants.addresses.insert(address)),
                Pattern::Name(name) => drop(grants.names.insert(name)),
                Pattern::Below(_) => {}
            }
        }
        grants
    }
}

/// Tells whether a list of hosts allows an address: by its host, and by its port. Without a port, an entry allows the
/// port of the scheme.
pub fn is_allowed(listed: &[String], url: &Url) -> bool {
    let Some(host) = url.host() else { return false };
    // An address has no port if it is that of the scheme.
    let given = url.port_or_known_default();
    let default = if url.port().is_none() { given } else { None };
    listed.iter().any(|entry| Entry::of(entry).allows(&host, given, default))
}

/// Tells whether a list of hosts allows a port of a host. Without a port, an entry allows the default port.
pub fn is_place_allowed(listed: &[String], host: &Host<&str>, port: u16, default: u16) -> bool {
    listed.iter().any(|entry| Entry::of(entry).allows(host, Some(port), Some(default)))
}

/// Tells whether a list of hosts has that of an address, at its port, or without a port.
pub(super) fn is_listed(listed: &[String], url: &Url) -> bool {
    let Some(host) = url.host() else { return false };
    let fits =
        |entry: &Entry| entry.is_host(&host) && entry.port.is_none_or(|port| url.port_or_known_default() == Some(port));
    listed.iter().any(|text| fits(&Entry::of(text)))
}

struct Entry {
    host: Pattern,
    port: Option<u16>,
}

enum Pattern {
    Address(IpAddr),
    Name(String),
    /// Every host below a domain, which begins with a dot.
    Below(String),
}

impl Entry {
    fn of(text: &str) -> Self {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Self { host: Pattern::Address(address.to_canonical()), port: None };
        }
        let (host, port) = match text.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
            Some((host, Ok(port))) => (host, Some(port)),
            _ => (text, None),
        };
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let host = match (address, name.strip_prefix('*')) {
            (Ok(address), _) => Pattern::Address(address.to_canonical()),
            (_, Some(suffix)) => Pattern::Below(suffix.to_owned()),
            _ => Pattern::Name(name),
        };
        Self { host, port }
    }

    fn allows(&self, host: &Host<&str>, port: Option<u16>, default: Option<u16>) -> bool {
        let wanted = self.port.or(default);
        wanted.is_some() && wanted == port && self.is_host(host)
    }

    fn is_host(&self, host: &Host<&str>) -> bool {
        match (&self.host, host) {
            (Pattern::Address(address), Host::Ipv4(host)) => *address == IpAddr::V4(*host),
            (Pattern::Address(address), Host::Ipv6(host)) => *address == IpAddr::V6(*host).to_canonical(),
            (Pattern::Name(name), Host::Domain(host)) => name == host.trim_end_matches('.'),
            (Pattern::Below(suffix), Host::Domain(host)) => {
                let host = host.trim_end_matches('.');
                host.len() > suffix.len() && host.ends_with(suffix.as_str())
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(entry: &str, url: &str) -> bool {
        is_allowed(&[entry.to_owned()], &Url::parse(url).unwrap())
    }

    #[test]
    fn names_are_allowed_as_they_are_with_the_port_of_the_scheme() {
        for url in [
            "https://api.example.com/x",
            "http://api.example.com",
            "https://API.Example.com:443/",
            "https://api.example.com./",
        ] {
            assert!(allowed("api.example.com", url), "{url}");
        }
        for url in [
            "https://x.api.example.com",
            "https://example.com",
            "https://api.example.com:8443",
            "https://api.example.com.evil.org",
        ] {
            assert!(!allowed("api.example.com", url), "{url}");
        }
        assert!(allowed("api.example.com:8443", "https://api.example.com:8443"));
        assert!(!allowed("api.example.com:8443", "https://api.example.com"));
        assert!(allowed("api.example.com:443", "https://api.example.com"));
    }

    #[test]
    fn a_star_stands_for_names_below_a_domain() {
        assert!(allowed("*.svc:8443", "https://a.b.svc:8443"));
        assert!(!allowed("*.svc:8443", "https://svc:8443"));
        assert!(!allowed("*.svc", "https://evilsvc"));
        assert!(!allowed("*.1", "http://127.0.0.1"));
    }

    #[test]
    fn addresses_are_allowed_by_every_spelling_of_the_same_one() {
        for url in ["http://127.0.0.1/", "http://0x7f.1/", "http://2130706433/", "http://[::ffff:127.0.0.1]/"] {
            assert!(allowed("127.0.0.1", url), "{url}");
            assert!(!allowed("*.0.0.1", url), "{url}");
            assert!(!allowed("localhost", url), "{url}");
        }
        assert!(allowed("[::1]:8080", "http://[0:0::1]:8080"));
        assert!(allowed("fe80::1", "http://[fe80::1]"));
    }

    #[test]
    fn patterns_grant_nothing_by_name() {
        let listed = ["*.example.com", "Localhost:80", "[::1]:443", "10.0.0.1"].map(str::to_owned);
        let grants = Grants::of(&listed);
        assert_eq!(grants.names, BTreeSet::from(["localhost".to_owned()]));
        assert_eq!(grants.addresses, ["::1", "10.0.0.1"].iter().map(|address| address.parse().unwrap()).collect());
    }
}

//! Which network addresses a name may stand for.
//!
//! A name that stands for an address of the machine, of its link, or of the API server would let the owner of the name
//! reach servers that the manifest does not name: such addresses need an entry of their own.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::script::outside::Grants;

/// Addresses of the metadata services of clouds outside of the link-local ranges.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Returns why a name may not stand for an address; `None` if it may. `name` is in small letters.
pub(crate) fn refusal(
    name: &str,
    address: IpAddr,
    grants: &Grants,
    api_server: &ApiServerNames,
) -> Option<&'static str> {
    let plain = plain(address);
    if grants.addresses.contains(&address.to_canonical()) || grants.addresses.contains(&plain) {
        return None;
    }
    let is_named = grants.names.contains(name);
    let kind = special(plain);
    if kind == Some(LOOPBACK) && is_named && (name == "localhost" || name.ends_with(".localhost")) {
        return None;
    }
    if kind.is_some() {
        return kind;
    }
    let is_api_server = api_server.addresses.contains(&plain);
    (is_api_server && !(is_named && api_server.is_own(name))).then_some("an address of the API server")
}

/// The names and the addresses of the API server.
#[derive(Debug, Default)]
pub(crate) struct ApiServerNames {
    /// Its names, in small letters.
    pub names: BTreeSet<String>,
    /// Its addresses.
    pub addresses: BTreeSet<IpAddr>,
}

impl ApiServerNames {
    /// Tells whether a name is one of the API server: that of its address, or that of its Service.
    pub(super) fn is_own(&self, name: &str) -> bool {
        let is_service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"].contains(&name);
        is_service || name.starts_with("kubernetes.default.svc.") || self.names.contains(name)
    }
}

const LOOPBACK: &str = "an address of the machine itself";

/// Returns the kind of an address, if it is not an ordinary one.
fn special(address: IpAddr) -> Option<&'static str> {
    if METADATA.contains(&address) {
        return Some("an address of the cloud's metadata");
    }
    let (is_link_local, is_unspecified, is_broadcast) = match address {
        // All of 0.0.0.0/8 means this host.
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[0] == 0, v4.is_broadcast()),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.is_unspecified(), false),
    };
    let kinds = [
        (address.is_loopback(), LOOPBACK),
        (is_link_local, "a link-local address"),
        (is_unspecified, "an unspecified address"),
        (is_broadcast || address.is_multicast(), "an address of many hosts"),
    ];
    kinds.into_iter().find_map(|(is_one, kind)| is_one.then_some(kind))
}

/// Returns the IPv4 address in an IPv6 address that stands for one: mapped, compatible, of a NAT64, or of 6to4.
pub(super) fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let segments = v6.segments();
    let of = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Unspecified and loopback.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => address,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            of(high, low)
        }
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(name: &str, address: &str, listed: &[&str]) -> bool {
        let listed: Vec<String> = listed.iter().map(|entry| (*entry).to_owned()).collect();
        let api_server = ApiServerNames {
            names: BTreeSet::from(["master.example.com".to_owned()]),
            addresses: BTreeSet::from(["10.96.0.1".parse().unwrap()]),
        };
        refusal(name, address.parse().unwrap(), &Grants::of(&listed), &api_server).is_some()
    }

    #[test]
    fn a_name_does_not_stand_for_addresses_of_the_machine_its_link_or_nothing() {
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "100.100.100.200",
            "::1",
            "::",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
        ] {
            assert!(is_refused("api.example.com", address, &["api.example.com"]), "{address}");
            assert!(is_refused("api.example.com", address, &["*.example.com", "localhost"]), "{address}");
        }
        for address in ["1.2.3.4", "10.0.0.5", "192.168.1.1", "2001:db8::1", "fd00::1", "::ffff:1.2.3.4"] {
            assert!(!is_refused("api.example.com", address, &["api.example.com"]), "{address}");
        }
    }

    #[test]
    fn listed_addresses_and_localhost_are_named() {
        assert!(!is_refused("api.example.com", "127.0.0.1", &["api.example.com", "127.0.0.1:8080"]));
        assert!(!is_refused("api.example.com", "::ffff:127.0.0.1", &["127.0.0.1"]));
        assert!(!is_refused("api.example.com", "169.254.169.254", &["169.254.169.254"]));
        assert!(!is_refused("localhost", "127.0.0.1", &["localhost"]));
        assert!(!is_refused("a.localhost", "::1", &["a.localhost:8080"]));
        assert!(is_refused("a.localhost", "::1", &["*.localhost"]));
        assert!(is_refused("localhost", "169.254.169.254", &["localhost"]));
    }

    #[test]
    fn the_api_server_is_reached_by_its_own_names_only() {
        assert!(is_refused("api.example.com", "10.96.0.1", &["api.example.com"]));
        assert!(is_refused("api.example.com", "::ffff:10.96.0.1", &["api.example.com"]));
        assert!(!is_refused("kubernetes.default.svc", "10.96.0.1", &["kubernetes.default.svc"]));
        assert!(!is_refused("master.example.com", "10.96.0.1", &["master.example.com"]));
        assert!(is_refused("kubernetes.default.svc", "10.96.0.1", &["*.default.svc"]));
        assert!(!is_refused("api.example.com", "10.96.0.1", &["api.example.com", "10.96.0.1"]));
    }
}

//! `ip::`: IP addresses and networks.

use std::net::IpAddr;

use ipnet::IpNet;
use rhai::{Array, Dynamic, Engine, Map, Module};

use crate::script::functions::options::text;
use crate::script::functions::support::{Given, Native, Thrown, WorkCounter, may_have_items, one, two, unreadable};
use crate::script::limits::Limit;
use crate::script::runtime::bounded;

/// The memory of an address in a list.
const BYTES_PER_ADDRESS: usize = 96;

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    one(&mut module, "parse", |_, given| parse(given));
    one(&mut module, "is_valid", |_, given| {
        Ok(given
            .as_immutable_string_ref()
            .is_ok_and(|text| text.parse::<IpAddr>().is_ok() || text.parse::<IpNet>().is_ok())
            .into())
    });
    two(&mut module, "contains", |_, network, part| contains(network, part));
    one(&mut module, "hosts", hosts);
    engine.register_static_module("ip", module.into());
}

/// Reads a network; an address is the network with this address only.
fn network(function: &str, given: &Dynamic) -> Result<IpNet, Thrown> {
    let written = text(function, "the address", given)?;
    let found = written.parse().or_else(|_| written.parse::<IpAddr>().map(IpNet::from));
    found.map_err(|_| {
        unreadable(
            function,
            format!(
                "{:?} is no IP address or network, as \"10.0.0.1\" or \"10.0.0.0/24\"",
                bounded::shortened(&written)
            ),
        )
    })
}

/// `ip::parse(text)`: a map with `address`, `version`, `prefix`, `network`, `first`, `last`, `netmask`, and whether it
/// `is_private`, `is_loopback`, `is_link_local`, `is_multicast`.
fn parse(given: &Dynamic) -> Given {
    let network = network("ip::parse", given)?;
    let address = network.addr();
    let (is_private, is_link_local) = match address {
        IpAddr::V4(address) => (address.is_private(), address.is_link_local()),
        IpAddr::V6(address) => (address.is_unique_local(), address.is_unicast_link_local()),
    };
    let parts: [(&str, Dynamic); 11] = [
        ("address", address.to_string().into()),
        ("version", if address.is_ipv4() { 4_i64 } else { 6 }.into()),
        ("prefix", i64::from(network.prefix_len()).into()),
        ("network", network.trunc().to_string().into()),
        ("first", network.network().to_string().into()),
        ("last", network.broadcast().to_string().into()),
        ("netmask", network.netmask().to_string().into()),
        ("is_private", is_private.into()),
        ("is_loopback", address.is_loopback().into()),
        ("is_link_local", is_link_local.into()),
        ("is_multicast", address.is_multicast().into()),
    ];
    Ok(parts.into_iter().map(|(name, part)| (name.into(), part)).collect::<Map>().into())
}

/// `ip::contains(network, part)`: whether an address, or a whole network, is in a network.
fn contains(outer: &Dynamic, part: &Dynamic) -> Given {
    let (outer, part) = (network("ip::contains", outer)?, network("ip::contains", part)?);
    Ok(outer.contains(&part).into())
}

/// `ip::hosts(network)`: a list of the addresses of hosts: in IPv4 without that of the network and the one for
/// broadcasts.
fn hosts(native: &Native<'_>, given: &Dynamic) -> Given {
    let network = network("ip::hosts", given)?;
    let free = network.max_prefix_len() - network.prefix_len();
    let count = 1_usize.checked_shl(u32::from(free)).ok_or_else(|| bounded::refused(Limit::ArraySize))?;
    let count = if network.addr().is_ipv4() && free > 1 { count - 2 } else { count };
    may_have_items(native, count)?;
    bounded::reserve(count.saturating_mul(BYTES_PER_ADDRESS))?;
    let mut hosts = Array::new();
    let mut work = WorkCounter::default();
    for host in network.hosts() {
        work.spend(BYTES_PER_ADDRESS)?;
        hosts.push(host.to_string().into());
    }
    Ok(hosts.into())
}

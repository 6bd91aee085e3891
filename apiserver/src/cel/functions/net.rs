//! IP addresses and networks.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Function, Outcome, failed, no_such_overload};
use crate::cel::evaluate::Error;
use crate::cel::value::Value;

/// A network: an address, of which the first bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    /// The address, with all its bits.
    pub(crate) address: IpAddr,
    bits: u8,
}

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "ip" => |arguments| match arguments {
            [Value::String(text)] => address(text).map(Value::Ip),
            [Value::Cidr(network)] => Ok(Value::Ip(network.address)),
            _ => Err(no_such_overload()),
        },
        "isIP" => |arguments| text(arguments).map(|text| Value::Bool(address(text).is_ok())),
        "ip.isCanonical" => |arguments| {
            let text = text(arguments)?;
            address(text).map(|address| Value::Bool(address.to_string() == text))
        },
        "family" => |arguments| match arguments {
            [Value::Ip(address)] => Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
            _ => Err(no_such_overload()),
        },
        "isUnspecified" => |arguments| test(arguments, IpAddr::is_unspecified),
        "isLoopback" => |arguments| test(arguments, IpAddr::is_loopback),
        "isLinkLocalMulticast" => |arguments| test(arguments, is_link_local_multicast),
        "isLinkLocalUnicast" => |arguments| test(arguments, is_link_local_unicast),
        "isGlobalUnicast" => |arguments| test(arguments, is_global_unicast),
        "cidr" => |arguments| Network::parse(text(arguments)?).map(Value::Cidr),
        "isCIDR" => |arguments| text(arguments).map(|text| Value::Bool(Network::parse(text).is_ok())),
        "containsIP" => |arguments| match arguments {
            [Value::Cidr(network), Value::Ip(address)] => Ok(Value::Bool(network.contains(*address))),
            [Value::Cidr(network), Value::String(text)] => Ok(Value::Bool(network.contains(address(text)?))),
            _ => Err(no_such_overload()),
        },
        "containsCIDR" => |arguments| match arguments {
            [Value::Cidr(network), Value::Cidr(other)] => Ok(Value::Bool(network.contains_network(*other))),
            [Value::Cidr(network), Value::String(text)] => Ok(Value::Bool(network.contains_network(Network::parse(text)?))),
            _ => Err(no_such_overload()),
        },
        "prefixLength" => |arguments| network(arguments).map(|network| Value::Int(network.bits.into())),
        "masked" => |arguments| network(arguments).map(|network| Value::Cidr(network.masked())),
        _ => return None,
    })
}

fn text(arguments: &[Value]) -> Result<&str, Error> {
    match arguments {
        [Value::String(text)] => Ok(text),
        _ => Err(no_such_overload()),
    }
}

fn network(arguments: &[Value]) -> Result<Network, Error> {
    match arguments {
        [Value::Cidr(network)] => Ok(*network),
        _ => Err(no_such_overload()),
    }
}

fn test(arguments: &[Value], holds: fn(&IpAddr) -> bool) -> Outcome {
    match arguments {
        [Value::Ip(address)] => Ok(Value::Bool(holds(address))),
        _ => Err(no_such_overload()),
    }
}

/// Addresses with zones and those of version 4 in the form of version 6 are none to Kubernetes.
fn address(text: &str) -> Result<IpAddr, Error> {
    if let Some((address, _)) = text.split_once('%')
        && address.parse::<Ipv6Addr>().is_ok()
    {
        return Err(failed(format!("IP address {text:?} with zone value is not allowed")));
    }
    let address: IpAddr = text.parse().map_err(|_| {
        failed(format!("IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"))
    })?;
    unmapped(text, address)
}

fn unmapped(text: &str, address: IpAddr) -> Result<IpAddr, Error> {
    match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
            Err(failed(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        address => Ok(address),
    }
}

fn is_link_local_multicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_global_unicast(address: &IpAddr) -> bool {
    let is_special = address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_link_local_unicast(address);
    !is_special && *address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

impl Network {
    fn parse(text: &str) -> Result<Self, Error> {
        let lead = "network address parse error during conversion from string: ";
        let wrong = |why: &str| failed(format!("{lead}{lead}netip.ParsePrefix({text:?}): {why}"));
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
        let address: IpAddr = address.parse().map_err(|_| wrong("ParseAddr: unable to parse IP"))?;
        let is_number = bits.bytes().all(|byte| byte.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
        let bits: u8 = bits.parse().ok().filter(|_| is_number).ok_or_else(|| wrong("bad bits after slash"))?;
        if bits > length(address) {
            return Err(wrong("prefix length out of range"));
        }
        unmapped(text, address).map_err(|error| failed(format!("{lead}{error}")))?;
        Ok(Self { address, bits })
    }

    fn masked(self) -> Self {
        Self { address: masked(self.address, self.bits), ..self }
    }

    fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.bits) == self.masked().address
    }

    fn contains_network(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

impl Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.bits)
    }
}

fn length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)).into(),
    }
}

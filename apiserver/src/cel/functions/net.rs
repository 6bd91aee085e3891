//! IP addresses and networks.

use std::net::{IpAddr, Ipv4Addr};

use crate::cel::error::{Error, no_such_overload};
use crate::cel::function::{Function, Outcome};
use crate::cel::value::Value;
use crate::cel::value::network::{Network, address};

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
            [Value::Cidr(network), Value::String(text)] => {
                Ok(Value::Bool(network.contains_network(Network::parse(text)?)))
            }
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
    let is_special =
        address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_link_local_unicast(address);
    !is_special && *address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

//! IP addresses and networks as texts.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cel::error::{Error, failed};

/// A network: an address and the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    /// The address, with all its bits.
    pub(crate) address: IpAddr,
    /// The length of the prefix in bits.
    pub(in crate::cel) bits: u8,
}

/// Kubernetes refuses addresses with zones, and IPv4 addresses in the form of IPv6.
pub(in crate::cel) fn address(text: &str) -> Result<IpAddr, Error> {
    if let Some((address, _)) = text.split_once('%')
        && address.parse::<Ipv6Addr>().is_ok()
    {
        return Err(failed(format!("IP address {text:?} with zone value is not allowed")));
    }
    let address: IpAddr = text.parse().map_err(|_| {
        failed(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        ))
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

impl Network {
    pub(in crate::cel) fn parse(text: &str) -> Result<Self, Error> {
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

    pub(in crate::cel) fn masked(self) -> Self {
        Self { address: masked(self.address, self.bits), ..self }
    }

    pub(in crate::cel) fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.bits) == self.masked().address
    }

    pub(in crate::cel) fn contains_network(self, other: Self) -> bool {
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
        IpAddr::V4(address) => {
            Ipv4Addr::from_bits(address.to_bits() & u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)).into()
        }
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)).into()
        }
    }
}

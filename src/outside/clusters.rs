//! The addresses that servers of other clusters may have: the same as those of HTTP servers, and those of the
//! operator's own API server.

use std::net::IpAddr;

use super::addresses::{self, ApiServerNames};
use crate::script::outside::Grants;
use crate::script::outside::clusters::AddressRule;

/// The rule of this process.
pub(super) struct OrdinaryAddresses;

impl AddressRule for OrdinaryAddresses {
    fn refusal(&self, name: &str, address: IpAddr, grants: &Grants) -> Option<&'static str> {
        // An API server is what is wanted here, also the own one.
        addresses::refusal(name, address, grants, &ApiServerNames::default())
    }
}

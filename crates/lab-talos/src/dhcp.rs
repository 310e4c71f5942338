//! The DHCP server of a lab: addresses by MAC, and the options that a home router offers with them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use talmox_talos_config::network::Prefix;

/// A DHCP server on every bridge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dhcp {
    /// By MAC in lower case.
    pub(crate) leases: BTreeMap<String, Prefix>,
    /// The routers of the lab. Where none are named, every network has one at its first address.
    pub(crate) routers: Vec<IpAddr>,
}

/// What the server offers to one network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) address: Prefix,
    /// The default route, and as with most home routers also the resolver and the time server. None in a
    /// network without a router: a default route to nowhere would cut the node off.
    pub(crate) router: Option<IpAddr>,
    /// The router, where no weaker layer has the same default route already.
    pub(crate) router_in_use: Option<IpAddr>,
}

impl Lease {
    pub(crate) fn resolvers(&self) -> impl Iterator<Item = IpAddr> {
        self.router.into_iter()
    }

    pub(crate) fn time_servers(&self) -> impl Iterator<Item = String> {
        self.router.map(|router| router.to_string()).into_iter()
    }
}

impl Dhcp {
    pub(crate) fn lease(&self, mac: &str) -> Option<Lease> {
        let address = *self.leases.get(mac)?;
        let router = if self.routers.is_empty() {
            first_address(address)
        } else {
            self.routers.iter().copied().find(|router| address.contains(*router))
        };
        let router = router.filter(|router| *router != address.address());
        Some(Lease { address, router, router_in_use: router })
    }
}

/// The first address of a network that a host can have.
fn first_address(prefix: Prefix) -> Option<IpAddr> {
    let IpAddr::V4(address) = prefix.address() else { return None };
    let mask = u32::MAX.checked_shl(u32::from(32 - prefix.length())).unwrap_or_default();
    let first = (u32::from(address) & mask).checked_add(1)?;
    Some(IpAddr::V4(Ipv4Addr::from(first))).filter(|_| prefix.length() < 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(lease: &str, routers: &[&str]) -> Option<String> {
        let leases = BTreeMap::from([("mac".to_owned(), lease.parse().unwrap())]);
        let routers = routers.iter().map(|router| router.parse().unwrap()).collect();
        let lease = Dhcp { leases, routers }.lease("mac").unwrap();
        lease.router.map(|router| router.to_string())
    }

    #[test]
    fn a_network_has_the_router_that_is_named_or_its_first_address() {
        assert_eq!(router("10.0.0.11/24", &["10.9.0.1", "10.0.0.254"]).unwrap(), "10.0.0.254");
        assert_eq!(router("10.0.3.11/22", &[]).unwrap(), "10.0.0.1");
        assert_eq!(router("198.18.0.1/24", &["10.0.0.1"]), None);
        assert_eq!(router("198.18.0.1/24", &[]), None);
        assert_eq!(router("10.0.0.11/32", &[]), None);
    }
}

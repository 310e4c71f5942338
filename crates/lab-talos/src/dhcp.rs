//! DHCP server of a lab. It assigns addresses by MAC address, with the options of a typical home router.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use talmox_talos_config::network::Prefix;

/// DHCP server that serves every bridge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dhcp {
    /// Leases by MAC address in lower case.
    pub(crate) leases: BTreeMap<String, Prefix>,
    /// Routers of the lab. If none are configured, every network has a router at its first address.
    pub(crate) routers: Vec<IpAddr>,
}

/// DHCP lease of one network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) address: Prefix,
    /// Default gateway. As with most home routers, it is also the DNS resolver and the NTP server. `None` in a network without
    /// a router, because a default route to an unused address would disconnect the node.
    pub(crate) router: Option<IpAddr>,
    /// Default gateway that the node uses; `None` if a lower configuration layer has the same default route.
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

/// First host address of a network.
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
    fn the_router_is_the_configured_one_or_the_first_address() {
        assert_eq!(router("10.0.0.11/24", &["10.9.0.1", "10.0.0.254"]).unwrap(), "10.0.0.254");
        assert_eq!(router("10.0.3.11/22", &[]).unwrap(), "10.0.0.1");
        assert_eq!(router("198.18.0.1/24", &["10.0.0.1"]), None);
        assert_eq!(router("198.18.0.1/24", &[]), None);
        assert_eq!(router("10.0.0.11/32", &[]), None);
    }
}

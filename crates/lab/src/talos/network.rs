//! The network of a node: layers that add up, as Talos lays them.

use std::net::IpAddr;

use talmox_talos_config::network::Prefix;

/// What a node's network is at this moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Network {
    /// Without a domain.
    pub(crate) hostname: String,
    pub(crate) domain: String,
    pub(crate) links: Vec<Link>,
    pub(crate) nameservers: Vec<IpAddr>,
    /// Gateways of default routes, the one in use first.
    pub(crate) gateways: Vec<IpAddr>,
    /// Shared addresses that this node holds now.
    pub(crate) shared: Vec<IpAddr>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) mac: String,
    pub(crate) bridge: String,
    pub(crate) vlan: Option<u16>,
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
    /// In the order they were added, each with the layer that it came from.
    pub(crate) addresses: Vec<(Prefix, Layer)>,
}

/// Where a setting comes from; later ones are stronger, addresses of all add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    Platform,
    Operator,
    Configuration,
}

impl Layer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Operator => "operator",
            Self::Configuration => "configuration",
        }
    }
}

impl Network {
    /// Its own addresses, without shared ones.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.links.iter().flat_map(|link| link.addresses.iter().map(|(prefix, _)| prefix.address()))
    }

    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.addresses().any(|own| own == address) || self.shared.contains(&address)
    }

    /// The address that the node names as its own in the cluster.
    pub(crate) fn node_address(&self) -> Option<IpAddr> {
        self.addresses().next()
    }
}

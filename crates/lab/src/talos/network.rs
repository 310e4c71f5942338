//! The network of a node: layers that add up, as Talos lays them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use talmox_talos_config::network::Prefix;

use super::config::{Facts, LinkSelector, prefix};
use super::hardware::Hardware;
use super::land::Node;
use super::link::{self, Link, LinkKind, vlan_name};
use super::platform::PlatformData;
use super::realm::Realm;
use crate::pve::world::Agent;

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

    /// Its own and those that it shares.
    pub(crate) fn all_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses().chain(self.shared.iter().copied())
    }

    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.all_addresses().any(|own| own == address)
    }

    /// Whether something can be on such a link. What names none can be on any.
    pub(crate) fn carries(&self, selector: &LinkSelector) -> bool {
        match selector {
            LinkSelector::Nothing => self.links.iter().any(Link::passes),
            selector => self.link(selector).is_some_and(Link::passes),
        }
    }

    /// The name of the link that is meant, whether it is there or not.
    pub(super) fn name_of(&self, selector: &LinkSelector) -> Option<String> {
        match selector {
            LinkSelector::Name(name) => Some(name.clone()),
            LinkSelector::Vlan(parent, id) => Some(vlan_name(&self.name_of(parent)?, *id)),
            LinkSelector::Nothing | LinkSelector::Mac(_) => {
                self.link(selector).map(|link| link.name.clone())
            }
        }
    }

    /// The link that is meant.
    pub(crate) fn link(&self, selector: &LinkSelector) -> Option<&Link> {
        match selector {
            LinkSelector::Nothing => None,
            LinkSelector::Mac(mac) => {
                self.links.iter().find(|link| link.kind == LinkKind::Card && link.mac == *mac)
            }
            LinkSelector::Name(_) | LinkSelector::Vlan(..) => {
                let name = self.name_of(selector)?;
                self.links.iter().find(|link| link.name == name)
            }
        }
    }

    /// The first address that these subnets allow. Where none is named, any is; one after a `!` is never.
    fn address_in(&self, subnets: &[String]) -> Option<IpAddr> {
        let is_in = |subnet: &str, address: IpAddr| {
            prefix(subnet).is_some_and(|subnet| subnet.contains(address))
        };
        let wanted: Vec<&str> =
            subnets.iter().map(String::as_str).filter(|subnet| !subnet.starts_with('!')).collect();
        let mut addresses = self.addresses();
        addresses.find(|address| {
            let mut unwanted = subnets.iter().filter_map(|subnet| subnet.strip_prefix('!'));
            (wanted.is_empty() || wanted.iter().any(|subnet| is_in(subnet, *address)))
                && !unwanted.any(|subnet| is_in(subnet, *address))
        })
    }
}

impl Node {
    /// The address that the node names as its own in the cluster.
    pub(crate) fn node_address(&self) -> Option<IpAddr> {
        let subnets = self.config.as_ref().map(|config| config.facts.node_ip_subnets.as_slice());
        self.network.address_in(subnets.unwrap_or_default())
    }

    /// The address that its etcd tells others.
    pub(crate) fn etcd_address(&self) -> Option<IpAddr> {
        let subnets = self.config.as_ref().map(|config| config.facts.etcd_subnets.as_slice());
        self.network.address_in(subnets.unwrap_or_default())
    }
}

/// What a node's network is made of.
#[derive(Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) hardware: &'a Hardware,
    pub(crate) platform: &'a PlatformData,
    /// Addresses that the platform gave at an earlier boot: by the MAC of a card, or the name of another
    /// link.
    pub(crate) cached: &'a [(String, String)],
    pub(crate) config: Option<&'a Facts>,
    pub(crate) dhcp: Option<&'a Dhcp>,
    /// The name of a node that has none.
    pub(crate) fallback: &'a str,
}

impl Network {
    pub(crate) fn of(sources: &Sources<'_>) -> Self {
        let mut network = Self { links: link::make(sources), ..Self::default() };
        let mut gateways: Vec<(Layer, IpAddr)> = vec![];
        for index in 0..network.links.len() {
            let settled = link::settle(sources, &network, &network.links[index]);
            let link = &mut network.links[index];
            (link.addresses, link.mtu) = (settled.addresses, settled.mtu);
            gateways.extend(settled.gateways);
        }
        // The drive's default route stays in use beside that of the config.
        gateways.sort_by_key(|(layer, _)| *layer);
        gateways.dedup_by_key(|(_, gateway)| *gateway);
        network.gateways = gateways.into_iter().map(|(_, gateway)| gateway).collect();
        let servers = sources.config.map(|facts| facts.nameservers.clone()).unwrap_or_default();
        network.nameservers =
            if servers.is_empty() { sources.platform.nameservers.clone() } else { servers };
        let name = sources.config.and_then(|facts| facts.hostname.clone());
        let name = name.or_else(|| sources.platform.hostname.clone());
        let name = name.unwrap_or_else(|| sources.fallback.to_owned());
        let (host, domain) = name.split_once('.').unwrap_or((&name, ""));
        (network.hostname, network.domain) = (host.to_owned(), domain.to_owned());
        network
    }

    /// What a guest agent says about it.
    pub(crate) fn as_agent_tells(&self) -> Agent {
        let loopback = (Ipv4Addr::LOCALHOST.into(), 8);
        let mut interfaces =
            vec![("lo".to_owned(), "00:00:00:00:00:00".to_owned(), vec![loopback])];
        interfaces.extend(self.links.iter().map(|link| {
            let addresses = link.addresses.iter().map(|(own, _)| (own.address(), own.length()));
            (link.name.clone(), link.mac.clone(), addresses.collect())
        }));
        Agent { interfaces, hostname: self.full_name() }
    }

    /// The host name with its domain.
    pub(crate) fn full_name(&self) -> String {
        if self.domain.is_empty() {
            return self.hostname.clone();
        }
        format!("{}.{}", self.hostname, self.domain)
    }

    /// Whether anything beyond its own network can be reached: a default route leads to a gateway that
    /// is there. An empty list of gateways knows of none that is not.
    pub(crate) fn has_outside(&self, gateways: &[IpAddr]) -> bool {
        let Some(used) = self.gateways.first() else { return false };
        let is_near = self.links.iter().any(|link| {
            link.passes() && link.addresses.iter().any(|(prefix, _)| prefix.contains(*used))
        });
        is_near && (gateways.is_empty() || gateways.contains(used))
    }
}

/// As Talos names a machine that nobody named: the same one again at every boot.
pub(crate) fn fallback_name(uuid: &str) -> String {
    let letters: Vec<char> = uuid.chars().filter(char::is_ascii_alphanumeric).collect();
    let part = |from: usize| letters.iter().skip(from).take(3).collect::<String>();
    format!("talos-{}-{}", part(0), part(20))
}

impl Realm {
    /// Makes a node's network of what it knows now.
    pub(crate) fn refresh_network(&self, vmid: u32, boot: u64) {
        let disk = self.look(|land| land.nodes.get(&vmid)?.system_disk.clone());
        let cached = disk.and_then(|disk| self.site.written(&disk).state);
        let cached = cached.unwrap_or_default().platform_addresses;
        let told = self.change_node(vmid, boot, |node| {
            let shared = std::mem::take(&mut node.network.shared);
            let fallback = fallback_name(&node.hardware.uuid);
            node.network = Network::of(&Sources {
                hardware: &node.hardware,
                platform: &node.platform,
                cached: &cached,
                config: node.config.as_ref().or(node.partial.as_ref()).map(|config| &config.facts),
                dhcp: self.settings.dhcp.as_ref(),
                fallback: &fallback,
            });
            node.network.shared = shared;
            node.network.as_agent_tells()
        });
        if let Some(told) = told {
            self.site.renew_agent(vmid, told);
        }
        self.rewire(vmid);
    }
}

/// A DHCP server on every bridge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dhcp {
    /// By MAC in lower case.
    pub(crate) leases: BTreeMap<String, Prefix>,
    pub(crate) gateway: Option<IpAddr>,
}

impl Dhcp {
    pub(crate) fn lease(&self, mac: &str) -> Option<Prefix> {
        self.leases.get(mac).copied()
    }
}

//! The network of a node: layers that add up, as Talos lays them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use talmox_talos_config::network::Prefix;

use super::config::{Facts, LinkSelector, prefix};
use super::hardware::Hardware;
use super::land::Node;
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

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) mac: String,
    pub(crate) bridge: String,
    pub(crate) vlan: Option<u16>,
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
    /// Its cable is in another network than when the machine booted.
    pub(crate) is_elsewhere: bool,
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

    /// Its own and those that it shares.
    pub(crate) fn all_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses().chain(self.shared.iter().copied())
    }

    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.all_addresses().any(|own| own == address)
    }

    /// Whether something can be on such a link. Only cards are known here: what is made of several, or
    /// is on top of one, is there as long as any of them is.
    pub(crate) fn carries(&self, selector: &LinkSelector) -> bool {
        let is_meant = |link: &&Link| match selector {
            LinkSelector::Name(name) if is_card(name) => *name == link.name,
            LinkSelector::Mac(mac) => *mac == link.mac,
            LinkSelector::Name(_) | LinkSelector::Nothing => true,
        };
        self.links.iter().filter(is_meant).any(Link::passes)
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
    /// Addresses that the platform gave at an earlier boot, by MAC.
    pub(crate) cached: &'a [(String, String)],
    pub(crate) config: Option<&'a Facts>,
    pub(crate) dhcp: Option<&'a Dhcp>,
    /// The name of a node that has none.
    pub(crate) fallback: &'a str,
}

impl Network {
    pub(crate) fn of(sources: &Sources<'_>) -> Self {
        let mut network = Self::default();
        let links = sources.config.map(|facts| facts.links.as_slice()).unwrap_or_default();
        let mut gateways: Vec<(Layer, IpAddr)> = vec![];
        for card in &sources.hardware.cards {
            let of_platform = sources.platform.links.iter().filter(|link| {
                link.mac
                    .as_ref()
                    .map_or(link.name.as_ref() == Some(&card.name), |mac| *mac == card.mac)
            });
            let of_platform: Vec<_> = of_platform.collect();
            let of_config: Vec<_> = links
                .iter()
                .filter(|link| match &link.selector {
                    LinkSelector::Name(name) => *name == card.name,
                    LinkSelector::Mac(mac) => *mac == card.mac,
                    LinkSelector::Nothing => false,
                })
                .collect();
            let mut addresses: Vec<(Prefix, Layer)> = vec![];
            let mut add = |prefix: Prefix, layer: Layer| {
                if !addresses.iter().any(|(known, _)| *known == prefix) {
                    addresses.push((prefix, layer));
                }
            };
            for link in &of_platform {
                link.addresses.iter().for_each(|prefix| add(*prefix, Layer::Platform));
                gateways.extend(link.gateways.iter().map(|gateway| (Layer::Platform, *gateway)));
            }
            if of_platform.is_empty() {
                let cached = sources.cached.iter().filter(|(mac, _)| *mac == card.mac);
                cached.filter_map(|(_, text)| prefix(text)).for_each(|p| add(p, Layer::Platform));
            }
            let wants_lease = of_platform.iter().any(|link| link.is_dhcp)
                || of_config.iter().any(|link| link.is_dhcp)
                || of_platform.is_empty() && of_config.is_empty();
            if let Some(dhcp) = sources.dhcp.filter(|_| wants_lease && card.is_connected)
                && let Some(lease) = dhcp.lease(&card.mac)
            {
                add(lease, Layer::Operator);
                gateways.extend(dhcp.gateway.map(|gateway| (Layer::Operator, gateway)));
            }
            for link in &of_config {
                link.addresses.iter().for_each(|prefix| add(*prefix, Layer::Configuration));
                gateways
                    .extend(link.gateways.iter().map(|gateway| (Layer::Configuration, *gateway)));
            }
            let mtu = of_config.iter().find_map(|link| link.mtu);
            network.links.push(Link {
                name: card.name.clone(),
                mac: card.mac.clone(),
                bridge: card.bridge.clone(),
                vlan: card.vlan,
                mtu: mtu.or(of_platform.iter().find_map(|link| link.mtu)).unwrap_or(1500),
                is_up: card.is_connected,
                is_elsewhere: card.is_elsewhere,
                addresses,
            });
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

/// Whether this is the name of a card: `eth0`.
fn is_card(name: &str) -> bool {
    name.strip_prefix("eth").is_some_and(|number| number.parse::<u8>().is_ok())
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
        self.change_node(vmid, boot, |node| {
            let shared = std::mem::take(&mut node.network.shared);
            let fallback = fallback_name(&node.hardware.uuid);
            node.network = Network::of(&Sources {
                hardware: &node.hardware,
                platform: &node.platform,
                cached: &cached,
                config: node.config.as_ref().map(|config| &config.facts),
                dhcp: self.settings.dhcp.as_ref(),
                fallback: &fallback,
            });
            node.network.shared = shared;
        });
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
    fn lease(&self, mac: &str) -> Option<Prefix> {
        self.leases.get(mac).copied()
    }
}

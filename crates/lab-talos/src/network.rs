//! The network of a node: layers that add up, as Talos lays them.

use std::net::{IpAddr, Ipv4Addr};

use super::config::{Facts, LinkSelector, prefix};
use super::dhcp::{Dhcp, Lease};
use super::hardware::Hardware;
use super::hypervisor::AgentReport;
use super::link::{self, Link, LinkKind, vlan_name};
use super::platform::PlatformData;
use super::simulation::Simulation;
use super::talos_state::Node;

/// Name servers of a node that has none configured.
const USUAL_RESOLVERS: [Ipv4Addr; 2] = [Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::new(8, 8, 8, 8)];
/// Time server of a node that has none configured.
const USUAL_TIME_SERVER: &str = "time.cloudflare.com";

/// What a node's network is at this moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Network {
    /// Without a domain.
    pub(crate) hostname: String,
    pub(crate) domain: String,
    pub(crate) links: Vec<Link>,
    pub(crate) nameservers: Vec<IpAddr>,
    /// The layer that the name servers are of.
    pub(crate) nameserver_layer: Layer,
    pub(crate) time_servers: Vec<String>,
    pub(crate) time_server_layer: Layer,
    /// Gateways of default routes, the one in use first.
    pub(crate) gateways: Vec<IpAddr>,
    /// Leases of DHCP.
    pub(crate) leases: Vec<Lease>,
    /// Shared addresses that this node holds now.
    pub(crate) shared: Vec<IpAddr>,
}

/// Where a setting comes from; later ones are stronger, addresses of all add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    #[default]
    Default,
    Platform,
    Operator,
    Configuration,
}

impl Layer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
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
            network.leases.extend(settled.lease);
        }
        // The drive's default route stays in use beside that of the config.
        gateways.sort_by_key(|(layer, _)| *layer);
        gateways.dedup_by_key(|(_, gateway)| *gateway);
        for lease in &mut network.leases {
            let own = |router: &IpAddr| gateways.contains(&(Layer::Operator, *router));
            lease.router_in_use = lease.router.filter(own);
        }
        network.gateways = gateways.into_iter().map(|(_, gateway)| gateway).collect();
        network.serve_names(sources);
        network.serve_time(sources);
        let name = sources.config.and_then(|facts| facts.hostname.clone());
        let name = name.or_else(|| sources.platform.hostname.clone());
        let name = name.unwrap_or_else(|| sources.fallback.to_owned());
        let (host, domain) = name.split_once('.').unwrap_or((&name, ""));
        (network.hostname, network.domain) = (host.to_owned(), domain.to_owned());
        network
    }

    /// Lays the layers of name servers over each other. Servers of the other IP version stay beside those of a
    /// stronger layer, unless that is the machine config.
    fn serve_names(&mut self, sources: &Sources<'_>) {
        let of_leases = self.leases.iter().flat_map(Lease::resolvers).collect();
        let of_config = sources.config.map(|facts| facts.nameservers.clone());
        let layers: [(Layer, Vec<IpAddr>); 4] = [
            (Layer::Default, USUAL_RESOLVERS.map(IpAddr::V4).into()),
            (Layer::Platform, sources.platform.nameservers.clone()),
            (Layer::Operator, of_leases),
            (Layer::Configuration, of_config.unwrap_or_default()),
        ];
        for (layer, mut servers) in layers {
            if servers.is_empty() {
                continue;
            }
            if layer != Layer::Configuration {
                let has = |is_v4: bool| servers.iter().any(|server| server.is_ipv4() == is_v4);
                let missing = [true, false].into_iter().find(|is_v4| !has(*is_v4));
                let weaker = self.nameservers.iter();
                let kept = weaker.filter(|server| Some(server.is_ipv4()) == missing).copied();
                servers.extend(kept.collect::<Vec<_>>());
            }
            (self.nameservers, self.nameserver_layer) = (servers, layer);
        }
    }

    /// Takes the time servers of the strongest layer that has any.
    fn serve_time(&mut self, sources: &Sources<'_>) {
        let of_leases: Vec<String> = self.leases.iter().flat_map(Lease::time_servers).collect();
        let of_config = sources.config.map(|facts| facts.time_servers.clone());
        let layers = [
            (Layer::Configuration, of_config.unwrap_or_default()),
            (Layer::Operator, of_leases),
            (Layer::Default, vec![USUAL_TIME_SERVER.to_owned()]),
        ];
        if let Some((layer, servers)) = layers.into_iter().find(|(_, all)| !all.is_empty()) {
            (self.time_servers, self.time_server_layer) = (servers, layer);
        }
    }

    /// What a guest agent says about it.
    pub(crate) fn as_agent_tells(&self) -> AgentReport {
        let loopback = (Ipv4Addr::LOCALHOST.into(), 8);
        let mut interfaces =
            vec![("lo".to_owned(), "00:00:00:00:00:00".to_owned(), vec![loopback])];
        interfaces.extend(self.links.iter().map(|link| {
            let addresses = link.addresses.iter().map(|(own, _)| (own.address(), own.length()));
            (link.name.clone(), link.mac.clone(), addresses.collect())
        }));
        AgentReport { interfaces, hostname: self.full_name() }
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

impl Simulation {
    /// Makes a node's network of what it knows now.
    pub(crate) fn refresh_network(&self, vmid: u32, boot: u64) {
        let disk = self.look(|talos| talos.nodes.get(&vmid)?.system_disk.clone());
        let cached = disk.and_then(|disk| self.hypervisor.written(&disk).state);
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
            self.hypervisor.renew_agent(vmid, told);
        }
        self.rewire(vmid);
    }
}

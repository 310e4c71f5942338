//! Network of a node. As in Talos, several configuration layers are merged.

use std::net::{IpAddr, Ipv4Addr};

use super::config::{Facts, LinkSelector, ROUTE_METRIC, prefix};
use super::dhcp::{Dhcp, Lease};
use super::etcd;
use super::hardware::Hardware;
use super::hypervisor::AgentReport;
use super::link::{self, Link, LinkKind, vlan_name};
use super::platform::PlatformData;
use super::simulation::Simulation;
use super::talos_state::Node;

/// Default DNS resolvers of Talos.
const DEFAULT_RESOLVERS: [Ipv4Addr; 2] = [Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::new(8, 8, 8, 8)];
/// Default NTP server of Talos.
const DEFAULT_TIME_SERVER: &str = "time.cloudflare.com";

/// Current network state of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Network {
    /// Host name without the domain.
    pub(crate) hostname: String,
    pub(crate) domain: String,
    pub(crate) links: Vec<Link>,
    pub(crate) nameservers: Vec<IpAddr>,
    /// Configuration layer that the DNS resolvers come from.
    pub(crate) nameserver_layer: Layer,
    pub(crate) time_servers: Vec<String>,
    pub(crate) time_server_layer: Layer,
    /// Gateways of default routes. The first one is active.
    pub(crate) gateways: Vec<IpAddr>,
    /// DHCP leases.
    pub(crate) leases: Vec<Lease>,
    /// Virtual IPs that this node holds.
    pub(crate) virtual_ips: Vec<IpAddr>,
}

/// Configuration layer of a setting. A later layer overrides earlier layers, but the addresses of all layers are combined.
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
    /// Addresses of the node, without virtual IPs.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.links.iter().flat_map(|link| link.addresses.iter().map(|(prefix, _)| prefix.address()))
    }

    /// Addresses of the node, including virtual IPs.
    pub(crate) fn all_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses().chain(self.virtual_ips.iter().copied())
    }

    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.all_addresses().any(|own| own == address)
    }

    /// Whether the selected link exists and can send. An empty selector matches any link.
    pub(crate) fn has_link(&self, selector: &LinkSelector) -> bool {
        match selector {
            LinkSelector::Nothing => self.links.iter().any(Link::passes),
            selector => self.link(selector).is_some_and(Link::passes),
        }
    }

    /// Name of the selected link. The link does not need to exist.
    pub(super) fn name_of(&self, selector: &LinkSelector) -> Option<String> {
        match selector {
            LinkSelector::Name(name) => Some(name.clone()),
            LinkSelector::Vlan(parent, id) => Some(vlan_name(&self.name_of(parent)?, *id)),
            LinkSelector::Nothing | LinkSelector::Mac(_) => {
                self.link(selector).map(|link| link.name.clone())
            }
        }
    }

    /// Link that a selector matches, if it exists.
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

    /// First address in one of the subnets. A subnet with the prefix `!` excludes its addresses. If the list contains only
    /// excluded subnets, every other address is allowed.
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
    /// Address of the node in Kubernetes.
    pub(crate) fn node_address(&self) -> Option<IpAddr> {
        let subnets = self.config.as_ref().map(|config| config.facts.node_ip_subnets.as_slice());
        self.network.address_in(subnets.unwrap_or_default())
    }

    /// Address that etcd advertises.
    pub(crate) fn etcd_address(&self) -> Option<IpAddr> {
        let subnets = self.config.as_ref().map(|config| config.facts.etcd_subnets.as_slice());
        self.network.address_in(subnets.unwrap_or_default())
    }
}

/// Inputs from which the network state of a node is computed.
#[derive(Debug)]
pub(crate) struct NetworkInputs<'a> {
    pub(crate) hardware: &'a Hardware,
    pub(crate) platform: &'a PlatformData,
    /// Platform addresses of an earlier boot, by the MAC address of a network card or the name of another link.
    pub(crate) cached: &'a [(String, String)],
    pub(crate) config: Option<&'a Facts>,
    pub(crate) dhcp: Option<&'a Dhcp>,
    /// Host name to use if none is configured.
    pub(crate) fallback: &'a str,
}

impl Network {
    pub(crate) fn of(inputs: &NetworkInputs<'_>) -> Self {
        let mut network = Self { links: link::create_links(inputs), ..Self::default() };
        let mut gateways: Vec<(u32, Layer, IpAddr)> = vec![];
        for index in 0..network.links.len() {
            let settled = link::merge_layers(inputs, &network, &network.links[index]);
            let link = &mut network.links[index];
            (link.addresses, link.mtu) = (settled.addresses, settled.mtu);
            gateways.extend(settled.gateways);
            network.leases.extend(settled.lease);
        }
        // The default route of the platform stays active in addition to that of the config.
        gateways.sort_by_key(|(metric, layer, _)| (*metric, *layer));
        gateways.dedup_by_key(|(_, _, gateway)| *gateway);
        for lease in &mut network.leases {
            let own =
                |router: &IpAddr| gateways.contains(&(ROUTE_METRIC, Layer::Operator, *router));
            lease.router_in_use = lease.router.filter(own);
        }
        network.gateways = gateways.into_iter().map(|(_, _, gateway)| gateway).collect();
        network.set_resolvers(inputs);
        network.set_time_servers(inputs);
        let name = inputs.config.and_then(|facts| facts.hostname.clone());
        let name = name.or_else(|| inputs.platform.hostname.clone());
        let name = name.unwrap_or_else(|| inputs.fallback.to_owned());
        let (host, domain) = name.split_once('.').unwrap_or((&name, ""));
        (network.hostname, network.domain) = (host.to_owned(), domain.to_owned());
        network
    }

    /// Merges the DNS resolvers of all layers. A stronger layer replaces the resolvers of a weaker layer. If the stronger layer
    /// has resolvers of only one IP version, those of the other version are kept. The machine config always replaces all
    /// resolvers.
    fn set_resolvers(&mut self, inputs: &NetworkInputs<'_>) {
        let of_leases = self.leases.iter().flat_map(Lease::resolvers).collect();
        let of_config = inputs.config.map(|facts| facts.nameservers.clone());
        let layers: [(Layer, Vec<IpAddr>); 4] = [
            (Layer::Default, DEFAULT_RESOLVERS.map(IpAddr::V4).into()),
            (Layer::Platform, inputs.platform.nameservers.clone()),
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

    /// Sets the NTP servers, from the strongest layer that has any.
    fn set_time_servers(&mut self, inputs: &NetworkInputs<'_>) {
        let of_leases: Vec<String> = self.leases.iter().flat_map(Lease::time_servers).collect();
        let of_config = inputs.config.map(|facts| facts.time_servers.clone());
        let layers = [
            (Layer::Configuration, of_config.unwrap_or_default()),
            (Layer::Operator, of_leases),
            (Layer::Default, vec![DEFAULT_TIME_SERVER.to_owned()]),
        ];
        if let Some((layer, servers)) = layers.into_iter().find(|(_, all)| !all.is_empty()) {
            (self.time_servers, self.time_server_layer) = (servers, layer);
        }
    }

    /// Guest agent report about this network.
    pub(crate) fn agent_report(&self) -> AgentReport {
        let loopback = (Ipv4Addr::LOCALHOST.into(), 8);
        let mut interfaces =
            vec![("lo".to_owned(), "00:00:00:00:00:00".to_owned(), vec![loopback])];
        interfaces.extend(self.links.iter().map(|link| {
            let addresses = link.addresses.iter().map(|(own, _)| (own.address(), own.length()));
            (link.name.clone(), link.mac.clone(), addresses.collect())
        }));
        AgentReport { interfaces, hostname: self.full_name() }
    }

    /// Host name with its domain.
    pub(crate) fn full_name(&self) -> String {
        if self.domain.is_empty() {
            return self.hostname.clone();
        }
        format!("{}.{}", self.hostname, self.domain)
    }

    /// Whether the node can reach other networks, because its default gateway exists. If `gateways` is empty, every gateway
    /// exists.
    pub(crate) fn has_internet(&self, gateways: &[IpAddr]) -> bool {
        let Some(used) = self.gateways.first() else { return false };
        let is_near = self.links.iter().any(|link| {
            link.passes() && link.addresses.iter().any(|(prefix, _)| prefix.contains(*used))
        });
        is_near && (gateways.is_empty() || gateways.contains(used))
    }
}

/// Host name that Talos generates from the UUID of the machine. It is the same at every boot.
pub(crate) fn fallback_name(uuid: &str) -> String {
    let letters: Vec<char> = uuid.chars().filter(char::is_ascii_alphanumeric).collect();
    let part = |from: usize| letters.iter().skip(from).take(3).collect::<String>();
    format!("talos-{}-{}", part(0), part(20))
}

impl Simulation {
    /// Computes the network state of a node again.
    pub(crate) fn refresh_network(&self, vmid: u32, boot: u64) {
        let disk = self.look(|talos| talos.nodes.get(&vmid)?.system_disk.clone());
        let cached = disk.and_then(|disk| self.hypervisor.written(&disk).state);
        let cached = cached.unwrap_or_default().platform_addresses;
        let report = self.change_node(vmid, boot, |node| {
            let virtual_ips = std::mem::take(&mut node.network.virtual_ips);
            let fallback = fallback_name(&node.hardware.uuid);
            node.network = Network::of(&NetworkInputs {
                hardware: &node.hardware,
                platform: &node.platform,
                cached: &cached,
                config: node.config.as_ref().or(node.partial.as_ref()).map(|config| &config.facts),
                dhcp: self.settings.dhcp.as_ref(),
                fallback: &fallback,
            });
            node.network.virtual_ips = virtual_ips;
            node.network.agent_report()
        });
        if let Some(report) = report {
            self.hypervisor.renew_agent(vmid, report);
        }
        etcd::update_peer(self, vmid, boot);
        self.apply_blocked_traffic(vmid);
    }
}

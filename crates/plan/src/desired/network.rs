//! Network of a node: in its machine config, and before the node has a config.
//!
//! By default, a config contains `machine.network.interfaces`, which selects each interface by its MAC address. Since Talos
//! 1.12, `network.form` can select config documents instead. A config never describes a link in both ways.

use std::net::IpAddr;

use talmox_model::inventory::{Nic, Vlan};
use talmox_model::value::{Boot, HostAddress, NetworkForm, Role, VipBy};
use talmox_model::{Cluster, Node};
use talmox_talos_config::contract::Contract;
use talmox_talos_config::network::{FirstLink, FirstNetwork, Prefix};
use talmox_yaml::Node as Yaml;
use talmox_yaml::build::{flag, list, map, number, text, texts, unless_empty};

use super::error::DeriveError;
use super::identity::NodeIdentity;
use super::inputs::Phase;

/// A network card, as the config of the node describes it.
struct Link<'a> {
    /// Name of the interface, such as `eth0`. Images for Proxmox do not use predictable interface names.
    name: String,
    mac: String,
    is_dhcp: bool,
    address: Option<Prefix>,
    gateway: Option<IpAddr>,
    mtu: Option<u32>,
    vip: Option<IpAddr>,
    vlans: Vec<&'a Vlan>,
}

/// The network part of a machine config: keys of `machine.network`, and config documents.
pub(super) struct NetworkConfig {
    pub(super) machine: Vec<(&'static str, Option<Yaml>)>,
    pub(super) documents: Vec<Yaml>,
}

/// Whether a config can contain search domains. Talos 1.8 rejects a config with search domains.
fn knows_search(contract: Contract) -> bool {
    contract >= Contract::new(1, 9)
}

/// Warning about settings of the inventory that a config of this Talos version cannot contain. None if all settings are
/// supported.
pub(super) fn left_out(cluster: &Cluster, contract: Contract) -> Option<String> {
    let is_left_out = !knows_search(contract) && cluster.file.network.search.values().count() > 0;
    is_left_out.then(|| {
        format!(
            "`network.search` is left out: Talos {contract} has no search domains in its config"
        )
    })
}

pub(super) fn config(
    cluster: &Cluster,
    node: &Node,
    identity: &NodeIdentity,
    phase: Phase,
    contract: Contract,
) -> Result<NetworkConfig, DeriveError> {
    let links = links(cluster, node, identity, phase)?;
    let network = &cluster.file.network;
    let nameservers = texts(network.nameservers.values().map(ToString::to_string));
    let search = network.search.values().filter(|_| knows_search(contract));
    let search = texts(search.map(ToString::to_string));
    if *network.form.required() == NetworkForm::Documents {
        let mut documents: Vec<Yaml> = links.iter().flat_map(Link::documents).collect();
        documents.extend(resolver_document(cluster));
        return Ok(NetworkConfig { machine: vec![], documents });
    }
    Ok(NetworkConfig {
        machine: vec![
            ("interfaces", unless_empty(list(links.iter().map(Link::interface)))),
            ("nameservers", unless_empty(nameservers)),
            ("searchDomains", unless_empty(search)),
        ],
        documents: vec![],
    })
}

fn links<'a>(
    cluster: &'a Cluster,
    node: &'a Node,
    identity: &NodeIdentity,
    phase: Phase,
) -> Result<Vec<Link<'a>>, DeriveError> {
    let boot = *node.settings().system.boot.required();
    let is_dhcp = match phase {
        Phase::Final => boot == Boot::Dhcp,
        Phase::Dhcp => true,
        // A node without a static address uses DHCP.
        Phase::Static => node.address().is_none(),
    };
    let network = &cluster.file.network;
    let holds_vip = node.role == Role::ControlPlane
        && *network.vip_by.required() == VipBy::Talos
        && phase != Phase::Dhcp;
    let placement = &node.settings().placement;
    let first = Link {
        name: "eth0".to_owned(),
        mac: mac(identity, 0),
        is_dhcp,
        address: if is_dhcp { None } else { Some(own_address(cluster, node)?) },
        gateway: placement.gateway.get().copied().filter(|_| !is_dhcp),
        mtu: placement.mtu.get().map(|mtu| mtu.get()),
        vip: network.vip.get().copied().filter(|_| holds_vip),
        vlans: node.settings().hardware.vlans.values().collect(),
    };
    let further = node.settings().hardware.nics.values().enumerate();
    let further = further.map(|(index, nic)| further_link(nic, index + 1, identity));
    Ok(std::iter::once(first).chain(further).collect())
}

fn further_link<'a>(nic: &'a Nic, index: usize, identity: &NodeIdentity) -> Link<'a> {
    let address = nic.ip.get().and_then(|ip| Prefix::new(ip.address, prefix_or_whole(*ip)));
    Link {
        name: format!("eth{index}"),
        mac: mac(identity, index),
        is_dhcp: nic.dhcp.get().copied().unwrap_or(address.is_none()),
        address,
        gateway: None,
        mtu: nic.mtu.get().map(|mtu| mtu.get()),
        vip: None,
        vlans: vec![],
    }
}

fn mac(identity: &NodeIdentity, index: usize) -> String {
    identity.macs[index].lower_case()
}

/// The address of the node, with the prefix length of its network.
pub(super) fn own_address(cluster: &Cluster, node: &Node) -> Result<Prefix, DeriveError> {
    let address = node.address().ok_or(DeriveError::Missing {
        what: "the node's address",
        hint: "add `ip: …`, or use `boot: dhcp`",
    })?;
    let prefix = node.prefix_len(cluster).and_then(|length| Prefix::new(address, length));
    prefix.ok_or(DeriveError::Missing {
        what: "the prefix length of the node's network",
        hint: "add `network: {subnet: …}`, or write the address as `10.0.0.11/24`",
    })
}

/// The prefix length of an address. Without a prefix length, the length of a single address: 32 or 128.
pub(super) fn prefix_or_whole(ip: HostAddress) -> u8 {
    ip.prefix_len.unwrap_or(if ip.address.is_ipv4() { 32 } else { 128 })
}

fn default_route(gateway: IpAddr) -> &'static str {
    if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" }
}

fn vlan_address(vlan: &Vlan) -> Option<Prefix> {
    vlan.ip.get().and_then(|ip| Prefix::new(ip.address, prefix_or_whole(*ip)))
}

impl Link<'_> {
    /// The entry of this card in `machine.network.interfaces`.
    fn interface(&self) -> Yaml {
        let routes = self.gateway.map(|gateway| {
            list([map([
                ("network", Some(text(default_route(gateway)))),
                ("gateway", Some(text(gateway.to_string()))),
            ])])
        });
        map([
            ("deviceSelector", Some(map([("hardwareAddr", Some(text(&self.mac)))]))),
            ("addresses", self.address.map(|address| texts([address.to_string()]))),
            ("routes", routes),
            ("mtu", self.mtu.map(number)),
            ("dhcp", Some(flag(self.is_dhcp))),
            ("vlans", unless_empty(list(self.vlans.iter().map(|vlan| v1alpha1_vlan(vlan))))),
            ("vip", self.vip.map(|vip| map([("ip", Some(text(vip.to_string())))]))),
        ])
    }

    fn documents(&self) -> Vec<Yaml> {
        let name = || ("name", Some(text(&self.name)));
        let addresses =
            self.address.map(|address| list([map([("address", Some(text(address.to_string())))])]));
        let routes =
            self.gateway.map(|gateway| list([map([("gateway", Some(text(gateway.to_string())))])]));
        let mut documents = vec![document(
            "LinkConfig",
            [name(), ("mtu", self.mtu.map(number)), ("addresses", addresses), ("routes", routes)],
        )];
        if self.is_dhcp {
            documents.push(document("DHCPv4Config", [name()]));
        }
        documents.extend(self.vlans.iter().map(|vlan| self.vlan_document(vlan)));
        documents.extend(self.vip.map(|vip| {
            let keys = [("name", Some(text(vip.to_string()))), ("link", Some(text(&self.name)))];
            document("Layer2VIPConfig", keys)
        }));
        documents
    }

    fn vlan_document(&self, vlan: &Vlan) -> Yaml {
        let id = vlan.id.get().map_or(0, |id| id.get());
        let addresses = vlan_address(vlan)
            .map(|address| list([map([("address", Some(text(address.to_string())))])]));
        document(
            "VLANConfig",
            [
                ("name", Some(text(format!("{}.{id}", self.name)))),
                ("vlanID", Some(number(id))),
                ("parent", Some(text(&self.name))),
                ("mtu", vlan.mtu.get().map(|mtu| number(mtu.get()))),
                ("addresses", addresses),
            ],
        )
    }
}

fn v1alpha1_vlan(vlan: &Vlan) -> Yaml {
    map([
        ("addresses", vlan_address(vlan).map(|address| texts([address.to_string()]))),
        ("vlanId", vlan.id.get().map(|id| number(id.get()))),
        ("mtu", vlan.mtu.get().map(|mtu| number(mtu.get()))),
    ])
}

fn resolver_document(cluster: &Cluster) -> Option<Yaml> {
    let network = &cluster.file.network;
    let nameservers = network
        .nameservers
        .values()
        .map(|address| map([("address", Some(text(address.to_string())))]));
    let search = texts(network.search.values().map(ToString::to_string));
    let keys = [
        ("nameservers", unless_empty(list(nameservers))),
        ("searchDomains", unless_empty(search).map(|domains| map([("domains", Some(domains))]))),
    ];
    keys.iter().any(|(_, value)| value.is_some()).then(|| document("ResolverConfig", keys))
}

/// A Talos config document.
pub(super) fn document<'a>(
    kind: &str,
    keys: impl IntoIterator<Item = (&'a str, Option<Yaml>)>,
) -> Yaml {
    let head = [("apiVersion", Some(text("v1alpha1"))), ("kind", Some(text(kind)))];
    map(head.into_iter().chain(keys))
}

/// The network of a node before the node has a config.
pub fn first_network(
    cluster: &Cluster,
    node: &Node,
    identity: &NodeIdentity,
) -> Result<FirstNetwork, DeriveError> {
    let placement = &node.settings().placement;
    let network = &cluster.file.network;
    let first = FirstLink {
        name: "eth0".to_owned(),
        mac: identity.macs.first().copied(),
        addresses: vec![own_address(cluster, node)?],
        gateways: placement.gateway.get().copied().into_iter().collect(),
        mtu: placement.mtu.get().map(|mtu| mtu.get()),
        vlan: None,
    };
    Ok(FirstNetwork {
        hostname: node.name.value.to_string(),
        links: vec![first],
        nameservers: network.nameservers.values().copied().collect(),
        search_domains: network.search.values().map(ToString::to_string).collect(),
    })
}

//! Network links of a node: network cards, and the VLANs, bonds and bridges on them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use aws_lc_rs::digest::{SHA256, digest};
use talmox_talos_config::network::Prefix;

use super::config::{Facts, LinkFacts, LinkSelector, ROUTE_METRIC, VirtualLink, prefix};
use super::dhcp::Lease;
use super::network::{Layer, Network, NetworkInputs};

/// Maximum length of a link name, and maximum length of the VLAN id in it, with the separator.
const LONGEST_NAME: usize = 15;
const LONGEST_ID: usize = 5;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) kind: LinkKind,
    /// Alias name from the config.
    pub(crate) alias: Option<String>,
    /// Bond or bridge that the link is a member of.
    pub(crate) master: Option<String>,
    pub(crate) mac: String,
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
    /// Whether the link is connected to another network than at the boot of the machine.
    pub(crate) is_elsewhere: bool,
    /// Addresses in the order in which they were added. Each has its configuration layer.
    pub(crate) addresses: Vec<(Prefix, Layer)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum LinkKind {
    #[default]
    Card,
    Vlan {
        parent: String,
        id: u16,
        protocol: String,
    },
    Bond {
        mode: String,
    },
    Bridge,
}

impl LinkKind {
    /// Kind of the link, in the spelling of the kernel.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Card => "",
            Self::Vlan { .. } => "vlan",
            Self::Bond { .. } => "bond",
            Self::Bridge => "bridge",
        }
    }
}

/// Name that Talos gives to a VLAN. A long parent name is truncated, and a part of its hash is added.
pub(crate) fn vlan_name(parent: &str, id: u16) -> String {
    if parent.len() + LONGEST_ID <= LONGEST_NAME {
        return format!("{parent}.{id}");
    }
    let kept: String = parent.chars().take(4).collect();
    let hash = digest(&SHA256, parent.as_bytes());
    let hash: String = hash.as_ref().iter().take(3).map(|byte| format!("{byte:02x}")).collect();
    format!("{kept}{hash}.{id}")
}

/// All links, without addresses: first the network cards, then the virtual links.
pub(super) fn create_links(inputs: &NetworkInputs<'_>) -> Vec<Link> {
    let aliases = inputs.config.map(|facts| facts.link_aliases.as_slice()).unwrap_or_default();
    let cards = inputs.hardware.cards.iter().map(|card| Link {
        name: card.name.clone(),
        mac: card.mac.clone(),
        is_up: card.is_connected,
        is_elsewhere: card.is_elsewhere,
        ..Link::default()
    });
    let mut network = Network { links: cards.collect(), ..Network::default() };
    for (alias, card) in aliases {
        let named = network.link(card).map(|link| link.name.clone());
        let link = network.links.iter_mut().find(|link| Some(&link.name) == named.as_ref());
        if let Some(link) = link {
            link.alias = Some(alias.clone());
        }
    }
    let mut pending = virtual_link_plans(inputs, &network);
    // A virtual link is created after its members. A VLAN may be on a bond, and a bridge may contain VLANs.
    while let Some(ready) = pending.iter().position(|plan| plan.can_be_created(&network, &pending))
    {
        let plan = pending.remove(ready);
        let link = plan.create(&network);
        if !matches!(plan.virtual_link, VirtualLink::Vlan { .. }) {
            let members = plan.members(&network);
            for member in network.links.iter_mut().filter(|link| members.contains(&link.name)) {
                member.master = Some(link.name.clone());
            }
        }
        network.links.push(link);
    }
    network.links
}

/// Virtual link to create.
struct VirtualLinkPlan<'a> {
    name: String,
    virtual_link: &'a VirtualLink,
}

/// Virtual links of the platform and of the config. A link of the config replaces a link of the platform with the same name.
fn virtual_link_plans<'a>(inputs: &NetworkInputs<'a>, cards: &Network) -> Vec<VirtualLinkPlan<'a>> {
    let of_platform = inputs.platform.links.iter();
    let of_platform =
        of_platform.filter_map(|link| Some((link.selector(), link.virtual_link.as_ref()?)));
    let of_config = facts(inputs.config).iter();
    let of_config =
        of_config.filter_map(|link| Some((link.selector.clone(), link.virtual_link.as_ref()?)));
    let mut virtual_link_plans: Vec<VirtualLinkPlan<'a>> = vec![];
    for (selector, virtual_link) in of_platform.chain(of_config) {
        let Some(name) = cards.name_of(&selector) else { continue };
        virtual_link_plans.retain(|plan| plan.name != name);
        // A virtual link with the name of a network card is not created.
        if !cards.links.iter().any(|card| card.name == name) {
            virtual_link_plans.push(VirtualLinkPlan { name, virtual_link });
        }
    }
    virtual_link_plans
}

impl VirtualLinkPlan<'_> {
    /// Names of those members of the virtual link that exist.
    fn members(&self, network: &Network) -> BTreeSet<String> {
        let selectors = match self.virtual_link {
            VirtualLink::Vlan { parent, .. } => std::slice::from_ref(parent),
            VirtualLink::Bond { members, .. } | VirtualLink::Bridge { members } => {
                members.as_slice()
            }
        };
        let found = selectors.iter().filter_map(|member| network.link(member));
        found.map(|link| link.name.clone()).collect()
    }

    /// Whether the link can be created now. A VLAN needs its parent. Other links wait only for members that are still pending.
    fn can_be_created(&self, network: &Network, pending: &[Self]) -> bool {
        let wanted = match self.virtual_link {
            VirtualLink::Vlan { parent, .. } => return network.link(parent).is_some(),
            VirtualLink::Bond { members, .. } | VirtualLink::Bridge { members } => members,
        };
        let names: Vec<_> = wanted.iter().filter_map(|member| network.name_of(member)).collect();
        !pending.iter().any(|other| other.name != self.name && names.contains(&other.name))
    }

    fn create(&self, network: &Network) -> Link {
        let members = self.members(network);
        let members: Vec<&Link> =
            network.links.iter().filter(|link| members.contains(&link.name)).collect();
        let is_up = members.iter().any(|link| link.is_up);
        Link {
            name: self.name.clone(),
            kind: match self.virtual_link {
                VirtualLink::Vlan { id, protocol, .. } => LinkKind::Vlan {
                    parent: members.first().map(|link| link.name.clone()).unwrap_or_default(),
                    id: *id,
                    protocol: protocol.clone(),
                },
                VirtualLink::Bond { mode, .. } => LinkKind::Bond { mode: mode.clone() },
                VirtualLink::Bridge { .. } => LinkKind::Bridge,
            },
            // The kernel gives bonds and VLANs the MAC address of the first member.
            mac: members.first().map(|link| link.mac.clone()).unwrap_or_default(),
            is_up,
            // A packet arrives if at least one member is in the right network.
            is_elsewhere: is_up && !members.iter().any(|link| link.passes()),
            ..Link::default()
        }
    }
}

/// Addresses, gateways, DHCP lease and MTU of a link.
pub(super) struct LinkConfiguration {
    pub(super) addresses: Vec<(Prefix, Layer)>,
    /// Gateways of default routes, each with the metric of its route.
    pub(super) gateways: Vec<(u32, Layer, IpAddr)>,
    pub(super) lease: Option<Lease>,
    pub(super) mtu: u32,
}

/// Merges the settings of all configuration layers for a link.
pub(super) fn merge_layers(
    inputs: &NetworkInputs<'_>,
    network: &Network,
    link: &Link,
) -> LinkConfiguration {
    let is_meant = |selector: &LinkSelector| {
        network.link(selector).is_some_and(|meant| meant.name == link.name)
    };
    let of_platform = inputs.platform.links.iter().filter(|of| is_meant(&of.selector()));
    let of_platform: Vec<_> = of_platform.collect();
    let of_config = facts(inputs.config).iter().filter(|of| is_meant(&of.selector));
    let of_config: Vec<_> = of_config.collect();
    let mut addresses: Vec<(Prefix, Layer)> = vec![];
    let mut gateways: Vec<(u32, Layer, IpAddr)> = vec![];
    let mut lease = None;
    let mut add = |prefix: Prefix, layer: Layer| {
        if !addresses.iter().any(|(known, _)| *known == prefix) {
            addresses.push((prefix, layer));
        }
    };
    for of in &of_platform {
        of.addresses.iter().for_each(|prefix| add(*prefix, Layer::Platform));
        let of = of.gateways.iter();
        gateways.extend(of.map(|gateway| (ROUTE_METRIC, Layer::Platform, *gateway)));
    }
    if of_platform.is_empty() {
        let cached = inputs.cached.iter().filter(|(key, _)| key == link.cache_key());
        cached.filter_map(|(_, text)| prefix(text)).for_each(|p| add(p, Layer::Platform));
    }
    let is_card = link.kind == LinkKind::Card;
    // A network card without any configuration uses DHCP.
    let uses_default_dhcp = is_card
        && link.master.is_none()
        && of_platform.is_empty()
        && of_config.is_empty()
        && inputs.config.is_none_or(|facts| !facts.has_link_documents);
    let uses_dhcp = of_platform.iter().any(|of| of.is_dhcp)
        || of_config.iter().any(|of| of.is_dhcp)
        || uses_default_dhcp;
    // Every bridge of the host has a DHCP server. VLANs that a guest creates have none.
    let has_server = !matches!(link.kind, LinkKind::Vlan { .. });
    if let Some(dhcp) = inputs.dhcp.filter(|_| uses_dhcp && has_server && link.is_up)
        && let Some(found) = dhcp.lease(&link.mac)
    {
        add(found.address, Layer::Operator);
        gateways.extend(found.router.map(|router| (ROUTE_METRIC, Layer::Operator, router)));
        lease = Some(found);
    }
    for of in &of_config {
        of.addresses.iter().for_each(|prefix| add(*prefix, Layer::Configuration));
        let of = of.gateways.iter();
        gateways.extend(of.map(|(metric, gateway)| (*metric, Layer::Configuration, *gateway)));
    }
    let mtu = of_config.iter().find_map(|of| of.mtu);
    let mtu = mtu.or_else(|| of_platform.iter().find_map(|of| of.mtu));
    LinkConfiguration { addresses, gateways, lease, mtu: mtu.unwrap_or(1500) }
}

fn facts(config: Option<&Facts>) -> &[LinkFacts] {
    config.map(|facts| facts.links.as_slice()).unwrap_or_default()
}

impl Link {
    /// Key under which the platform addresses of a link are stored.
    pub(crate) fn cache_key(&self) -> &str {
        if self.kind == LinkKind::Card { &self.mac } else { &self.name }
    }

    /// Whether packets sent on the link arrive.
    pub(crate) fn passes(&self) -> bool {
        self.is_up && !self.is_elsewhere
    }
}

#[cfg(test)]
mod tests;

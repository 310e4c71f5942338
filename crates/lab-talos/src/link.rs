//! The links of a node: its cards, and what is made of them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use aws_lc_rs::digest::{SHA256, digest};
use talmox_talos_config::network::Prefix;

use super::config::{Facts, LinkFacts, LinkSelector, Made, prefix};
use super::dhcp::Lease;
use super::network::{Layer, Network, Sources};

/// The longest name that a link may have, and what an id takes of it.
const LONGEST_NAME: usize = 15;
const LONGEST_ID: usize = 5;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) kind: LinkKind,
    /// What the config calls it besides.
    pub(crate) alias: Option<String>,
    /// The bond or bridge that it is part of.
    pub(crate) master: Option<String>,
    pub(crate) mac: String,
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
    /// It is in another network than when the machine booted.
    pub(crate) is_elsewhere: bool,
    /// In the order they were added, each with the layer that it came from.
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
    /// As the kernel says it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Card => "",
            Self::Vlan { .. } => "vlan",
            Self::Bond { .. } => "bond",
            Self::Bridge => "bridge",
        }
    }
}

/// What Talos calls a VLAN. A long name is cut, with a part of its hash to tell it from others.
pub(crate) fn vlan_name(parent: &str, id: u16) -> String {
    if parent.len() + LONGEST_ID <= LONGEST_NAME {
        return format!("{parent}.{id}");
    }
    let kept: String = parent.chars().take(4).collect();
    let hash = digest(&SHA256, parent.as_bytes());
    let hash: String = hash.as_ref().iter().take(3).map(|byte| format!("{byte:02x}")).collect();
    format!("{kept}{hash}.{id}")
}

/// All links, as yet without addresses: cards, then what they carry.
pub(super) fn make(sources: &Sources<'_>) -> Vec<Link> {
    let aliases = sources.config.map(|facts| facts.link_aliases.as_slice()).unwrap_or_default();
    let cards = sources.hardware.cards.iter().map(|card| Link {
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
    let mut pending = plans(sources, &network);
    // What is made of something else comes after it: a VLAN may be on a bond, and a bridge over VLANs.
    while let Some(ready) = pending.iter().position(|plan| plan.can_be_made(&network, &pending)) {
        let plan = pending.remove(ready);
        let link = plan.make(&network);
        if !matches!(plan.made, Made::Vlan { .. }) {
            let members = plan.members(&network);
            for member in network.links.iter_mut().filter(|link| members.contains(&link.name)) {
                member.master = Some(link.name.clone());
            }
        }
        network.links.push(link);
    }
    network.links
}

/// A link that is to be made.
struct Plan<'a> {
    name: String,
    made: &'a Made,
}

/// What the platform and the config want made; where both speak of one, the config decides.
fn plans<'a>(sources: &Sources<'a>, cards: &Network) -> Vec<Plan<'a>> {
    let of_platform = sources.platform.links.iter();
    let of_platform = of_platform.filter_map(|link| Some((link.selector(), link.made.as_ref()?)));
    let of_config = facts(sources.config).iter();
    let of_config = of_config.filter_map(|link| Some((link.selector.clone(), link.made.as_ref()?)));
    let mut plans: Vec<Plan<'a>> = vec![];
    for (selector, made) in of_platform.chain(of_config) {
        let Some(name) = cards.name_of(&selector) else { continue };
        plans.retain(|plan| plan.name != name);
        // A card stays what it is.
        if !cards.links.iter().any(|card| card.name == name) {
            plans.push(Plan { name, made });
        }
    }
    plans
}

impl Plan<'_> {
    /// The links that there are of those it is made of.
    fn members(&self, network: &Network) -> BTreeSet<String> {
        let selectors = match self.made {
            Made::Vlan { parent, .. } => std::slice::from_ref(parent),
            Made::Bond { members, .. } | Made::Bridge { members } => members.as_slice(),
        };
        let found = selectors.iter().filter_map(|member| network.link(member));
        found.map(|link| link.name.clone()).collect()
    }

    /// Whether all that it is made of is there, or never will be. A VLAN is of something.
    fn can_be_made(&self, network: &Network, pending: &[Self]) -> bool {
        let wanted = match self.made {
            Made::Vlan { parent, .. } => return network.link(parent).is_some(),
            Made::Bond { members, .. } | Made::Bridge { members } => members,
        };
        let names: Vec<_> = wanted.iter().filter_map(|member| network.name_of(member)).collect();
        !pending.iter().any(|other| other.name != self.name && names.contains(&other.name))
    }

    fn make(&self, network: &Network) -> Link {
        let members = self.members(network);
        let members: Vec<&Link> =
            network.links.iter().filter(|link| members.contains(&link.name)).collect();
        let is_up = members.iter().any(|link| link.is_up);
        Link {
            name: self.name.clone(),
            kind: match self.made {
                Made::Vlan { id, protocol, .. } => LinkKind::Vlan {
                    parent: members.first().map(|link| link.name.clone()).unwrap_or_default(),
                    id: *id,
                    protocol: protocol.clone(),
                },
                Made::Bond { mode, .. } => LinkKind::Bond { mode: mode.clone() },
                Made::Bridge { .. } => LinkKind::Bridge,
            },
            // Of the first, as the kernel gives it to bonds and VLANs.
            mac: members.first().map(|link| link.mac.clone()).unwrap_or_default(),
            is_up,
            // As long as one of several is in the right network, it is heard there.
            is_elsewhere: is_up && !members.iter().any(|link| link.passes()),
            ..Link::default()
        }
    }
}

/// What is on a link.
pub(super) struct Settled {
    pub(super) addresses: Vec<(Prefix, Layer)>,
    pub(super) gateways: Vec<(Layer, IpAddr)>,
    pub(super) lease: Option<Lease>,
    pub(super) mtu: u32,
}

/// Lays the layers over each other that speak of a link.
pub(super) fn settle(sources: &Sources<'_>, network: &Network, link: &Link) -> Settled {
    let is_meant = |selector: &LinkSelector| {
        network.link(selector).is_some_and(|meant| meant.name == link.name)
    };
    let of_platform = sources.platform.links.iter().filter(|of| is_meant(&of.selector()));
    let of_platform: Vec<_> = of_platform.collect();
    let of_config = facts(sources.config).iter().filter(|of| is_meant(&of.selector));
    let of_config: Vec<_> = of_config.collect();
    let mut addresses: Vec<(Prefix, Layer)> = vec![];
    let mut gateways: Vec<(Layer, IpAddr)> = vec![];
    let mut lease = None;
    let mut add = |prefix: Prefix, layer: Layer| {
        if !addresses.iter().any(|(known, _)| *known == prefix) {
            addresses.push((prefix, layer));
        }
    };
    for of in &of_platform {
        of.addresses.iter().for_each(|prefix| add(*prefix, Layer::Platform));
        gateways.extend(of.gateways.iter().map(|gateway| (Layer::Platform, *gateway)));
    }
    if of_platform.is_empty() {
        let cached = sources.cached.iter().filter(|(key, _)| key == link.cache_key());
        cached.filter_map(|(_, text)| prefix(text)).for_each(|p| add(p, Layer::Platform));
    }
    let is_card = link.kind == LinkKind::Card;
    // A card that nobody speaks of asks by itself.
    let asks = is_card
        && link.master.is_none()
        && of_platform.is_empty()
        && of_config.is_empty()
        && sources.config.is_none_or(|facts| !facts.has_link_documents);
    let wants_lease =
        of_platform.iter().any(|of| of.is_dhcp) || of_config.iter().any(|of| of.is_dhcp) || asks;
    // There is a server on every bridge of the host, and none in the VLANs that guests make themselves.
    let has_server = !matches!(link.kind, LinkKind::Vlan { .. });
    if let Some(dhcp) = sources.dhcp.filter(|_| wants_lease && has_server && link.is_up)
        && let Some(found) = dhcp.lease(&link.mac)
    {
        add(found.address, Layer::Operator);
        gateways.extend(found.router.map(|router| (Layer::Operator, router)));
        lease = Some(found);
    }
    for of in &of_config {
        of.addresses.iter().for_each(|prefix| add(*prefix, Layer::Configuration));
        gateways.extend(of.gateways.iter().map(|gateway| (Layer::Configuration, *gateway)));
    }
    let mtu = of_config.iter().find_map(|of| of.mtu);
    let mtu = mtu.or_else(|| of_platform.iter().find_map(|of| of.mtu));
    Settled { addresses, gateways, lease, mtu: mtu.unwrap_or(1500) }
}

fn facts(config: Option<&Facts>) -> &[LinkFacts] {
    config.map(|facts| facts.links.as_slice()).unwrap_or_default()
}

impl Link {
    /// What a link's addresses of the platform are remembered by.
    pub(crate) fn cache_key(&self) -> &str {
        if self.kind == LinkKind::Card { &self.mac } else { &self.name }
    }

    /// Whether others hear what is sent on it.
    pub(crate) fn passes(&self) -> bool {
        self.is_up && !self.is_elsewhere
    }
}

#[cfg(test)]
mod tests;

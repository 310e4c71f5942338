//! SDN zones and vnets.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::PveState;

/// Built-in zone that contains the bridges of all hosts.
pub(crate) const LOCAL_ZONE: &str = "localnetwork";

/// SDN configuration of the cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sdn {
    pub zones: BTreeMap<String, Zone>,
    pub vnets: BTreeMap<String, Vnet>,
}

/// SDN zone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Zone {
    /// Zone type such as `simple` or `vlan`.
    pub kind: String,
    /// Hosts of the zone; empty for all hosts.
    pub nodes: BTreeSet<String>,
}

/// Virtual network of an SDN zone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Vnet {
    pub zone: String,
    pub alias: Option<String>,
    pub tag: Option<u32>,
    pub vlan_aware: bool,
}

impl Zone {
    pub(crate) fn is_on(&self, node: &str) -> bool {
        self.nodes.is_empty() || self.nodes.contains(node)
    }
}

impl PveState {
    /// Zone of a bridge or vnet, as used in permission paths.
    pub(crate) fn zone_of(&self, bridge: &str) -> &str {
        self.sdn.vnets.get(bridge).map_or(LOCAL_ZONE, |vnet| vnet.zone.as_str())
    }

    /// Vnets that exist on a host.
    pub(crate) fn vnets_on(&self, node: &str) -> impl Iterator<Item = (&String, &Vnet)> {
        self.sdn.vnets.iter().filter(move |(_, vnet)| {
            self.sdn.zones.get(&vnet.zone).is_some_and(|it| it.is_on(node))
        })
    }
}

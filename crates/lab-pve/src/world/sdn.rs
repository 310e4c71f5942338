//! Software-defined networks: zones, and the vnets in them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::World;

/// The zone that bridges of hosts are in.
pub(crate) const LOCAL_ZONE: &str = "localnetwork";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sdn {
    pub zones: BTreeMap<String, Zone>,
    pub vnets: BTreeMap<String, Vnet>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Zone {
    /// `simple`, `vlan` and the like.
    pub kind: String,
    /// The hosts it is on; none means all.
    pub nodes: BTreeSet<String>,
}

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

impl World {
    /// The zone in whose name rights on a bridge or vnet are held.
    pub(crate) fn zone_of(&self, bridge: &str) -> &str {
        self.sdn.vnets.get(bridge).map_or(LOCAL_ZONE, |vnet| vnet.zone.as_str())
    }

    /// The vnets that a host has.
    pub(crate) fn vnets_on(&self, node: &str) -> impl Iterator<Item = (&String, &Vnet)> {
        self.sdn.vnets.iter().filter(move |(_, vnet)| {
            self.sdn.zones.get(&vnet.zone).is_some_and(|it| it.is_on(node))
        })
    }
}

//! Templates that do not exist, although nodes are cloned from them.

use std::collections::BTreeMap;

use talmox_pve_types::api::cluster::Guest;
use talmox_pve_types::id::{NodeName, VmId};

use super::placement::places;
use crate::desired::{Desired, DesiredNode};
use crate::observed::Pve;

/// A template that does not exist, although nodes on a host are cloned from it.
#[derive(Clone, Debug)]
pub struct MissingTemplate<'a> {
    pub name: String,
    pub host: NodeName,
    /// The vmid of the template, if nodes refer to the template by vmid, or if an earlier run started to create the template.
    pub vmid: Option<VmId>,
    /// The first node that needs the template. All other nodes with this template must need the same Talos version and
    /// schematic.
    pub node: &'a DesiredNode,
    /// A node with this template that needs another schematic. None if no node does.
    pub(super) other: Option<&'a DesiredNode>,
}

/// The templates that the cluster needs and that do not exist, in the order of the nodes.
pub fn missing_templates<'a>(desired: &'a Desired, pve: &'a Pve) -> Vec<MissingTemplate<'a>> {
    let mut missing: Vec<MissingTemplate<'a>> = vec![];
    let mut seen: BTreeMap<(&str, NodeName), usize> = BTreeMap::new();
    for placed in places(desired, pve).nodes {
        let (node, host) = (placed.node, placed.own.vm.node.clone());
        let Some(expected) = node.template.as_deref() else { continue };
        if let Some(at) = seen.get(&(expected, host.clone())) {
            let first = &mut missing[*at];
            if first.node.schematic != node.schematic {
                first.other.get_or_insert(node);
            }
            continue;
        }
        let is_it = |guest: &&Guest| is_named(guest, expected) && guest.node == host;
        let mut guests = pve.resources.guests.iter().filter(is_it);
        if guests.clone().any(|guest| guest.template) {
            continue;
        }
        let started = guests.next().map(|guest| guest.vmid);
        let number = expected.parse().ok().and_then(|number| VmId::new(number).ok());
        let name = match number {
            Some(_) => usual_name(desired),
            None => expected.to_owned(),
        };
        seen.insert((expected, host.clone()), missing.len());
        missing.push(MissingTemplate { name, host, vmid: number.or(started), node, other: None });
    }
    missing
}

fn is_named(guest: &Guest, expected: &str) -> bool {
    guest.is_vm && (guest.name.as_deref() == Some(expected) || guest.vmid.to_string() == expected)
}

/// The default name of a template.
fn usual_name(desired: &Desired) -> String {
    format!("talos-{}-base", desired.talos_version.as_deref().unwrap_or("unknown"))
}

//! Whether what a rule names is there, where that can be known.

use std::collections::BTreeSet;
use std::net::IpAddr;

use talmox_lab_environment::fault::{Action, Fault, NodeAction, Who};

use super::value::Wrong;

/// All that a lab has and will have. What is `None` cannot be told beforehand: clients make VMs as they like.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub hosts: Option<BTreeSet<String>>,
    pub vmids: Option<BTreeSet<u32>>,
    /// Names of the VMs that become nodes.
    pub nodes: Option<BTreeSet<String>>,
    /// Where nodes are.
    pub addresses: Option<BTreeSet<IpAddr>>,
}

impl Known {
    /// Refuses a rule that nothing could ever fit.
    pub(super) fn check(&self, fault: &Fault) -> Result<(), Wrong> {
        let down = match &fault.action {
            Action::Down { host, .. } => Some(host),
            _ => None,
        };
        for host in fault.when.host.iter().chain(down) {
            let known = self.hosts.iter().flatten().map(String::as_str);
            if self.hosts.as_ref().is_some_and(|hosts| !hosts.contains(host)) {
                return Err(unknown("host", host, known));
            }
        }
        if let Some(vmid) = fault.when.vmid {
            self.check_vmid(vmid)?;
        }
        let of_action = match &fault.action {
            Action::Node(action) => named(action),
            _ => vec![],
        };
        fault.when.node.iter().chain(of_action).try_for_each(|node| self.check_node(node))
    }

    fn check_vmid(&self, vmid: u32) -> Result<(), Wrong> {
        match &self.vmids {
            Some(known) if !known.contains(&vmid) => {
                let texts: Vec<String> = known.iter().map(u32::to_string).collect();
                Err(unknown("VM", &vmid.to_string(), texts.iter().map(String::as_str)))
            }
            _ => Ok(()),
        }
    }

    /// A node goes by the name of its VM, by its id, or by an address.
    fn check_node(&self, node: &str) -> Result<(), Wrong> {
        let Some(names) = &self.nodes else { return Ok(()) };
        if names.contains(node) {
            return Ok(());
        }
        if let Ok(vmid) = node.parse() {
            return self.check_vmid(vmid);
        }
        let is_known = match (node.parse(), &self.addresses) {
            (Ok(address), Some(known)) => known.contains(&address),
            (Ok(_), None) => true,
            (Err(_), _) => false,
        };
        if is_known { Ok(()) } else { Err(unknown("node", node, names.iter().map(String::as_str))) }
    }
}

fn unknown<'k>(what: &str, word: &str, known: impl Iterator<Item = &'k str>) -> Wrong {
    let known: Vec<&str> = known.collect();
    Wrong::unknown(format!("there is no {what} `{word}`"), word, &known)
}

/// The nodes that an action names.
fn named(action: &NodeAction) -> Vec<&String> {
    match action {
        NodeAction::Crash(Who::Named(node))
        | NodeAction::Unplug(Who::Named(node))
        | NodeAction::Freeze(Who::Named(node))
        | NodeAction::Fill(Who::Named(node))
        | NodeAction::Slow(Who::Named(node), _)
        | NodeAction::Impostor { at: node, .. } => vec![node],
        NodeAction::Partition { groups, .. } => groups.iter().flatten().collect(),
        _ => vec![],
    }
}

//! Check that the objects named in a fault rule exist.

use std::collections::BTreeSet;
use std::net::IpAddr;

use talmox_lab_environment::fault::{Action, Fault, NodeAction, TargetNode};

use super::value::EntryError;

/// Objects that a lab has or will have. A field is `None` if the objects are not known in advance, because clients can create
/// VMs.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub hosts: Option<BTreeSet<String>>,
    pub vmids: Option<BTreeSet<u32>>,
    /// Names of the VMs that become nodes.
    pub nodes: Option<BTreeSet<String>>,
    /// IP addresses of the nodes.
    pub addresses: Option<BTreeSet<IpAddr>>,
}

impl Known {
    /// Rejects a rule that can never match.
    pub(super) fn check(&self, fault: &Fault) -> Result<(), EntryError> {
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

    fn check_vmid(&self, vmid: u32) -> Result<(), EntryError> {
        match &self.vmids {
            Some(known) if !known.contains(&vmid) => {
                let texts: Vec<String> = known.iter().map(u32::to_string).collect();
                Err(unknown("VM", &vmid.to_string(), texts.iter().map(String::as_str)))
            }
            _ => Ok(()),
        }
    }

    /// Rejects a node that does not exist. A rule names a node by its VM name, its vmid, or an address.
    fn check_node(&self, node: &str) -> Result<(), EntryError> {
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

fn unknown<'k>(what: &str, word: &str, known: impl Iterator<Item = &'k str>) -> EntryError {
    let known: Vec<&str> = known.collect();
    EntryError::unknown(format!("there is no {what} `{word}`"), word, &known)
}

/// Names of the nodes that an action refers to.
fn named(action: &NodeAction) -> Vec<&String> {
    match action {
        NodeAction::Crash(TargetNode::Named(node))
        | NodeAction::Unplug(TargetNode::Named(node))
        | NodeAction::Freeze(TargetNode::Named(node))
        | NodeAction::Fill(TargetNode::Named(node))
        | NodeAction::Slow(TargetNode::Named(node), _)
        | NodeAction::Impostor { at: node, .. } => vec![node],
        NodeAction::Partition { groups, .. } => groups.iter().flatten().collect(),
        _ => vec![],
    }
}

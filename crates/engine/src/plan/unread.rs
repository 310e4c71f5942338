//! VMs that nobody could look at, mostly on hosts that are down. A node whose VM is missing may be one of them, under
//! another name and without our tags: then it is not made a second time.

use talmox_pve::id::VmId;

use super::Builder;
use super::change::Finding;
use super::place::State;
use crate::observe::{KubernetesSeen, Unread};

pub(super) fn check(builder: &mut Builder<'_>) {
    let absent = builder.places.nodes.iter().filter(|one| matches!(one.state, State::Absent));
    let findings = absent.filter_map(|placed| {
        let what = may_be(builder, &placed.node.name)?;
        let message = format!(
            "its VM is missing, and may be one that cannot be read, under another name: {what}"
        );
        let hint =
            "bring the host up, or take it out of the Proxmox cluster if it is gone for good";
        Some(Finding::error(&placed.node.name, message).hint(hint))
    });
    let findings: Vec<Finding> = findings.collect();
    builder.findings.extend(findings);
}

/// What may be the VM of a node. One that Kubernetes knows is somewhere, and one that it does not know is nowhere. While
/// it cannot be asked, the VMs of a cluster that was up are looked for where the inventory puts them.
fn may_be(builder: &Builder<'_>, node: &str) -> Option<String> {
    let unread = builder.world.pve.unread.iter();
    let is_known = match &builder.world.kubernetes {
        KubernetesSeen::Answers(registered) => Some(registered.nodes.contains(node)),
        KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => None,
    };
    if is_known.unwrap_or_default() {
        return told(unread);
    }
    if is_known.is_some() || !builder.options.was_up {
        return None;
    }
    let desired = builder.desired;
    let own = desired.nodes.iter().filter_map(|node| node.host.as_ref());
    let hosts: Vec<_> = desired.hosts.iter().chain(own).collect();
    told(unread.filter(|(_, one)| hosts.contains(&&one.host)))
}

/// The first of them, and how many more there are.
pub(super) fn told<'a>(mut unread: impl Iterator<Item = (&'a VmId, &'a Unread)>) -> Option<String> {
    let (vmid, Unread { host, reason }) = unread.next()?;
    let more = match unread.count() {
        0 => String::new(),
        more => format!(", or {more} more"),
    };
    Some(format!("VM {vmid} on {host} ({reason}){more}"))
}

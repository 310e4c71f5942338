//! Preflight check: the addresses of new nodes and the shared address are not in use by other machines.

use std::net::IpAddr;

use talmox_pve_types::id::VmId;

use crate::desired::{Contact, DesiredNode};
use crate::observed::{EtcdSeen, Observed, PortSeen, TalosSeen, VipSeen, VmAddress};
use crate::plan::{Finding, FindingCode};
use crate::planning::builder::Builder;
use crate::planning::node_drift;
use crate::planning::placed::RENAMED;

const TALOS: u16 = 50000;

/// Error if a machine answers at the address of a node whose VM was never started. Another machine then uses the address.
pub(in crate::planning) fn in_use(builder: &Builder<'_>, node: &DesiredNode) -> Option<Finding> {
    let observed = builder.observed;
    let talos = observed.nodes.get(&node.name).and_then(|seen| match seen {
        TalosSeen::NotAsked | TalosSeen::Nothing(_) => None,
        TalosSeen::Maintenance { mismatch: Some(mismatch) } => {
            Some(format!("a Talos in maintenance mode ({mismatch})"))
        }
        TalosSeen::Maintenance { mismatch: None } => Some("a Talos in maintenance mode".to_owned()),
        TalosSeen::OwnNode(found) => Some(match node_drift::hostname(builder.desired, found) {
            Some(name) => format!("the node {name} of this cluster"),
            None => "another node of this cluster".to_owned(),
        }),
        TalosSeen::Mute(who)
        | TalosSeen::NotTalos(who)
        | TalosSeen::OtherMachine(who)
        | TalosSeen::NoAccess(who) => Some(who.clone()),
    });
    let mut others = observed.ports.iter().filter(|((name, _), _)| *name == node.name);
    let other = others.next().map(|((_, port), seen)| match seen {
        PortSeen::ThisCluster => ("the Kubernetes API of this cluster".to_owned(), *port),
        PortSeen::Other(who) => (who.clone(), *port),
    });
    let Some((who, port)) = talos.map(|who| (who, TALOS)).or(other) else {
        let holder = holder(builder, &node_addresses(node)).filter(|holder| holder.is_running)?;
        return Some(held(&node.name, &holder));
    };
    let address = match node.contact {
        Contact::At(address) => format!(" {address}"),
        Contact::AskAgent => String::new(),
    };
    let message = format!("its address{address} is in use: {who} answers at port {port}");
    let is_own = matches!(observed.nodes.get(&node.name), Some(TalosSeen::OwnNode(_)));
    let hint = if is_own && !builder.places.removed.is_empty() {
        RENAMED
    } else {
        "give the node another `ip:`, or turn off the machine that has the address"
    };
    Some(Finding::error(FindingCode::AddressInUse, &node.name, message).hint(hint))
}

/// Warning if a stopped VM has the address of a new node in its config. The conflict occurs only when that VM is started.
pub(super) fn reserved(builder: &Builder<'_>, node: &DesiredNode) -> Option<Finding> {
    let holder = holder(builder, &node_addresses(node)).filter(|holder| !holder.is_running)?;
    let VmAddress { vmid, address, .. } = &holder;
    let message = format!("its address {address} belongs to a stopped VM: {holder}");
    let hint = format!("give the node another `ip:`, or change the address of VM {vmid}");
    Some(Finding::warning(FindingCode::AddressInUse, &node.name, message).hint(hint))
}

fn held(subject: &str, holder: &VmAddress) -> Finding {
    let VmAddress { vmid, address, .. } = holder;
    let message = format!("its address {address} is in use: {holder}");
    let hint = format!("give the node another `ip:`, or change the address of VM {vmid}");
    Finding::error(FindingCode::AddressInUse, subject, message).hint(hint)
}

/// The static addresses of a node, and the address at which talmox reaches the node.
fn node_addresses(node: &DesiredNode) -> Vec<IpAddr> {
    let contact = match node.contact {
        Contact::At(address) => Some(address),
        Contact::AskAgent => None,
    };
    node.addresses.iter().copied().chain(contact).collect()
}

/// The VM that has one of these addresses, according to its config or its guest agent. VMs of nodes in the inventory do not
/// count. Running VMs come first.
fn holder(builder: &Builder<'_>, addresses: &[IpAddr]) -> Option<VmAddress> {
    let pve = &builder.observed.pve;
    let is_own = |vmid: VmId| builder.places.nodes.iter().any(|placed| placed.own.vm.vmid == vmid);
    let known = pve.vms.iter().filter_map(|(vmid, seen)| {
        let config = seen.config.as_ref().ok().filter(|config| !config.is_template())?;
        Some(VmAddress::of_config(*vmid, config, seen.is_running))
    });
    let all = known.flatten().chain(pve.addresses.iter().cloned());
    let held = all.filter(|one| addresses.contains(&one.address) && !is_own(one.vmid));
    held.max_by_key(|one| (one.is_running, one.source))
}

/// Checks that the shared address does not answer before the bootstrap, and that only this cluster answers there afterwards.
pub(in crate::planning) fn virtual_address(
    builder: &Builder<'_>,
    is_bootstrapped: bool,
) -> Option<Finding> {
    let address = builder.desired.vip?;
    let VipSeen::Answers(seen) = &builder.observed.vip else {
        return virtual_address_holder(builder, address);
    };
    let error = |code: FindingCode, message: String, hint: &str| {
        Finding::error(code, "network.vip", message).hint(hint)
    };
    match seen {
        PortSeen::ThisCluster if is_bootstrapped => Some(error(
            FindingCode::ControlPlaneUnknown,
            format!(
                "the Kubernetes API of this cluster answers at {address}, and no node reports etcd data"
            ),
            "find the control plane that has the address: the inventory does not contain it",
        )),
        PortSeen::ThisCluster => None,
        PortSeen::Other(who) if !has_etcd(builder.observed) => Some(error(
            FindingCode::VipInUse,
            format!("{address} is in use: {who} answers at port 6443"),
            "choose another `vip:`, or turn off the machine that has the address",
        )),
        PortSeen::Other(who) => {
            let message =
                format!("{address} does not lead to this cluster: {who} answers at port 6443");
            let hint = "turn off the machine that is not part of the cluster: two machines have the address";
            Some(Finding::warning(FindingCode::VipInUse, "network.vip", message).hint(hint))
        }
    }
}

/// Finding about a running VM that has the shared address, but does not answer at the port of the Kubernetes API.
fn virtual_address_holder(builder: &Builder<'_>, address: IpAddr) -> Option<Finding> {
    let holder = holder(builder, &[address]).filter(|holder| holder.is_running)?;
    let message = format!("{address} is in use: {holder}");
    let hint = format!("choose another `vip:`, or change the address of VM {}", holder.vmid);
    let (code, subject) = (FindingCode::VipInUse, "network.vip");
    let finding = if has_etcd(builder.observed) {
        Finding::warning(code, subject, message)
    } else {
        Finding::error(code, subject, message)
    };
    Some(finding.hint(hint))
}

fn has_etcd(observed: &Observed) -> bool {
    let is_one = |seen: &TalosSeen| match seen {
        TalosSeen::OwnNode(found) => {
            matches!(found.etcd, EtcdSeen::Member { .. } | EtcdSeen::Unhealthy { .. })
        }
        _ => false,
    };
    observed.nodes.values().any(is_one)
}

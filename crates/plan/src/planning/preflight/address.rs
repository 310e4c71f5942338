//! Preflight check: addresses of nodes and of the cluster are free.

use crate::desired::{Contact, DesiredNode};
use crate::observed::{EtcdSeen, Observed, PortSeen, TalosSeen, VipSeen};
use crate::plan::{Finding, FindingCode};
use crate::planning::builder::Builder;
use crate::planning::node_drift;
use crate::planning::placed::RENAMED;

const TALOS: u16 = 50000;

/// Error if a machine answers at the address of a node whose VM has never been started: another machine uses the
/// address.
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
    let (who, port) = talos.map(|who| (who, TALOS)).or(other)?;
    let address = match node.contact {
        Contact::At(address) => format!(" {address}"),
        Contact::AskAgent => String::new(),
    };
    let message = format!("its address{address} is in use: {who} answers at port {port}");
    let is_ours = matches!(observed.nodes.get(&node.name), Some(TalosSeen::OwnNode(_)));
    let hint = if is_ours && !builder.places.removed.is_empty() {
        RENAMED
    } else {
        "give the node another `ip:`, or turn off the machine that has the address"
    };
    Some(Finding::error(FindingCode::AddressInUse, &node.name, message).hint(hint))
}

/// The virtual address must answer as this cluster, and only after the bootstrap.
pub(in crate::planning) fn virtual_address(
    builder: &Builder<'_>,
    is_bootstrapped: bool,
) -> Option<Finding> {
    let (Some(address), VipSeen::Answers(seen)) = (builder.desired.vip, &builder.observed.vip)
    else {
        return None;
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

fn has_etcd(observed: &Observed) -> bool {
    let is_one = |seen: &TalosSeen| match seen {
        TalosSeen::OwnNode(found) => {
            matches!(found.etcd, EtcdSeen::Member { .. } | EtcdSeen::Ill { .. })
        }
        _ => false,
    };
    observed.nodes.values().any(is_one)
}

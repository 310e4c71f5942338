//! Whether the addresses that nodes and the cluster are to have are free.

use super::super::action::Contact;
use super::super::change::Finding;
use super::super::place::RENAMED;
use super::super::{Builder, config_diff};
use crate::desired::DesiredNode;
use crate::observe::{EtcdSeen, PortSeen, TalosSeen, VipSeen, World};

const TALOS: u16 = 50000;

/// Who has the address of a node whose VM has never been started. Whoever answers there, it is not
/// that VM.
pub(in crate::plan) fn in_use(builder: &Builder<'_>, node: &DesiredNode) -> Option<Finding> {
    let world = builder.world;
    let talos = world.nodes.get(&node.name).and_then(|seen| match seen {
        TalosSeen::NotAsked | TalosSeen::Nothing(_) => None,
        TalosSeen::Maintenance { mismatch: Some(mismatch) } => {
            Some(format!("a Talos in maintenance mode ({mismatch})"))
        }
        TalosSeen::Maintenance { mismatch: None } => Some("a Talos in maintenance mode".to_owned()),
        TalosSeen::Ours(found) => Some(match config_diff::hostname(builder.desired, found) {
            Some(name) => format!("the node {name} of this cluster"),
            None => "another node of this cluster".to_owned(),
        }),
        TalosSeen::Mute(who)
        | TalosSeen::NotTalos(who)
        | TalosSeen::Stranger(who)
        | TalosSeen::Estranged(who) => Some(who.clone()),
    });
    let mut others = world.ports.iter().filter(|((name, _), _)| *name == node.name);
    let other = others.next().map(|((_, port), seen)| match seen {
        PortSeen::Ours => ("the Kubernetes API of this cluster".to_owned(), *port),
        PortSeen::Stranger(who) => (who.clone(), *port),
    });
    let (who, port) = talos.map(|who| (who, TALOS)).or(other)?;
    let address = match node.contact {
        Contact::At(address) => format!(" {address}"),
        Contact::AskAgent => String::new(),
    };
    let message = format!("its address{address} is in use: {who} answers at port {port}");
    let is_ours = matches!(world.nodes.get(&node.name), Some(TalosSeen::Ours(_)));
    let hint = if is_ours && !builder.places.removed.is_empty() {
        RENAMED
    } else {
        "give the node another `ip:`, or turn off what has the address"
    };
    Some(Finding::error(&node.name, message).hint(hint))
}

/// Whoever answers at the virtual address must be this cluster, and only once it is there.
pub(in crate::plan) fn virtual_address(
    builder: &Builder<'_>,
    is_bootstrapped: bool,
) -> Option<Finding> {
    let (Some(address), VipSeen::Answers(seen)) = (builder.desired.vip, &builder.world.vip) else {
        return None;
    };
    let error = |message: String, hint: &str| Finding::error("network.vip", message).hint(hint);
    match seen {
        PortSeen::Ours if is_bootstrapped => Some(error(
            format!(
                "the Kubernetes API of this cluster answers at {address}, and no node tells of its etcd"
            ),
            "a control plane that the inventory does not know has the address: find it first",
        )),
        PortSeen::Ours => None,
        PortSeen::Stranger(who) if !has_etcd(builder.world) => Some(error(
            format!("{address} is in use: {who} answers at port 6443"),
            "choose another `vip:`, or turn off what has the address",
        )),
        PortSeen::Stranger(who) => {
            let message =
                format!("{address} does not lead to this cluster: {who} answers at port 6443");
            let hint = "two machines have the address: turn off the one that is not of the cluster";
            Some(Finding::warning("network.vip", message).hint(hint))
        }
    }
}

fn has_etcd(world: &World) -> bool {
    let is_one = |seen: &TalosSeen| match seen {
        TalosSeen::Ours(found) => {
            matches!(found.etcd, EtcdSeen::Member { .. } | EtcdSeen::Ill { .. })
        }
        _ => false,
    };
    world.nodes.values().any(is_one)
}

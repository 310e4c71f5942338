//! Clusters that lost control planes.
//!
//! If all control planes are gone and workers are left, new control planes have no data, so etcd could be bootstrapped. But
//! the bootstrap would create an empty cluster, in which the workers stop their pods. So the user must decide.
//!
//! The same applies if no worker is left, and run logs or client files show that the cluster was up. The VMs of the cluster
//! may still exist under other names and with other notes, where planning does not find them. A bootstrap would then start a
//! second etcd cluster.
//!
//! If etcd lost its majority, new control planes would wait for the remaining members until the timeout.

use std::collections::BTreeMap;

use super::builder::Builder;
use super::placed::Placed;
use super::vm_plan::VmPlan;
use crate::observed::{EtcdSeen, TalosSeen};
use crate::plan::{Finding, FindingCode};

const WAYS: &str = "\
restore the VMs of control planes from a Proxmox backup, with their notes, then run the same command
to start again, destroy the rest too: talmox destroy
to let the workers join an empty cluster, move its kubeconfig, its talosconfig and its run logs (.talmox) away, and run the same \
command twice: the second run restarts the kubelets of workers that are not registered. The Talos documentation on disaster recovery \
describes how to restore a snapshot of etcd into it";

const WAYS_WITHOUT_A_VM: &str = "\
find the VMs of its control planes in Proxmox: if their names, notes or tags were changed, restore them; if the inventory was \
changed, restore the names, vmids and addresses of its nodes
if they were deleted, restore them from a Proxmox backup, with their notes, then run the same command
to start an empty cluster, only if all its VMs are gone for good: move its kubeconfig, its talosconfig and its run logs \
(.talmox) away, then run the same command";

const IF_IT_WAS_UP: &str = "if it was up before, everything that Kubernetes stored is lost with them: to keep it, restore \
     the VMs from a Proxmox backup, with their notes. If the workers do not register in the new cluster, run `talmox up` \
     again: it restarts their kubelets";

const WAYS_WITHOUT_MAJORITY: &str = "\
restore the VMs of control planes from a Proxmox backup, with their notes, then run the same command
to restore a snapshot of etcd, follow the Talos documentation on disaster recovery; without a snapshot, it describes how to copy the \
database of a remaining member
to start again, destroy the rest too: talmox destroy";

/// The finding about a bootstrap that would be planned for these nodes. None if the bootstrap loses nothing.
pub(super) fn finding(
    builder: &Builder<'_>,
    nodes: &[&Placed<'_>],
    vms: &BTreeMap<String, VmPlan>,
) -> Option<Finding> {
    let is_new = |placed: &&&Placed<'_>| vms[&placed.node.name].is_fresh;
    let (control_planes, workers): (Vec<&&Placed<'_>>, Vec<_>) =
        nodes.iter().partition(|placed| placed.node.is_control_plane);
    if !control_planes.iter().all(is_new) {
        return None;
    }
    let cluster = &builder.desired.cluster;
    let (was_up, was_bootstrapped) = (builder.options.was_up, builder.options.was_bootstrapped);
    let mut left = workers.into_iter().filter(|placed| !is_new(placed)).peekable();
    if left.peek().is_none() {
        let message = "run logs or client files show that this cluster was up, and no VM of its control planes is found: new \
                       ones would start an empty cluster, beside the old one if that exists";
        return was_bootstrapped.then(|| {
            Finding::error(FindingCode::ControlPlanesLost, cluster, message).hint(WAYS_WITHOUT_A_VM)
        });
    }
    // A worker gets its certificate from a control plane, so a worker that answers shows that a control plane existed.
    let has_answered = |placed: &&&Placed<'_>| {
        matches!(builder.observed.nodes.get(&placed.node.name), Some(TalosSeen::OwnNode(_)))
    };
    match left.find(has_answered) {
        Some(worker) if was_up => {
            let message = format!(
                "all control planes are gone, and with them everything that Kubernetes stored; {} still runs its \
                 pods, and would stop them in a new, empty cluster",
                worker.node.name
            );
            Some(Finding::error(FindingCode::ControlPlanesLost, cluster, message).hint(WAYS))
        }
        _ if was_bootstrapped => {
            let message = "all control planes are gone, and with them everything that Kubernetes stored: new ones would start \
                           an empty cluster";
            Some(Finding::error(FindingCode::ControlPlanesLost, cluster, message).hint(WAYS))
        }
        found if found.is_some() || was_up => {
            let message = "all control planes are gone: new ones start an empty cluster";
            Some(
                Finding::warning(FindingCode::ControlPlanesLost, cluster, message)
                    .hint(IF_IT_WAS_UP),
            )
        }
        _ => None,
    }
}

/// The finding about an etcd that lost its majority. A control plane that is stopped or does not answer is not lost, because
/// etcd may work again when that control plane is back.
pub(super) fn majority(builder: &Builder<'_>, vms: &BTreeMap<String, VmPlan>) -> Option<Finding> {
    let control_planes: Vec<&str> =
        builder.desired.control_planes().map(|node| node.name.as_str()).collect();
    let is_new = |name: &str| vms.get(name).is_some_and(|vm| vm.is_fresh);
    let mut gone: Vec<&str> = vec![];
    let (mut is_lost, mut is_doubted) = (false, false);
    for seen in builder.observed.nodes.values() {
        let TalosSeen::OwnNode(found) = seen else { continue };
        let (all, missing): (usize, Vec<&str>) = match &found.etcd {
            // etcd has a majority, or had one shortly before.
            EtcdSeen::Member { .. } => return None,
            EtcdSeen::Unhealthy { voters, .. } if !voters.is_empty() => {
                let missing =
                    control_planes.iter().filter(|name| voters.iter().any(|one| one == *name));
                (voters.len(), missing.copied().filter(|name| is_new(name)).collect())
            }
            // The member does not report the voters, so the nodes that were in the cluster are counted instead.
            EtcdSeen::Unhealthy { is_leaderless: true, .. } => {
                let missing = control_planes.iter().copied().filter(|name| is_new(name));
                (control_planes.len(), missing.filter(|name| builder.was_there(name)).collect())
            }
            EtcdSeen::Unhealthy { .. } | EtcdSeen::Unknown | EtcdSeen::Waiting => continue,
        };
        if all - missing.len() > all / 2 {
            is_doubted = true;
        } else {
            is_lost = true;
            gone = missing;
        }
    }
    if !is_lost || is_doubted {
        return None;
    }
    let message = format!(
        "etcd has lost its majority: the VMs of {} are gone, and the remaining members can neither work without them \
         nor accept new ones",
        gone.join(", ")
    );
    Some(
        Finding::error(FindingCode::EtcdMajorityLost, &builder.desired.cluster, message)
            .hint(WAYS_WITHOUT_MAJORITY),
    )
}

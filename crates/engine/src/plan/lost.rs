//! A cluster all of whose control planes are gone, while workers of it are left. New ones have no data, so nothing speaks
//! against a bootstrap; but they begin an empty cluster, in which workers stop what they run. Who lost them must hear of it.
//!
//! And one that lost so many of them that etcd cannot go on: new ones would wait in vain for those that are left to take them.

use std::collections::BTreeMap;

use super::Builder;
use super::change::Finding;
use super::place::Placed;
use super::talos::was_there;
use super::vm::VmPlan;
use crate::observe::{EtcdSeen, TalosSeen};

const WAYS: &str = "\
VMs of control planes that come back from a backup of Proxmox, with their notes, are gone on with
to begin anew, destroy the rest too: talmox destroy
to let the workers join an empty cluster, move its kubeconfig and talosconfig away, run this again, and restart the \
kubelets of the workers. Into it a snapshot of etcd can be restored, as Talos's documentation on disaster recovery says";

const IF_IT_WAS_UP: &str = "if it was up before, what Kubernetes knew is lost with them: VMs that come back from a backup of \
     Proxmox, with their notes, are gone on with. The workers join once their kubelets begin anew: talosctl -n ADDRESS \
     service kubelet restart";

const WAYS_WITHOUT_MAJORITY: &str = "\
VMs of control planes that come back from a backup of Proxmox, with their notes, are gone on with
to restore a snapshot of etcd (without one, copy the database of one that is left: talosctl -n ADDRESS cp \
/var/lib/etcd/member/snap/db .), wipe those that are left: talosctl -n ADDRESS reset --graceful=false --reboot \
--system-labels-to-wipe EPHEMERAL. Then run this again, which begins an empty cluster, and restore it there, as Talos's \
documentation on disaster recovery says
to begin anew, destroy the rest too: talmox destroy";

/// What is told about a bootstrap that is going to be planned for these nodes.
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
    let mut left = workers.into_iter().filter(|placed| !is_new(placed)).peekable();
    left.peek()?;
    // A worker has its certificate from a control plane: while there never was one, it answers nobody.
    let has_answered = |placed: &&&Placed<'_>| {
        matches!(builder.world.nodes.get(&placed.node.name), Some(TalosSeen::Ours(_)))
    };
    let cluster = &builder.desired.cluster;
    let was_up = builder.options.was_up;
    match left.find(has_answered) {
        Some(worker) if was_up => {
            let message = format!(
                "all its control planes are gone, and with them all that Kubernetes knew; {} still runs what it was \
                 told, and would stop it in a new, empty cluster",
                worker.node.name
            );
            Some(Finding::error(cluster, message).hint(WAYS))
        }
        found if found.is_some() || was_up => {
            let message = "all its control planes are gone: new ones begin an empty cluster";
            Some(Finding::warning(cluster, message).hint(IF_IT_WAS_UP))
        }
        _ => None,
    }
}

/// What is told where so many control planes are gone that those which are left can agree on nothing any more. One that
/// is only off, or silent, counts as left: with it etcd may go on.
pub(super) fn majority(builder: &Builder<'_>, vms: &BTreeMap<String, VmPlan>) -> Option<Finding> {
    let control_planes: Vec<&str> =
        builder.desired.control_planes().map(|node| node.name.as_str()).collect();
    let is_new = |name: &str| vms.get(name).is_some_and(|vm| vm.is_fresh);
    let mut gone: Vec<&str> = vec![];
    let (mut is_lost, mut is_doubted) = (false, false);
    for seen in builder.world.nodes.values() {
        let TalosSeen::Ours(found) = seen else { continue };
        let (all, missing): (usize, Vec<&str>) = match &found.etcd {
            // There is a majority, or was a moment ago.
            EtcdSeen::Member { .. } => return None,
            EtcdSeen::Ill { voters, .. } if !voters.is_empty() => {
                let missing =
                    control_planes.iter().filter(|name| voters.iter().any(|one| one == *name));
                (voters.len(), missing.copied().filter(|name| is_new(name)).collect())
            }
            // It does not tell who votes. Those that were in the cluster did.
            EtcdSeen::Ill { is_leaderless: true, .. } => {
                let missing = control_planes.iter().copied().filter(|name| is_new(name));
                (control_planes.len(), missing.filter(|name| was_there(builder, name)).collect())
            }
            EtcdSeen::Ill { .. } | EtcdSeen::Unknown | EtcdSeen::Waiting => continue,
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
        "etcd has lost its majority: the VMs of {} are gone, and those that are left can neither go on without them nor \
         take new ones in",
        gone.join(", ")
    );
    Some(Finding::error(&builder.desired.cluster, message).hint(WAYS_WITHOUT_MAJORITY))
}

//! A cluster all of whose control planes are gone, while workers of it are left. New ones have no data, so nothing speaks
//! against a bootstrap; but they begin an empty cluster, in which workers stop what they run. Who lost them must hear of it.

use std::collections::BTreeMap;

use super::Builder;
use super::change::Finding;
use super::place::Placed;
use super::vm::VmPlan;
use crate::observe::TalosSeen;

const WAYS: &str = "\
VMs of control planes that come back from a backup of Proxmox, with their notes, are gone on with
to begin anew, destroy the rest too: talmox destroy
to let the workers join an empty cluster, move its kubeconfig and talosconfig away, run this again, and restart the \
kubelets of the workers. Into it a snapshot of etcd can be restored, as Talos's documentation on disaster recovery says";

const IF_IT_WAS_UP: &str = "if it was up before, what Kubernetes knew is lost with them: VMs that come back from a backup of \
     Proxmox, with their notes, are gone on with. The workers join once their kubelets begin anew: talosctl -n ADDRESS \
     service kubelet restart";

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

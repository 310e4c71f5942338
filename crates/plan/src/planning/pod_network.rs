//! Whether the cluster has a pod network, without which no node becomes ready.

use super::builder::Builder;
use crate::observed::{AddonRead, KubernetesSeen};

/// Whether a node that joins becomes ready without a further change: another node is ready, and no step of the run changes
/// the add-on that brings the pod network. Such a step runs after the joins, so a join must not wait for its effect.
pub(super) fn exists(builder: &Builder<'_>) -> bool {
    let KubernetesSeen::Answers(registered) = &builder.observed.kubernetes else { return false };
    let is_ready = |name: &String| !registered.unready.contains(name);
    !registered.lacks_pod_network && registered.nodes.iter().any(is_ready) && !is_changed(builder)
}

/// Whether an add-on that brings a pod network differs from its objects in the cluster, or was not compared with them.
fn is_changed(builder: &Builder<'_>) -> bool {
    let addons = &builder.observed.addons;
    let brings_network =
        |name: &String| addons.read.get(name).is_some_and(AddonRead::brings_network);
    let is_same = |name: &String| {
        addons.known.get(name).is_some_and(|seen| seen.is_noted && seen.changes.is_empty())
    };
    let mut names = builder.desired.addons.iter().map(|addon| &addon.name);
    names.any(|name| brings_network(name) && !is_same(name))
}

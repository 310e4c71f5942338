//! Control planes that left etcd although their VM runs: a replacement that was interrupted before the VM was stopped.
//!
//! The data of the member is deleted, and etcd does not start again while the machine runs. So no wait for the node ends, and
//! the VM must be replaced.

use super::builder::Builder;
use super::etcd_voters::{members, unknown_member};
use super::leaving_node::destroy_id;
use crate::observed::{EtcdSeen, TalosSeen};
use crate::plan::StepId;

/// Why a control plane that left etcd is replaced.
pub(super) const LEFT: &str =
    "its VM runs, but it left etcd: an earlier run did not finish its replacement";

/// Whether a control plane of the inventory left etcd while its VM runs. False if this is not certain: a member with an
/// unknown name may be this node, and a node that waits to join has not left.
pub(super) fn has_left(builder: &Builder<'_>, name: &str) -> bool {
    let is_control_plane = builder.desired.node(name).is_some_and(|node| node.is_control_plane);
    let Some(TalosSeen::OwnNode(found)) = builder.observed.nodes.get(name) else { return false };
    let has_ended = matches!(found.etcd, EtcdSeen::Unhealthy { .. });
    let members = members(builder);
    let is_outside = !members.is_empty() && !members.contains(name);
    is_control_plane && has_ended && is_outside && unknown_member(builder).is_none()
}

/// Whether a control plane left etcd, and the plan does not replace it. The cluster does not wait for such a node.
pub(super) fn is_open(builder: &Builder<'_>, name: &str) -> bool {
    has_left(builder, name) && !builder.steps.has(&StepId::new(destroy_id(name)))
}

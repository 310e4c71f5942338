//! A node whose VM is destroyed: how talmox reaches the node, and the steps that remove the node from the cluster.

use talmox_pve_types::config::VmConfig;
use talmox_pve_types::id::MacAddress;
use talmox_talos_config::machine::Expected;

use super::builder::Builder;
use super::etcd_voters::members;
use super::orphan_contact::contact;
use super::placed::{CARDS, ObservedVm, Placed};
use crate::desired::Contact;
use crate::observed::{CordonedBy, KubernetesSeen};
use crate::ownership::{FirstRole, Stage};
use crate::plan::{
    Action, DeleteNode, DestroyVm, DrainNode, OwnVm, RemoveMember, ResetNode, StepId, StopVm,
    TalosNode,
};

/// A node that is removed from the cluster, and whose VM is destroyed.
#[derive(Clone, Debug)]
pub(super) struct LeavingNode {
    pub(super) own: OwnVm,
    /// Whether the VM of the node was finished and runs.
    pub(super) is_running: bool,
    pub(super) is_talos: bool,
    /// Whether the node may be a member of etcd.
    pub(super) has_etcd: bool,
    /// The node, if it runs Talos and its address is known.
    talos: Option<TalosNode>,
}

impl LeavingNode {
    /// A node that is no longer in the inventory. Only its VM shows the properties of the node.
    pub(super) fn orphan(builder: &Builder<'_>, own: &OwnVm, found: &ObservedVm<'_>) -> Self {
        Self::of(builder, own, found, contact(builder, &own.identity.node, found.config))
    }

    /// A node of the inventory that is replaced.
    pub(super) fn placed(
        builder: &Builder<'_>,
        placed: &Placed<'_>,
        found: &ObservedVm<'_>,
    ) -> Self {
        let contact = builder.observed_contact(&placed.node.name).unwrap_or(placed.node.contact);
        Self::of(builder, &placed.own, found, Some(contact))
    }

    fn of(
        builder: &Builder<'_>,
        own: &OwnVm,
        found: &ObservedVm<'_>,
        contact: Option<Contact>,
    ) -> Self {
        let name = &own.identity.node;
        // A VM that was never started has not become a node.
        let was_started = found.marker.stage == Stage::Made;
        let is_running = was_started && found.seen.is_running;
        // Only the marker of a node with another operating system contains the hash of the user-data.
        let is_talos = was_started && found.marker.data.is_none();
        // A VM without a role in its marker may have been a control plane.
        let is_first_worker = found.marker.first_role == Some(FirstRole::Worker);
        let is_member = members(builder).contains(name.as_str());
        let has_etcd = is_member || (is_talos && !is_first_worker);
        let talos = contact.filter(|_| is_talos && is_running).map(|contact| TalosNode {
            name: name.clone(),
            own: own.clone(),
            contact,
            expected: Expected {
                uuid: Some(own.identity.uuid.to_string()),
                macs: macs(found.config),
                instance_id: None,
            },
            is_control_plane: has_etcd,
        });
        Self { own: own.clone(), is_running, is_talos, has_etcd, talos }
    }

    pub(super) fn name(&self) -> &str {
        &self.own.identity.node
    }

    /// Whether the node runs and cannot be reset, because its address is not known.
    pub(super) fn lacks_address(&self) -> bool {
        self.is_talos && self.is_running && self.talos.is_none()
    }

    /// Adds the steps that remove the node from the cluster and destroy its VM. Each step depends on the previous one.
    /// Returns the last step.
    ///
    /// A replaced node is not reset, because its disks are destroyed together with its VM soon after. If the run ends before
    /// that, the next run can start the VM again.
    pub(super) fn leave(
        &self,
        builder: &mut Builder<'_>,
        others: Vec<TalosNode>,
        is_replaced: bool,
        after: Vec<StepId>,
    ) -> StepId {
        let timeouts = builder.desired.timeouts;
        let name = self.name().to_owned();
        let mut before = after;
        if self.is_running && can_be_drained(builder, &name) {
            let drain = DrainNode {
                node: name.clone(),
                evicts: has_other_place(builder, &name),
                deadline: timeouts.health,
            };
            add(
                builder,
                &mut before,
                &name,
                format!("node/{name}/drain"),
                Action::DrainNode(drain),
            );
        }
        if self.has_etcd {
            let leave = RemoveMember {
                member: name.clone(),
                node: self.talos.clone(),
                others,
                deadline: timeouts.bootstrap,
            };
            add(builder, &mut before, &name, leave_id(&name), Action::RemoveMember(leave));
        }
        if let Some(node) = self.talos.clone().filter(|_| !is_replaced) {
            let reset = Action::ResetNode(ResetNode { node, deadline: timeouts.task });
            add(builder, &mut before, &name, format!("talos/{name}/reset"), reset);
        }
        let stop = Action::StopVm(StopVm { own: self.own.clone(), deadline: timeouts.task });
        add(builder, &mut before, &name, format!("vm/{name}/stop"), stop);
        if self.is_talos && may_be_registered(builder, &name) {
            let delete =
                DeleteNode { node: name.clone(), only_unready: false, deadline: timeouts.task };
            let delete = Action::DeleteNode(delete);
            add(builder, &mut before, &name, format!("node/{name}/delete"), delete);
        }
        let destroy = DestroyVm { own: self.own.clone(), deadline: timeouts.task };
        add(builder, &mut before, &name, destroy_id(&name), Action::DestroyVm(destroy))
    }
}

/// Adds a step of a node after the previous step of its chain.
fn add(
    builder: &mut Builder<'_>,
    before: &mut Vec<StepId>,
    name: &str,
    id: String,
    action: Action,
) -> StepId {
    let after = std::mem::take(before);
    let step = builder.steps.add(id, Some(name), after, action);
    before.push(step.clone());
    step
}

/// The name of the step that removes a member from etcd.
pub(super) fn leave_id(name: &str) -> String {
    format!("etcd/{name}/leave")
}

/// The name of the step that destroys the VM of a node.
pub(super) fn destroy_id(name: &str) -> String {
    format!("vm/{name}/destroy")
}

/// The MAC addresses of a VM.
fn macs(config: &VmConfig) -> Vec<String> {
    let macs = (0..CARDS).filter_map(|index| config.net(index)?.mac);
    macs.map(MacAddress::lower_case).collect()
}

/// Whether pods can be evicted from a node. The kubelet of a node that is not ready does not end pods, so a drain would wait
/// until its deadline. Kubernetes removes these pods together with the Node object.
fn can_be_drained(builder: &Builder<'_>, name: &str) -> bool {
    match &builder.observed.kubernetes {
        KubernetesSeen::Answers(registered) => {
            registered.nodes.contains(name) && !registered.unready.contains(name)
        }
        // The drain waits until the API answers.
        KubernetesSeen::Silent(_) => true,
        KubernetesSeen::NotAsked => false,
    }
}

/// Whether Kubernetes may list a node. The step that deletes the Node object checks this again.
fn may_be_registered(builder: &Builder<'_>, name: &str) -> bool {
    match &builder.observed.kubernetes {
        KubernetesSeen::Answers(registered) => registered.nodes.contains(name),
        KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => true,
    }
}

/// Whether another node of the inventory can run the pods of this node. Control planes count only if there are no workers.
fn has_other_place(builder: &Builder<'_>, name: &str) -> bool {
    let registered = match &builder.observed.kubernetes {
        KubernetesSeen::Answers(registered) => registered,
        KubernetesSeen::Silent(_) => return true,
        KubernetesSeen::NotAsked => return false,
    };
    let nodes = builder.desired.nodes.iter().filter(|node| node.is_talos);
    let has_workers = nodes.clone().any(|node| !node.is_control_plane);
    let mut others = nodes.filter(|node| node.name != name);
    others.any(|node| {
        let runs_pods = !node.is_control_plane || !has_workers;
        let is_open = registered.nodes.contains(&node.name)
            && !registered.unready.contains(&node.name)
            && registered.cordoned.get(&node.name) != Some(&CordonedBy::Other);
        runs_pods && is_open
    })
}

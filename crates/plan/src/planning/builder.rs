//! A plan under construction, and the local state that it depends on.

use super::node_change::NodeChanges;
use super::placed::Placements;
use super::scope::Scope;
use crate::desired::{Contact, Desired};
use crate::observed::{KubernetesSeen, Observed, TalosSeen};
use crate::plan::{Change, Finding, StepGraph};

/// Local state that a plan depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Whether kubeconfig and talosconfig exist and belong to this cluster.
    pub has_client_files: bool,
    /// Whether client files show that the cluster was up before. The files may be outdated.
    pub was_up: bool,
    /// Whether run logs or client files show that etcd of this cluster was bootstrapped, and no `destroy` has finished since.
    /// In this case, if no control plane is left, a bootstrap needs the consent of the user.
    pub was_bootstrapped: bool,
}

/// A plan under construction.
pub(super) struct Builder<'a> {
    pub(super) desired: &'a Desired,
    pub(super) observed: &'a Observed,
    pub(super) options: PlanOptions,
    pub(super) scope: &'a Scope,
    pub(super) places: Placements<'a>,
    pub(super) changes: Vec<Change>,
    /// Changes of running nodes, for `rollout.rs`.
    pub(super) node_changes: NodeChanges,
    pub(super) findings: Vec<Finding>,
    pub(super) steps: StepGraph,
}

impl Builder<'_> {
    /// Whether Kubernetes lists a node. While Kubernetes does not answer, the result is true if client files show that the
    /// cluster was up before.
    pub(super) fn was_there(&self, name: &str) -> bool {
        match &self.observed.kubernetes {
            KubernetesSeen::Answers(registered) => registered.nodes.contains(name),
            KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => self.options.was_up,
        }
    }

    /// The address at which a node of this cluster answered.
    pub(super) fn observed_contact(&self, name: &str) -> Option<Contact> {
        match self.observed.nodes.get(name) {
            Some(TalosSeen::OwnNode(found)) => found.address.map(Contact::At),
            _ => None,
        }
    }
}

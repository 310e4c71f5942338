//! A plan under construction, and the options that it depends on.

use super::placed::Placements;
use crate::desired::Desired;
use crate::observed::{KubernetesSeen, Observed};
use crate::plan::{Change, Finding, StepGraph};

/// Local state that a plan depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Whether kubeconfig and talosconfig exist and are those of the cluster.
    pub has_client_files: bool,
    /// Whether client files show that the cluster was up once, even if they must be written again.
    pub was_up: bool,
    /// Whether run logs or client files show that etcd of this cluster was bootstrapped, and no `destroy` ended it since. If
    /// that is so and no control plane is left, a bootstrap needs the consent of the user.
    pub was_bootstrapped: bool,
}

/// A plan under construction.
pub(super) struct Builder<'a> {
    pub(super) desired: &'a Desired,
    pub(super) observed: &'a Observed,
    pub(super) options: PlanOptions,
    pub(super) places: Placements<'a>,
    pub(super) changes: Vec<Change>,
    pub(super) findings: Vec<Finding>,
    pub(super) steps: StepGraph,
}

impl Builder<'_> {
    /// Whether Kubernetes lists a node. While Kubernetes does not answer, all nodes count as listed if client files show that
    /// the cluster was up once. Only the wording of messages depends on the result.
    pub(super) fn was_there(&self, name: &str) -> bool {
        match &self.observed.kubernetes {
            KubernetesSeen::Answers(registered) => registered.nodes.contains(name),
            KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => self.options.was_up,
        }
    }
}

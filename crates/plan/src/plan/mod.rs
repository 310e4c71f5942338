//! A plan as data: changes for people, findings, and steps to execute.
//!
//! The same input gives the same bytes, and the executor has nothing left to decide.

mod action;
mod change;
mod saved;
pub mod show;
mod step;
mod step_graph;
mod step_id;

pub use action::{
    Action, ApplyAddon, ApplyConfig, AwaitHealth, AwaitMember, AwaitUbuntu, AwaitVip,
    BootstrapEtcd, Burden, CloneVm, ClusterSigns, ConfigBy, CreateMapping, CreateVm, DeleteImage,
    DestroyVm, DetachCidata, Evidence, FetchImage, FetchWay, FinishVm, HealthGoal, MakeTemplate,
    Meanwhile, NodeSign, OwnVm, PostSchematic, ResizeDisk, SCRUBBED, ScrubCidata, SharedAddress,
    StartVm, StopVm, TalosNode, UploadCidata, VipBringer, Witness, WriteClientFiles,
};
pub use change::{Change, Class, FieldChange, Finding, Object, Severity};
pub use saved::{SavedPlan, SavedPlanError, has_same_steps};
pub use step::Step;
pub(crate) use step_graph::StepGraph;
pub use step_id::StepId;

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the cluster.
    pub cluster: String,
    pub changes: Vec<Change>,
    pub findings: Vec<Finding>,
    /// In an order in which they could be executed one by one.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.steps.is_empty()
    }

    /// Why the plan cannot be executed.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }

    /// The nodes whose VMs the run may reset, and how often. All of them are VMs that the run creates.
    pub fn may_reset(&self) -> Vec<(&str, u32)> {
        let resets = self.steps.iter().filter_map(|step| match &step.action {
            Action::ApplyConfig(apply) if apply.resets > 0 => {
                Some((apply.node.name.as_str(), apply.resets))
            }
            _ => None,
        });
        resets.collect()
    }

    /// Changes that no step makes.
    pub fn open_changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| !change.is_planned)
    }
}

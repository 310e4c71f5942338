//! What is to be done: a pure function of what is wanted and what there is.
//!
//! A plan is data. The same input gives the same bytes, and nothing is left to decide for whoever
//! carries it out.

mod action;
mod addon;
mod build;
mod change;
mod cleaning;
mod config_diff;
mod destroy;
mod destroy_right;
mod differ;
mod doubt;
mod gpu;
mod hidden;
mod image;
mod lost;
mod other_system;
pub(crate) mod place;
mod preflight;
mod readdress;
mod removed;
mod saved;
mod shared;
pub mod show;
mod source;
pub(crate) mod split;
mod spread;
mod standing;
mod step;
mod steps;
mod stranger;
mod surplus;
mod talos;
mod template;
mod unproven;
mod unread;
mod vip;
mod vm;
mod whole;

use build::Builder;

pub use action::{
    Action, AddonSource, ApplyAddon, ApplyConfig, AwaitHealth, AwaitMember, AwaitUbuntu, AwaitVip,
    BootstrapEtcd, Burden, CloneVm, ClusterSigns, ConfigBy, Contact, CreateMapping, CreateVm,
    DeleteImage, DestroyVm, DetachCidata, Evidence, FetchImage, FetchWay, FinishVm, HealthGoal,
    MakeTemplate, Manifest, Meanwhile, NodeSign, OwnVm, PostSchematic, ResizeDisk, SCRUBBED,
    ScrubCidata, SharedAddress, StartVm, StopVm, TalosNode, UploadCidata, VipBringer, Witness,
    WriteClientFiles,
};
pub use build::{Options, plan};
pub use change::{Change, Class, FieldChange, Finding, Object, Severity};
pub(crate) use destroy::unprotect;
pub use destroy::{DestroyOptions, destroy};
pub use place::{absent, future_locations, locations};
pub use saved::{SavedPlan, SavedPlanError, has_same_steps};
pub use source::template_doubts;
pub use step::{Step, StepId};
pub use stranger::strangers;
pub use template::{MissingTemplate, missing_templates, templates};
pub use vip::{leads_around, may_lead_around};

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the cluster.
    pub cluster: String,
    pub changes: Vec<Change>,
    pub findings: Vec<Finding>,
    /// In an order in which they could be run one by one.
    pub steps: Vec<Step>,
}

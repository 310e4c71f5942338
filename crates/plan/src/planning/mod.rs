//! Planning: the steps from the observed to the desired state.
//!
//! Pure functions. [`plan`] makes the plan of `up`, [`destroy`] that of `destroy`, [`templates`] that
//! of `template create`. [`places`] finds the VM of each node.

mod addon;
mod address_change;
mod builder;
mod clone_source;
mod cluster;
mod destroy;
mod destroy_rights;
mod first_role;
mod foreign_vm;
mod gpu;
mod hidden_vm;
mod host_choice;
mod image;
mod leftover;
mod lost_control_planes;
mod maintenance_mode;
mod missing_resource;
mod missing_template;
mod needed_image;
mod node_drift;
mod orphan;
mod other_os;
mod placed;
mod placement;
mod preflight;
mod removed_option;
mod shared_secrets;
mod split_etcd;
mod storage_cleanup;
mod talos;
mod template;
mod unmarked_vm;
mod unreadable;
mod up;
mod vip;
mod vm;
mod vm_drift;
mod vm_plan;

pub use builder::PlanOptions;
pub use clone_source::template_findings;
pub use destroy::{DestroyOptions, destroy, unprotect};
pub use missing_template::{MissingTemplate, missing_templates};
pub use needed_image::needed_images;
pub use placed::{ObservedVm, Placed, Placements, VmPresence};
pub use placement::{absent, foreign_vms, future_locations, locations, places};
pub use split_etcd::{WAY_OUT, two_clusters};
pub use template::templates;
pub use up::plan;
pub use vip::{leads_around, may_lead_around};

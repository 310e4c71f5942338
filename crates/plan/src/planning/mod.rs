//! Planning: the steps from the observed state to the desired state.
//!
//! All functions are free of I/O. [`plan`] makes the plan of `up`. [`destroy`] makes the plan of `destroy`. [`templates`]
//! makes the plan of `template create`. [`node_command`] makes the plans of `node reboot` and similar commands.
//! [`remove_member`], [`defragment`] and [`disarm_alarms`] make the plans of `etcd` commands. [`places`] finds the VM of each
//! node.

mod addon;
mod address_change;
mod builder;
mod clone_source;
mod cluster;
mod config_difference;
mod destroy;
mod destroy_rights;
mod etcd_command;
mod etcd_voters;
mod first_role;
mod foreign_vm;
mod gpu;
mod hidden_vm;
mod host_choice;
mod ignored;
mod image;
mod leaving_node;
mod left_out;
mod leftover;
mod lost_control_planes;
mod maintenance_mode;
mod missing_resource;
mod missing_template;
mod needed_image;
mod node_chain;
mod node_change;
mod node_command;
mod node_drift;
mod orphan;
mod other_os;
mod pending_option;
mod placed;
mod placement;
mod preflight;
mod protection;
mod removal;
mod removed_option;
mod replacement;
mod rollout;
mod scope;
mod selection;
mod shared_secrets;
mod split_etcd;
mod stale_member;
mod storage_cleanup;
mod talos;
mod template;
mod unmarked_vm;
mod unreadable;
mod up;
mod vip;
mod vm;
mod vm_creation;
mod vm_drift;
mod vm_host;
mod vm_option;
mod vm_plan;
mod vm_value;
mod vmid;

pub use builder::PlanOptions;
pub use clone_source::template_findings;
pub use config_difference::{is_same_config, needs_dry_run};
pub use destroy::{DestroyOptions, destroy};
pub use etcd_command::{defragment, disarm_alarms, remove_member};
pub use missing_template::{MissingTemplate, missing_templates};
pub use needed_image::needed_images;
pub use node_command::{NodeCommand, node_command};
pub use placed::{ObservedVm, Placed, Placements, VmPresence};
pub use placement::{absent, foreign_vms, future_locations, locations, places};
pub use protection::unprotect;
pub use scope::{Part, RemovalConsent, Scope};
pub use split_etcd::{WAY_OUT, two_clusters};
pub use template::templates;
pub use up::{plan, plan_within};
pub use vip::{leads_around, may_lead_around};

//! Kinds of steps. The file of a kind contains its data, its name in JSON, its effects, its privileges, its load and its
//! deadline.
//!
//! The data contains everything that a step needs: ids, addresses, hosts and texts. Secrets have a type that does not show
//! them. The code that runs a step is in the engine, in a file of the same name, because planning does no I/O.
//! CONTRIBUTING.md describes how to add a kind.

mod apply_addon;
mod apply_config;
mod await_health;
mod await_member;
mod await_ubuntu;
mod await_vip;
mod bootstrap_etcd;
mod burden;
mod change_config;
mod change_vm;
mod clone_vm;
mod create_mapping;
mod create_vm;
mod defrag_etcd;
mod delete_image;
mod delete_node;
mod destroy_vm;
mod detach_cidata;
mod disarm_alarms;
mod drain_node;
mod fetch_image;
mod finish_vm;
mod make_template;
mod migrate_vm;
mod node_effect;
mod own_vm;
mod part;
mod post_schematic;
mod privilege;
mod reboot_node;
mod remove_member;
mod reset_node;
mod resize_disk;
mod restart_kubelet;
mod restore_marker;
mod run_phase;
mod scrub_cidata;
mod shutdown_node;
mod start_vm;
mod stop_vm;
mod talos_node;
mod uncordon_node;
mod upload_cidata;
mod write_client_files;

use std::time::Duration;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use apply_config::ConfigBy;
pub use await_health::HealthGoal;
pub use await_vip::VipBringer;
pub use bootstrap_etcd::{ClusterSigns, Evidence, NodeSign, Witness};
pub use burden::Burden;
pub use change_config::ConfigMode;
pub use drain_node::CORDONED;
pub use fetch_image::FetchWay;
pub use node_effect::NodeEffect;
pub use own_vm::OwnVm;
pub use part::Part;
pub use privilege::Privilege;
pub use run_phase::RunPhase;
pub use scrub_cidata::SCRUBBED;
pub use talos_node::TalosNode;
pub use write_client_files::{Meanwhile, SharedAddress};

/// A kind of step. A type that implements this trait is the data of a step of that kind.
///
/// No item has a default, so that a new kind must state each property itself.
pub trait StepKind: Serialize + DeserializeOwned {
    /// The name of the kind in JSON.
    const KIND: &'static str;
    /// The part of the cluster that the step changes. None for a step that only waits or writes local files.
    const PART: Option<Part>;
    const PHASE: RunPhase;
    const NODE_EFFECT: NodeEffect;

    /// The privileges of Proxmox that the token needs for the step.
    fn privileges(&self) -> Vec<Privilege<'_>>;

    /// The load of the step while it runs.
    fn burden(&self) -> Burden;

    /// Maximum time of the step, with all retries.
    fn deadline(&self) -> Duration;
}

/// Passes the list of all kinds of steps to a macro: `Type in module` for each kind.
///
/// All code with a case for each kind is generated from this list: [`plan::Action`](crate::plan::Action) here, and the
/// dispatch in the engine.
#[macro_export]
macro_rules! for_each_step_kind {
    ($callback:ident) => {
        $callback! {
            PostSchematic in post_schematic,
            FetchImage in fetch_image,
            CreateMapping in create_mapping,
            UploadCidata in upload_cidata,
            CreateVm in create_vm,
            CloneVm in clone_vm,
            ResizeDisk in resize_disk,
            FinishVm in finish_vm,
            StartVm in start_vm,
            ScrubCidata in scrub_cidata,
            DetachCidata in detach_cidata,
            StopVm in stop_vm,
            DestroyVm in destroy_vm,
            DeleteImage in delete_image,
            MakeTemplate in make_template,
            ApplyConfig in apply_config,
            AwaitUbuntu in await_ubuntu,
            BootstrapEtcd in bootstrap_etcd,
            AwaitMember in await_member,
            AwaitVip in await_vip,
            AwaitHealth in await_health,
            WriteClientFiles in write_client_files,
            ApplyAddon in apply_addon,
            ChangeVm in change_vm,
            MigrateVm in migrate_vm,
            RestoreMarker in restore_marker,
            DrainNode in drain_node,
            ShutdownNode in shutdown_node,
            RebootNode in reboot_node,
            RestartKubelet in restart_kubelet,
            ChangeConfig in change_config,
            UncordonNode in uncordon_node,
            RemoveMember in remove_member,
            ResetNode in reset_node,
            DeleteNode in delete_node,
            DefragEtcd in defrag_etcd,
            DisarmAlarms in disarm_alarms,
        }
    };
}

/// Generates [`Action`]. Each function of `Action` calls the function of the [`StepKind`] in its variant.
macro_rules! define_action {
    ($($Kind:ident in $module:ident,)*) => {
        $(pub use $module::$Kind;)*

        /// Action of a step: the data of one kind of step.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Action {
            $($Kind($Kind),)*
        }

        impl Action {
            /// The names of all kinds in JSON.
            pub const KINDS: &'static [&'static str] = &[$($Kind::KIND,)*];

            /// The name of the kind of this action in JSON.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$Kind(_) => $Kind::KIND,)*
                }
            }

            /// The part of the cluster that the step changes. None for a step that only waits or writes local files.
            pub fn part(&self) -> Option<Part> {
                match self {
                    $(Self::$Kind(_) => $Kind::PART,)*
                }
            }

            /// The phase of a run that the step belongs to.
            pub fn phase(&self) -> RunPhase {
                match self {
                    $(Self::$Kind(_) => $Kind::PHASE,)*
                }
            }

            /// The effect of the step on its node.
            pub fn node_effect(&self) -> NodeEffect {
                match self {
                    $(Self::$Kind(_) => $Kind::NODE_EFFECT,)*
                }
            }

            /// The privileges of Proxmox that the token needs for the step.
            pub fn privileges(&self) -> Vec<Privilege<'_>> {
                match self {
                    $(Self::$Kind(step) => step.privileges(),)*
                }
            }

            /// The load of the step while it runs.
            pub fn burden(&self) -> Burden {
                match self {
                    $(Self::$Kind(step) => step.burden(),)*
                }
            }

            /// Maximum time of the step, with all retries.
            pub fn deadline(&self) -> Duration {
                match self {
                    $(Self::$Kind(step) => step.deadline(),)*
                }
            }
        }

        impl Serialize for Action {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$Kind(step) => WithKind::of(step).serialize(serializer),)*
                }
            }
        }

        impl<'de> Deserialize<'de> for Action {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let form = Value::deserialize(deserializer)?;
                let kind = form["kind"].as_str().unwrap_or_default().to_owned();
                $(if kind == $Kind::KIND {
                    return data(form).map(Self::$Kind);
                })*
                Err(D::Error::unknown_variant(&kind, Self::KINDS))
            }
        }
    };
}
for_each_step_kind!(define_action);

/// JSON form of an action: the name of its kind, followed by the fields of the kind.
#[derive(Serialize)]
struct WithKind<'a, K> {
    kind: &'static str,
    #[serde(flatten)]
    step: &'a K,
}

impl<'a, K: StepKind> WithKind<'a, K> {
    fn of(step: &'a K) -> Self {
        Self { kind: K::KIND, step }
    }
}

/// Reads the data of a kind from its JSON form.
fn data<K: StepKind, E: serde::de::Error>(form: Value) -> Result<K, E> {
    serde_json::from_value(form).map_err(E::custom)
}

//! Kinds of steps: one file for each, with its data, its name in JSON, its load and its deadline.
//!
//! The data holds everything that a step needs: ids, addresses, hosts and texts. Secrets are of a type that does not show them.
//! How a step runs is in the engine, in a file of the same name: planning does no I/O. CONTRIBUTING.md describes how to add a
//! kind.

mod apply_addon;
mod apply_config;
mod await_health;
mod await_member;
mod await_ubuntu;
mod await_vip;
mod bootstrap_etcd;
mod burden;
mod clone_vm;
mod create_mapping;
mod create_vm;
mod delete_image;
mod destroy_vm;
mod detach_cidata;
mod fetch_image;
mod finish_vm;
mod make_template;
mod own_vm;
mod post_schematic;
mod resize_disk;
mod scrub_cidata;
mod start_vm;
mod stop_vm;
mod talos_node;
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
pub use fetch_image::FetchWay;
pub use own_vm::OwnVm;
pub use scrub_cidata::SCRUBBED;
pub use talos_node::TalosNode;
pub use write_client_files::{Meanwhile, SharedAddress};

/// A kind of step. The type that implements it is the data of a step of that kind.
pub trait StepKind: Serialize + DeserializeOwned {
    /// The name of the kind in JSON.
    const KIND: &'static str;

    /// What the step loads while it runs.
    fn burden(&self) -> Burden {
        Burden::default()
    }

    /// How long the step may take, with all its attempts.
    fn deadline(&self) -> Duration;
}

/// Passes the list of all kinds of steps to a macro: `Type in module` for each kind.
///
/// All code that needs a case for each kind is generated from this list: [`plan::Action`](crate::plan::Action) here, and the
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
        }
    };
}

/// Generates [`Action`], and calls the [`StepKind`] of its variant in each function.
macro_rules! define_action {
    ($($Kind:ident in $module:ident,)*) => {
        $(pub use $module::$Kind;)*

        /// Action of a step: the data of one kind.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Action {
            $($Kind($Kind),)*
        }

        impl Action {
            /// The names of all kinds in JSON.
            pub const KINDS: &'static [&'static str] = &[$($Kind::KIND,)*];

            /// The name of its kind in JSON.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$Kind(_) => $Kind::KIND,)*
                }
            }

            /// What the step loads while it runs.
            pub fn burden(&self) -> Burden {
                match self {
                    $(Self::$Kind(step) => step.burden(),)*
                }
            }

            /// How long the step may take, with all its attempts.
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

/// JSON form of an action: the fields of its kind, with the name of the kind before them.
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

/// The data of a kind from its JSON form.
fn data<K: StepKind, E: serde::de::Error>(form: Value) -> Result<K, E> {
    serde_json::from_value(form).map_err(E::custom)
}

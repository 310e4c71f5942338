//! Desired state: what an inventory asks for.
//!
//! The desired state depends only on the inventory and its secrets. The same input always gives the same state, byte for
//! byte.

mod addon;
mod boot_image;
mod cloud_config;
mod cluster;
mod contact;
mod disk_identity;
mod error;
mod expected_network;
mod extras;
mod first_address;
mod identity;
mod image;
mod inputs;
mod login;
mod machine_config;
mod network;
mod start_option;
mod vm;

pub use addon::{Addon, AddonNamespace, AddonSource, ManifestFile, SourceTexts};
pub use boot_image::{BootImage, ImageSource};
pub(crate) use boot_image::{import_volume, is_image_name};
pub use cluster::{AcceptedDifference, Desired, DesiredNode, Timeouts};
pub use contact::Contact;
pub use error::{DeriveError, Problem};
pub use expected_network::{Addressing, Card, CardName, ExpectedNetwork};
pub use identity::NodeIdentity;
pub use image::{Image, Platform};
pub use inputs::{Inputs, Phase, needed_files, needed_secrets};
pub use login::Login;
pub use machine_config::{Rendered, Renderer};
pub use network::first_network;
pub use vm::{DiskSpec, GpuSource, GpuSpec, TAG, VmSpec};

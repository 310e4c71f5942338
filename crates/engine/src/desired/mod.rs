//! What an inventory comes to, as a pure function of the inventory and its secrets: same input,
//! same bytes.

mod boot_image;
mod cloud_config;
mod cluster;
mod disk_identity;
mod extras;
mod first_address;
mod identity;
mod image;
mod machine_config;
mod network;
mod vm;

use std::collections::BTreeMap;

use talmox_model::value::{Patch, SecretRef};
use talmox_model::{Cluster, Node, Span, Spanned};
use talmox_pve::id::BadId;
use talmox_talos_config::generate::GenerateError;
use talmox_talos_config::patch::PatchError;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::Bundle;

pub use boot_image::{BootImage, ImageSource};
pub(crate) use boot_image::{hash, import_volume, is_image_name};
pub use cluster::{Addon, Desired, DesiredNode, Login, Timeouts};
pub use identity::{NodeIdentity, SmbiosUuid};
pub use image::{Image, Platform};
pub use machine_config::{Rendered, Renderer};
pub use network::first_network;
pub use vm::{DiskSpec, GpuSource, GpuSpec, TAG, VmSpec};

/// Which network settings machine configs carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// As the way of first boot wants it.
    #[default]
    Final,
    /// Everything by DHCP, with the first control plane as the endpoint: before addresses are
    /// pinned and anything holds the VIP.
    Dhcp,
    /// Static addresses, whatever the way of first boot.
    Static,
}

/// Everything outside the inventory that configs are made of.
#[derive(Debug)]
pub struct Inputs<'a> {
    pub cluster: &'a Cluster,
    pub bundle: &'a Bundle,
    /// The secrets that the inventory refers to, by the place of the reference.
    pub secrets: &'a BTreeMap<Span, SecretText>,
    /// The texts of patch files and overlays, by the place that names them.
    pub files: &'a BTreeMap<Span, String>,
    pub phase: Phase,
}

/// Why a config cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DeriveError {
    #[error("{what} is not known")]
    Missing { what: &'static str, hint: &'static str },
    #[error("the secret was not looked up")]
    Unresolved { span: Span },
    #[error("generate the config")]
    Generate(#[source] GenerateError),
    #[error("apply talmox's own settings")]
    Own(#[source] PatchError),
    #[error("apply a patch")]
    Patch { span: Span, source: PatchError },
    #[error("the overlay is not one mapping")]
    Overlay { span: Span },
    #[error("Talos refuses the config: {}", together(.0))]
    Invalid(Vec<Problem>),
    /// A name that the inventory lets pass and Proxmox does not.
    #[error(transparent)]
    Name(#[from] BadId),
    /// Any of these, and the node whose config it is about.
    #[error("cannot render `{node}`")]
    Node { node: String, source: Box<Self> },
}

/// Something that Talos refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    /// The patch that brought it, by its place; none if it is there without any.
    pub patch: Option<Span>,
}

fn together(problems: &[Problem]) -> String {
    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    messages.join("; ")
}

impl DeriveError {
    /// The same, of a node.
    #[must_use]
    pub fn of(self, node: &Node) -> Self {
        Self::Node { node: node.name.value.to_string(), source: Box::new(self) }
    }
}

impl Inputs<'_> {
    fn secret(&self, reference: &Spanned<SecretRef>) -> Result<&SecretText, DeriveError> {
        let span = reference.span;
        self.secrets.get(&span).ok_or(DeriveError::Unresolved { span })
    }
}

/// Every reference to a secret that configs need, in the order of the files, each once.
pub fn needed_secrets(cluster: &Cluster) -> Vec<&Spanned<SecretRef>> {
    let mut references = vec![];
    if cluster.nodes.iter().any(Node::is_talos) {
        references.extend(cluster.file.tailscale.auth_key.spanned());
    }
    for node in &cluster.nodes {
        let system = &node.settings().system;
        let registries = system.registries.auth.entries.iter();
        references.extend(registries.filter_map(|(_, auth)| auth.password.spanned()));
        let users = system.cloud_init.users.values();
        references.extend(users.filter_map(|user| user.password_hash.spanned()));
    }
    references.sort_by_key(|reference| reference.span);
    references.dedup_by_key(|reference| reference.span);
    references
}

/// Every file whose text configs need, with the place that names it, each once.
pub fn needed_files(cluster: &Cluster) -> BTreeMap<Span, &str> {
    let mut files = BTreeMap::new();
    for node in &cluster.nodes {
        for patch in cluster.patches(node) {
            if let Patch::File(path) = &patch.value {
                files.insert(patch.span, path.0.as_str());
            }
        }
        if let Some(overlay) = node.settings().system.cloud_init.overlay.spanned() {
            files.insert(overlay.span, overlay.value.0.as_str());
        }
    }
    files
}

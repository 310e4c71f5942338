//! Inputs of rendering: the inventory, and the secrets and files that the inventory refers to.

use std::collections::BTreeMap;

use talmox_model::value::{Patch, SecretRef};
use talmox_model::{Cluster, Node, Span, Spanned};
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::Bundle;

use super::error::DeriveError;

/// Variant of the network settings in machine configs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The network settings that `boot:` requires.
    #[default]
    Final,
    /// All network cards use DHCP, and the endpoint is the first control plane. These configs are used before the nodes have
    /// static addresses, and before a control plane holds the shared address.
    Dhcp,
    /// Static addresses, regardless of `boot:`. A node without a static address uses DHCP.
    Static,
}

/// Everything that machine configs are rendered from.
#[derive(Debug)]
pub struct Inputs<'a> {
    pub cluster: &'a Cluster,
    pub bundle: &'a Bundle,
    /// The secrets that the inventory refers to, by the position of the reference.
    pub secrets: &'a BTreeMap<Span, SecretText>,
    /// The texts of patch files and overlays, by the position of their path in the inventory.
    pub files: &'a BTreeMap<Span, String>,
    pub phase: Phase,
}

impl Inputs<'_> {
    pub(super) fn secret(
        &self,
        reference: &Spanned<SecretRef>,
    ) -> Result<&SecretText, DeriveError> {
        let span = reference.span;
        self.secrets.get(&span).ok_or(DeriveError::Unresolved { span })
    }
}

/// All references to secrets that configs need, without duplicates, in the order of the files.
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

/// All files whose text configs need, by the position of their path in the inventory.
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

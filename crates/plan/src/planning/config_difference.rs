//! Comparison of the config of a running node with the config of the inventory.
//!
//! Planning and observation use the same comparison, so that talmox requests a dry run only if the plan would send the
//! config.

use std::collections::{BTreeMap, BTreeSet};

use talmox_talos_config::contract::Contract;
use talmox_talos_config::leaf::{Leaf, leaves};
use talmox_talos_config::secret::{REDACTED, SecretText};
use talmox_talos_config::{Config, Release};

use super::kubernetes_version;
use crate::desired::{Desired, DesiredNode};
use crate::observed::Configured;
use crate::plan::{FieldChange, FieldValue};

const SCHEDULING: &str = "cluster.allowSchedulingOnControlPlanes";

/// Path of the role in a machine config. A node whose role changes is replaced.
pub(super) const ROLE: &str = "machine.type";

/// Path of the image that the next upgrade installs.
pub(super) const INSTALLER: &str = "machine.install.image";

/// Paths of values that come from the secrets bundle. Talos and Kubernetes cannot change them on a running cluster without a rotation.
const SECRETS: [&str; 11] = [
    "cluster.aescbcEncryptionSecret",
    "cluster.aggregatorCA",
    "cluster.ca",
    "cluster.etcd.ca",
    "cluster.id",
    "cluster.secret",
    "cluster.secretboxEncryptionSecret",
    "cluster.serviceAccount",
    "cluster.token",
    "machine.ca",
    "machine.token",
];

/// Differences between two configs that have an effect on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConfigDifference {
    pub(super) fields: Vec<FieldChange>,
    /// Whether control planes stay schedulable although there are workers.
    pub(super) keeps_scheduling: bool,
    /// Whether the node uses the desired config, but the config on its disk differs. This is so while the node tries a
    /// config.
    pub(super) is_saved_only: bool,
}

impl ConfigDifference {
    /// The first difference of a value that comes from the secrets bundle.
    pub(super) fn secret(&self) -> Option<&str> {
        let is_secret = |path: &str| {
            SECRETS.iter().any(|secret| {
                path.strip_prefix(secret)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        };
        // The configs of the two roles contain different values of the bundle.
        if self.has(ROLE) {
            return None;
        }
        let changed = self.fields.iter().filter(|field| field.old.is_some() && field.new.is_some());
        changed.map(|field| field.path.as_str()).find(|path| is_secret(path))
    }

    /// Compares the config of a node with the config of the inventory. None if one of them cannot be parsed.
    pub(super) fn of(desired: &Desired, node: &DesiredNode, found: &Configured) -> Option<Self> {
        let release = release(desired, found);
        let running = Self::between(desired, found.config.as_ref()?, &node.config, release)?;
        let saved = found.saved.as_ref().filter(|_| running.fields.is_empty());
        match saved {
            None => Some(running),
            Some(saved) => {
                let saved = Self::between(desired, saved, &node.config, release)?;
                let is_saved_only = !saved.fields.is_empty();
                Some(Self { is_saved_only, ..saved })
            }
        }
    }

    fn between(
        desired: &Desired,
        old: &SecretText,
        new: &SecretText,
        release: Release,
    ) -> Option<Self> {
        let mut fields = differences(old, new, release)?;
        // Control planes that were created before there were workers stay schedulable. The first worker of a cluster is not a
        // reason to change them.
        let is_kept = |field: &FieldChange| {
            let old = field.old.as_ref().and_then(FieldValue::as_text);
            field.path == SCHEDULING && old == Some("true") && field.new.is_none()
        };
        let keeps_scheduling = desired.derives_scheduling && fields.iter().any(is_kept);
        if keeps_scheduling {
            fields.retain(|field| !is_kept(field));
        }
        fields.retain(|field| !is_letter_without_effect(field));
        Some(Self { fields, keeps_scheduling, is_saved_only: false })
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.fields.iter().any(|field| field.path == path)
    }

    /// Whether the version of Kubernetes differs.
    pub(super) fn is_of_kubernetes(&self) -> bool {
        self.fields.iter().any(|field| kubernetes_version::is_image(&field.path))
    }

    /// Takes the differences of the version of Kubernetes out of the differences.
    pub(super) fn take_version(&mut self) -> Vec<FieldChange> {
        let fields = std::mem::take(&mut self.fields).into_iter();
        let (versions, rest) = fields.partition(|field| kubernetes_version::is_image(&field.path));
        self.fields = rest;
        versions
    }

    /// The config of the inventory with the version of Kubernetes that the node runs. None if the version cannot be kept.
    pub(super) fn with_kept_version(
        &self,
        desired: &Desired,
        node: &DesiredNode,
        found: &Configured,
    ) -> Option<SecretText> {
        // If only the saved config differs, the node already runs with the version of the inventory.
        if self.has(ROLE) || self.is_saved_only {
            return None;
        }
        let running = found.config.as_ref()?;
        kubernetes_version::keep(&node.config, running, release(desired, found))
    }
}

/// Whether a node runs another minor version of Talos than the version of the inventory. The config of the inventory may then
/// contain settings that the node does not support.
pub(super) fn is_of_other_release(desired: &Desired, found: &Configured) -> bool {
    let of = |version: &Option<String>| version.as_deref().and_then(|text| text.parse().ok());
    let (expected, runs): (Option<Contract>, Option<Contract>) =
        (of(&desired.talos_version), of(&found.version));
    matches!((expected, runs), (Some(expected), Some(runs)) if expected != runs)
}

/// The config that the plan sends to a running node, so that a dry run of the config is useful. None if the plan sends no
/// config.
///
/// The config of a control plane contains the keys of the cluster, so it is not sent to a worker, even if the inventory
/// changes the role. A node that tries a config gets no dry run either, because a dry run ends the trial and the tried config
/// would stay.
pub fn config_for_dry_run(
    desired: &Desired,
    node: &DesiredNode,
    found: &Configured,
) -> Option<SecretText> {
    let mut difference = ConfigDifference::of(desired, node, found)?;
    if found.saved.is_some() || difference.has(ROLE) || is_of_other_release(desired, found) {
        return None;
    }
    let config = if difference.is_of_kubernetes() {
        let kept = difference.with_kept_version(desired, node, found)?;
        difference.take_version();
        kept
    } else {
        node.config.clone()
    };
    (!difference.fields.is_empty()).then_some(config)
}

/// Whether two configs have the same values. Talos up to 1.11 does not return a config byte for byte.
pub fn is_same_config(one: &SecretText, other: &SecretText, talos_version: &str) -> bool {
    let release = Release::of(talos_version).unwrap_or_default();
    one == other || differences(one, other, release).is_some_and(|fields| fields.is_empty())
}

/// Whether a field differs only because an earlier release of talmox selected a disk by its letter, and the selection no
/// longer has an effect.
///
/// Talos does not install an installed node again, and it finds an existing user volume by its partition label. Without this
/// exception, every cluster of an earlier release would differ from its inventory permanently. `machine.disks` is still
/// reported as a difference, because Talos reads the devices of `machine.disks` at every boot.
fn is_letter_without_effect(field: &FieldChange) -> bool {
    let old = field.old.as_ref().and_then(FieldValue::as_text);
    let new = field.new.as_ref().and_then(FieldValue::as_text);
    let (Some(old), Some(new)) = (old, new) else { return false };
    if !new.contains("/dev/disk/by-id/") {
        return false;
    }
    let device = if field.path == "machine.install.disk" {
        old
    } else if field.path.starts_with("UserVolumeConfig")
        && field.path.rsplit('.').next() == Some("match")
    {
        old.trim_start_matches("disk.dev_path == ").trim_matches('"')
    } else {
        return false;
    };
    let letters = ["/dev/sd", "/dev/vd"].iter().find_map(|start| device.strip_prefix(start));
    letters
        .is_some_and(|rest| rest.len() == 1 && rest.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// The newer of the Talos releases of the inventory and of the node. This release can parse both configs.
pub(super) fn release(desired: &Desired, found: &Configured) -> Release {
    let of = |version: &Option<String>| version.as_deref().and_then(Release::of);
    of(&desired.talos_version).max(of(&found.version)).unwrap_or_default()
}

/// The hostname in the config of a node.
pub(super) fn hostname(desired: &Desired, found: &Configured) -> Option<String> {
    let config = found.config.as_ref()?;
    let config = Config::parse(config.expose(), release(desired, found)).ok()?;
    let all = by_path(&config);
    let name = |path: &str| all.get(path).map(|leaf| leaf.text.to_owned());
    name("machine.network.hostname").or_else(|| name("HostnameConfig.hostname"))
}

/// The differences between two configs, by path. None if one of them cannot be parsed.
pub(super) fn differences(
    old: &SecretText,
    new: &SecretText,
    release: Release,
) -> Option<Vec<FieldChange>> {
    let read = |text: &SecretText| Config::parse(text.expose(), release).ok();
    let (old, new) = (read(old)?, read(new)?);
    let (old, new) = (by_path(&old), by_path(&new));
    let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differs = |path: &&&String| {
        old.get(**path).map(|leaf| leaf.text) != new.get(**path).map(|leaf| leaf.text)
    };
    let shown = |leaf: &Leaf<'_>| leaf.shown().unwrap_or(REDACTED).to_owned();
    let change = |path: &&String| {
        FieldChange::new(path, old.get(*path).map(shown), new.get(*path).map(shown))
    };
    Some(paths.iter().filter(differs).map(change).collect())
}

fn by_path(config: &Config) -> BTreeMap<String, Leaf<'_>> {
    leaves(config).into_iter().map(|leaf| (leaf.path.clone(), leaf)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_disks_are_a_difference_only_where_they_are_read_again() {
        let link = "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi1";
        let in_links = format!("\"{link}\" in disk.symlinks");
        let selector = "UserVolumeConfig/data.provisioning.diskSelector.match";
        for (path, old, new, expected) in [
            ("machine.install.disk", "/dev/sda", link, true),
            ("machine.install.disk", "/dev/nvme0n1", link, false),
            ("machine.install.disk", "/dev/sda", "/dev/vda", false),
            (selector, "disk.dev_path == \"/dev/sdb\"", &in_links, true),
            (selector, "disk.size > 1u * GB", &in_links, false),
            ("machine.disks[0].device", "/dev/sdb", link, false),
        ] {
            let field = FieldChange::new(path, Some(old.to_owned()), Some(new.to_owned()));
            assert_eq!(is_letter_without_effect(&field), expected, "{path}: {old} -> {new}");
        }
    }

    fn config(text: &str) -> SecretText {
        SecretText::new(text)
    }

    #[test]
    fn configs_are_compared_by_value() {
        let one = config("version: v1alpha1\nmachine:\n  type: worker\n");
        let other = config("version: v1alpha1\nmachine: {type: worker}\n");
        assert!(is_same_config(&one, &other, "v1.11.2"));
        let controlplane = config("version: v1alpha1\nmachine: {type: controlplane}\n");
        assert!(!is_same_config(&one, &controlplane, "v1.11.2"));
        assert!(!is_same_config(&one, &config("not a config"), "v1.11.2"));
    }
}

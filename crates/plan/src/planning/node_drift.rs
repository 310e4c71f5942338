//! Drift of running nodes: Talos version, schematic and machine config.

use std::collections::{BTreeMap, BTreeSet};

use talmox_talos_config::leaf::{Leaf, leaves};
use talmox_talos_config::secret::{REDACTED, SecretText};
use talmox_talos_config::{Config, Release};

use super::address_change::AddressChange;
use super::builder::Builder;
use crate::desired::{Desired, DesiredNode};
use crate::observed::Configured;
use crate::plan::{Change, Class, FieldChange, FieldValue, Finding, FindingCode, Object};

pub(super) fn node(builder: &mut Builder<'_>, node: &DesiredNode, found: &Configured) {
    let desired = builder.desired;
    let mut fields = vec![];
    let mut class = Class::Live;
    let mut notes: BTreeSet<&str> = BTreeSet::new();
    if let (Some(wanted), Some(version)) = (&desired.talos_version, &found.version)
        && wanted != version
    {
        let (old, new) = (Some(version.clone()), Some(wanted.clone()));
        fields.push(FieldChange::new("talos", old, new));
        class = Class::Drain;
    }
    // Some images have no schematic, and nothing to compare.
    if let (Some(wanted), Some(schematic)) = (&node.schematic, &found.schematic)
        && wanted != schematic
    {
        let (old, new) = (Some(schematic.clone()), Some(wanted.clone()));
        fields.push(FieldChange::new("schematic", old, new));
        class = Class::Drain;
    }
    match &found.config {
        Some(config) => match differences(config, &node.config, release(desired, found)) {
            Some(mut differences) => {
                builder.findings.extend(kept_open(desired, &mut differences));
                differences.retain(|field| !is_letter_without_effect(field));
                for field in &differences {
                    let (own, note) = match AddressChange::of_config(&field.path) {
                        Some(change) => change.class(node),
                        None => (class_of(&field.path), None),
                    };
                    class = class.max(own);
                    notes.extend(note);
                }
                fields.extend(differences);
            }
            None => builder.findings.push(
                Finding::warning(
                    FindingCode::ConfigUnreadable,
                    &node.name,
                    "its config cannot be read",
                )
                .hint("update `talos_version:` or talmox: the config may be of a newer Talos"),
            ),
        },
        None => builder.findings.push(
            Finding::warning(
                FindingCode::ConfigUnreadable,
                &node.name,
                "its config was not compared: the node did not return it",
            )
            .hint("run the command again when the node answers"),
        ),
    }
    if !fields.is_empty() {
        let change = Change::open(Object::Node(node.name.clone()), class, fields);
        let notes: Vec<&str> = notes.into_iter().collect();
        builder.changes.push(if notes.is_empty() { change } else { change.note(notes.join("; ")) });
    }
}

/// Control planes that were created before there were workers stay schedulable: the first worker of a cluster is not a reason
/// to change them. Removes this difference, and returns a warning about it.
fn kept_open(desired: &Desired, differences: &mut Vec<FieldChange>) -> Option<Finding> {
    let is_kept = |field: &FieldChange| {
        let old = field.old.as_ref().and_then(FieldValue::as_text);
        field.path == SCHEDULING && old == Some("true") && field.new.is_none()
    };
    if !desired.derives_scheduling || !differences.iter().any(is_kept) {
        return None;
    }
    differences.retain(|field| !is_kept(field));
    let message = "control planes still accept all pods, although there are workers";
    let hint = "set `allow_scheduling_on_controlplanes: true` if they should; with `false` the \
                change is planned";
    Some(Finding::warning(FindingCode::SchedulingKept, &desired.cluster, message).hint(hint))
}

/// Whether a field differs only because the config of an earlier release of talmox selects a disk by its letter, where the
/// selection has no effect any more. An installed node is not installed again, and Talos finds a user volume that exists by the
/// label of its partition. Without this exception, every cluster of an earlier release would differ from its inventory
/// permanently. `machine.disks` is still reported as a difference, because Talos reads its devices at every boot.
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

/// The Talos release that can parse both configs: the node may be newer than the inventory says.
fn release(desired: &Desired, found: &Configured) -> Release {
    let of = |version: &Option<String>| version.as_deref().and_then(Release::of);
    of(&desired.talos_version).max(of(&found.version)).unwrap_or_default()
}

/// The hostname in a node's config.
pub(super) fn hostname(desired: &Desired, found: &Configured) -> Option<String> {
    let config = found.config.as_ref()?;
    let config = Config::parse(config.expose(), release(desired, found)).ok()?;
    let all = by_path(&config);
    let name = |path: &str| all.get(path).map(|leaf| leaf.text.to_owned());
    name("machine.network.hostname").or_else(|| name("HostnameConfig.hostname"))
}

/// The differences by path. `None` if one of the two is not a config.
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

const SCHEDULING: &str = "cluster.allowSchedulingOnControlPlanes";

/// Settings that Talos applies without a reboot.
const LIVE: &[&str] = &[
    "cluster.",
    "debug",
    "machine.acceptedCAs",
    "machine.ca",
    "machine.certSANs",
    "machine.controlPlane",
    "machine.features.hostDNS",
    "machine.features.imageCache",
    "machine.features.kubePrism",
    "machine.features.kubernetesTalosAPIAccess",
    "machine.features.nodeAddressSortAlgorithm",
    "machine.install",
    "machine.kernel",
    "machine.kubelet",
    "machine.logging",
    "machine.network",
    "machine.nodeAnnotations",
    "machine.nodeLabels",
    "machine.nodeTaints",
    "machine.pods",
    "machine.registries",
    "machine.seccompProfiles",
    "machine.sysctls",
    "machine.sysfs",
    "machine.time",
];

fn class_of(path: &str) -> Class {
    // Documents other than v1alpha1 never need a reboot.
    let is_document = path.starts_with(|c: char| c.is_ascii_uppercase());
    if is_document || LIVE.iter().any(|start| path.starts_with(start)) {
        Class::Live
    } else {
        Class::Drain
    }
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

    #[test]
    fn what_talos_cannot_take_over_needs_a_reboot() {
        assert_eq!(class_of("machine.sysctls.net"), Class::Live);
        assert_eq!(class_of("HostnameConfig.hostname"), Class::Live);
        assert_eq!(class_of("machine.files[0].path"), Class::Drain);
        assert_eq!(class_of("machine.type"), Class::Drain);
    }
}

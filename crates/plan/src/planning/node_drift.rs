//! Drift of running nodes: Talos version, schematic and machine config.

use std::collections::BTreeSet;

use talmox_talos_config::secret::SecretText;

use super::address_change::AddressChange;
use super::builder::Builder;
use super::config_difference::{ConfigDifference, INSTALLER, ROLE, is_of_other_release};
use super::ignored;
use super::node_change::ConfigChange;
use super::scope::Part;
use crate::desired::{Contact, Desired, DesiredNode};
use crate::observed::{Configured, DryRun};
use crate::plan::{Change, Class, ConfigMode, FieldChange, Finding, FindingCode, Left, Object};

pub(super) use super::config_difference::{differences, hostname, release};

const TALOS_UPGRADE: &str = "this needs an upgrade of Talos, which `up` does not make";
const KUBERNETES_UPGRADE: &str = "this needs an upgrade of Kubernetes, which `up` does not make";
const OTHER_ROLE: &str = "a node with another role is replaced";

/// Plans the changes of a running Talos node.
pub(super) fn node(builder: &mut Builder<'_>, node: &DesiredNode, found: &Configured) {
    let mut upgrade = upgrade(builder.desired, node, found);
    let compared = ConfigDifference::of(builder.desired, node, found);
    let mut difference = compared.unwrap_or_else(|| {
        builder.findings.push(unreadable(node, found.config.is_some()));
        ConfigDifference::default()
    });
    if difference.keeps_scheduling {
        builder.findings.push(scheduling_kept(builder.desired));
    }
    // Differences that `ignore:` accepts get no step.
    let object = Object::Node(node.name.clone());
    ignored::take(builder, &node.name, &object, |_| Class::Drain, &mut upgrade);
    let class = |field: &FieldChange| class_of(&field.path);
    let has_ignored = ignored::take(builder, &node.name, &object, class, &mut difference.fields);
    if !upgrade.is_empty() {
        // A config for another Talos release is part of the upgrade. The same applies to the image that the upgrade installs.
        let is_other_release = is_of_other_release(builder.desired, found);
        let fields = difference.fields.into_iter();
        let (with_upgrade, rest): (Vec<_>, Vec<_>) =
            fields.partition(|field| is_other_release || field.path == INSTALLER);
        difference.fields = rest;
        upgrade.extend(with_upgrade);
        let change = Change::left(object, Class::Drain, upgrade, Left::Impossible);
        builder.changes.push(change.note(TALOS_UPGRADE));
    }
    if let Some(path) = difference.secret() {
        let message = format!("`{path}` of its config is not that of the secrets bundle");
        let hint = "restore the secrets bundle of this cluster from a backup or from Git: another one would make its stored data \
                    and its credentials unusable. If a patch sets this value, remove the patch";
        builder
            .findings
            .push(Finding::error(FindingCode::SecretsDiffer, &node.name, message).hint(hint));
        return;
    }
    if !difference.fields.is_empty() {
        config(builder, node, found, difference, has_ignored);
    }
    first_addresses(builder, node, found);
}

/// Plans a new cidata volume for a node that still has an address of its former volume. A run that was interrupted after the change
/// of the config leaves such a node.
fn first_addresses(builder: &mut Builder<'_>, node: &DesiredNode, found: &Configured) {
    let is_planned = builder.node_changes.get(&node.name).is_some_and(|it| it.renews_volume);
    if is_planned || !node.renews_volume() || node.addresses.is_empty() {
        return;
    }
    let stale = found.first_addresses.iter().find(|address| !node.addresses.contains(address));
    // A node that still answers at its former address gets its new address with the change of its config, which is planned already.
    let has_moved = found.address.is_some_and(|address| node.addresses.contains(&address));
    let Some(stale) = stale.filter(|_| has_moved) else { return };
    let new = node.addresses.first().map(ToString::to_string);
    let fields = vec![FieldChange::new("first address", Some(stale.to_string()), new)];
    let object = Object::Node(node.name.clone());
    if !builder.scope.allows(&node.name, Part::Configs) {
        builder.changes.push(Change::left(object, Class::Drain, fields, Left::NotSelected));
        return;
    }
    builder.node_changes.entry(node.name.clone()).or_default().renews_volume = true;
    builder.changes.push(Change::planned(object, Class::Drain, fields));
}

/// Differences that only an upgrade of Talos can remove.
fn upgrade(desired: &Desired, node: &DesiredNode, found: &Configured) -> Vec<FieldChange> {
    let mut fields = vec![];
    if let (Some(expected), Some(version)) = (&desired.talos_version, &found.version)
        && expected != version
    {
        let (old, new) = (Some(version.clone()), Some(expected.clone()));
        fields.push(FieldChange::new("talos", old, new));
    }
    // Some images have no schematic, so there is nothing to compare.
    if let (Some(expected), Some(schematic)) = (&node.schematic, &found.schematic)
        && expected != schematic
    {
        let (old, new) = (Some(schematic.clone()), Some(expected.clone()));
        fields.push(FieldChange::new("schematic", old, new));
    }
    fields
}

/// Plans the change of a config, or reports why no step applies it.
fn config(
    builder: &mut Builder<'_>,
    node: &DesiredNode,
    found: &Configured,
    mut difference: ConfigDifference,
    has_ignored: bool,
) {
    let sent = leave_version(builder, node, found, &mut difference);
    if difference.fields.is_empty() {
        return;
    }
    let cost = Cost::of(node, found, &difference);
    let is_selected = builder.scope.allows(&node.name, Part::Configs);
    let left = if difference.has(ROLE) {
        Some((Left::NeedsConsent, Some(OTHER_ROLE)))
    } else if difference.is_of_kubernetes() {
        Some((Left::Impossible, Some(KUBERNETES_UPGRADE)))
    } else if cost.class == Class::Replace {
        Some((Left::NeedsConsent, None))
    } else if !is_selected {
        Some((Left::NotSelected, None))
    } else if has_ignored {
        Some((Left::Impossible, Some(ignored::WHOLE_CONFIG)))
    } else if let Some(DryRun::Rejected(reason)) = &found.dry_run {
        builder.findings.push(rejected(node, reason));
        Some((Left::Blocked, None))
    } else {
        None
    };
    let object = Object::Node(node.name.clone());
    let (mut notes, class) = (cost.notes, cost.class);
    let change = if let Some((why, note)) = left {
        notes.extend(note);
        let class = if difference.has(ROLE) { Class::Replace } else { class };
        Change::left(object, class, difference.fields, why)
    } else {
        // The inventory may contain another address than the one that the node has now.
        let now = found.address.map_or(node.contact, Contact::At);
        let change = builder.node_changes.entry(node.name.clone()).or_default();
        change.config = Some(ConfigChange { mode: cost.mode, now, config: sent });
        change.renews_volume |= cost.renews_volume;
        Change::planned(object, class, difference.fields)
    };
    let notes: Vec<&str> = notes.into_iter().collect();
    builder.changes.push(if notes.is_empty() { change } else { change.note(notes.join("; ")) });
}

/// Leaves the differences of the version of Kubernetes, if the other differences can be applied without them. Returns the config
/// to apply.
fn leave_version(
    builder: &mut Builder<'_>,
    node: &DesiredNode,
    found: &Configured,
    difference: &mut ConfigDifference,
) -> SecretText {
    if !difference.is_of_kubernetes() {
        return node.config.clone();
    }
    let Some(kept) = difference.with_kept_version(builder.desired, node, found) else {
        return node.config.clone();
    };
    let object = Object::Node(node.name.clone());
    let versions = difference.take_version();
    let change = Change::left(object, Class::Live, versions, Left::Impossible);
    builder.changes.push(change.note(KUBERNETES_UPGRADE));
    kept
}

/// Effect of a changed config on the node.
#[derive(Debug)]
struct Cost {
    class: Class,
    mode: ConfigMode,
    notes: BTreeSet<&'static str>,
    renews_volume: bool,
}

impl Cost {
    fn of(node: &DesiredNode, found: &Configured, difference: &ConfigDifference) -> Self {
        let fields = &difference.fields;
        if difference.is_saved_only {
            // The node already uses the config, so only the saved config changes.
            let (class, mode) = (Class::Live, ConfigMode::Live);
            return Self { class, mode, notes: BTreeSet::new(), renews_volume: false };
        }
        let by_table = fields.iter().map(|field| class_of(&field.path)).max();
        let mut class = match &found.dry_run {
            Some(DryRun::Live) => Class::Live,
            Some(DryRun::Reboot) => Class::Drain,
            Some(DryRun::Rejected(_)) | None => by_table.unwrap_or(Class::Live),
        };
        let mode = if class > Class::Live {
            ConfigMode::Reboot
        } else if fields.iter().any(|field| is_of_network(&field.path)) {
            ConfigMode::Try
        } else {
            ConfigMode::Live
        };
        // Talos applies a new address at once, but the node also keeps the address of its first boot.
        let mut notes = BTreeSet::new();
        let mut renews_volume = false;
        for change in fields.iter().filter_map(|field| AddressChange::of_config(&field.path)) {
            let (own, note) = change.running_class(node);
            class = class.max(own);
            notes.extend(note);
            renews_volume |= change.renews_volume(node);
        }
        Self { class, mode, notes, renews_volume }
    }
}

fn rejected(node: &DesiredNode, reason: &str) -> Finding {
    let message = format!("Talos rejects its changed config: {reason}");
    let hint =
        "correct the setting or patch that the message names; `talmox render` shows the config";
    Finding::error(FindingCode::ConfigRejected, &node.name, message).hint(hint)
}

fn unreadable(node: &DesiredNode, is_returned: bool) -> Finding {
    let (message, hint) = if is_returned {
        (
            "its config cannot be read",
            "update `talos_version:` or talmox: the config may be of a newer Talos",
        )
    } else {
        (
            "its config was not compared: the node did not return it",
            "run the command again when the node answers",
        )
    };
    Finding::warning(FindingCode::ConfigUnreadable, &node.name, message).hint(hint)
}

/// Warning about control planes that stay schedulable although there are workers.
fn scheduling_kept(desired: &Desired) -> Finding {
    let message = "control planes still accept all pods, although there are workers";
    let hint = "set `allow_scheduling_on_controlplanes: true` if they should; with `false` the \
                change is planned";
    Finding::warning(FindingCode::SchedulingKept, &desired.cluster, message).hint(hint)
}

/// Settings that Talos applies without a reboot. This table is used only without the result of a dry run. There is also no
/// result for Talos 1.14 and newer, because these versions do not report in a dry run that a change needs a reboot.
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
    // Config documents other than v1alpha1 never need a reboot.
    if is_document(path) || LIVE.iter().any(|start| path.starts_with(start)) {
        Class::Live
    } else {
        Class::Drain
    }
}

fn is_document(path: &str) -> bool {
    path.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Config documents that cannot make a node unreachable. All other kinds count as network settings, because an unnecessary
/// trial of a config takes only seconds.
const NOT_OF_NETWORK: &[&str] = &[
    "EnvironmentConfig",
    "EventSinkConfig",
    "ExistingVolumeConfig",
    "ExtensionServiceConfig",
    "ExternalVolumeConfig",
    "ImageVerificationConfig",
    "KmsgLogConfig",
    "OOMConfig",
    "PCIDriverRebindConfig",
    "RawVolumeConfig",
    "RegistryAuthConfig",
    "RegistryMirrorConfig",
    "RegistryTLSConfig",
    "SwapVolumeConfig",
    "TimeSyncConfig",
    "TrustedRootsConfig",
    "UserVolumeConfig",
    "VolumeConfig",
    "WatchdogTimerConfig",
    "ZswapConfig",
];

/// Whether a wrong value could make the node or the endpoint of the cluster unreachable.
fn is_of_network(path: &str) -> bool {
    if is_document(path) {
        let kind = path.split(['/', '.']).next().unwrap_or_default();
        return !NOT_OF_NETWORK.contains(&kind);
    }
    path.starts_with("machine.network") || path.starts_with("cluster.controlPlane.endpoint")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_talos_cannot_apply_live_need_a_reboot() {
        assert_eq!(class_of("machine.sysctls.net"), Class::Live);
        assert_eq!(class_of("HostnameConfig.hostname"), Class::Live);
        assert_eq!(class_of("machine.files[0].path"), Class::Drain);
        assert_eq!(class_of("machine.type"), Class::Drain);
    }

    #[test]
    fn settings_of_the_network_are_tried() {
        for path in [
            "machine.network.nameservers[0]",
            "cluster.controlPlane.endpoint",
            "LinkConfig/eth0.mtu",
            "ResolverConfig.nameservers[0].address",
            "NetworkDefaultActionConfig.ingress",
        ] {
            assert!(is_of_network(path), "{path}");
        }
        for path in [
            "machine.nodeLabels.rack",
            "cluster.controlPlane.localAPIServerPort",
            "UserVolumeConfig/data.filesystem.type",
            "TimeSyncConfig.enabled",
        ] {
            assert!(!is_of_network(path), "{path}");
        }
    }
}

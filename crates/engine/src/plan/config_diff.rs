//! How a running node differs from what it should be: its version, its schematic, its config.

use std::collections::{BTreeMap, BTreeSet};

use talmox_talos_config::secret::{REDACTED, SecretText};
use talmox_talos_config::{Config, Release};
use talmox_yaml::{Node as Yaml, Value};

use super::Builder;
use super::change::{Change, Class, FieldChange, Finding, Object};
use super::readdress::Readdressing;
use crate::desired::{Desired, DesiredNode};
use crate::observe::Configured;

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
    // Images that name no schematic have nothing to say about it.
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
                for field in &differences {
                    let (own, note) = match Readdressing::of_config(&field.path) {
                        Some(change) => change.class(node),
                        None => (class_of(&field.path), None),
                    };
                    class = class.max(own);
                    notes.extend(note);
                }
                fields.extend(differences);
            }
            None => builder.findings.push(
                Finding::warning(&node.name, "its config cannot be read")
                    .hint("it may be of a newer version of Talos than the inventory says"),
            ),
        },
        None => builder.findings.push(
            Finding::warning(&node.name, "its config is not known, and was not compared")
                .hint("try again when the node answers"),
        ),
    }
    if !fields.is_empty() {
        let change = Change::open(Object::Node(node.name.clone()), class, fields);
        let notes: Vec<&str> = notes.into_iter().collect();
        builder.changes.push(if notes.is_empty() { change } else { change.note(notes.join("; ")) });
    }
}

/// Control planes that were made before there were workers keep taking all pods: the first worker of a cluster is no
/// reason to change them. Takes this out of the differences, and tells of it.
fn kept_open(desired: &Desired, differences: &mut Vec<FieldChange>) -> Option<Finding> {
    let is_kept = |field: &FieldChange| {
        field.path == SCHEDULING && field.old.as_deref() == Some("true") && field.new.is_none()
    };
    if !desired.derives_scheduling || !differences.iter().any(is_kept) {
        return None;
    }
    differences.retain(|field| !is_kept(field));
    let message = "control planes go on taking all pods, although there are workers";
    let hint = "say `allow_scheduling_on_controlplanes: true` if they should; with `false` the \
                change is planned";
    Some(Finding::warning(&desired.cluster, message).hint(hint))
}

/// What reads both configs: the node may be newer than the inventory says.
fn release(desired: &Desired, found: &Configured) -> Release {
    let of = |version: &Option<String>| version.as_deref().and_then(Release::of);
    of(&desired.talos_version).max(of(&found.version)).unwrap_or_default()
}

/// The name that a node's config gives it.
pub(super) fn hostname(desired: &Desired, found: &Configured) -> Option<String> {
    let config = found.config.as_ref()?;
    let mut all = flat(&Config::parse(config.expose(), release(desired, found)).ok()?);
    all.remove("machine.network.hostname").or_else(|| all.remove("HostnameConfig.hostname"))
}

/// What differs, by path. `None` if one of the two is no config.
pub(super) fn differences(
    old: &SecretText,
    new: &SecretText,
    release: Release,
) -> Option<Vec<FieldChange>> {
    let read = |text: &SecretText| Config::parse(text.expose(), release).ok().map(|it| flat(&it));
    let (old, new) = (read(old)?, read(new)?);
    let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differs = |path: &&&String| old.get(**path) != new.get(**path);
    let change = |path: &String| {
        let shown = |text: &String| {
            if is_shown(path) { text.clone() } else { REDACTED.to_owned() }
        };
        FieldChange::new(path, old.get(path).map(shown), new.get(path).map(shown))
    };
    Some(paths.iter().filter(differs).map(|path| change(path)).collect())
}

/// Every scalar by its path. Documents beyond the first go by kind and name.
fn flat(config: &Config) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for document in config.documents() {
        let start = match (document.kind(), document.name()) {
            ("v1alpha1", _) => String::new(),
            (kind, Some(name)) => format!("{kind}/{name}"),
            (kind, None) => kind.to_owned(),
        };
        collect(document.body(), &start, &mut all);
    }
    all
}

fn collect(node: &Yaml, path: &str, all: &mut BTreeMap<String, String>) {
    let dot = if path.is_empty() { "" } else { "." };
    match &node.value {
        Value::Scalar(_) if node.is_null() => {}
        Value::Scalar(scalar) => {
            all.insert(path.to_owned(), scalar.text.clone());
        }
        Value::Seq(seq) => {
            for (index, item) in seq.items.iter().enumerate() {
                collect(item, &format!("{path}[{index}]"), all);
            }
        }
        Value::Map(map) => {
            for entry in &map.entries {
                collect(
                    &entry.value,
                    &format!("{path}{dot}{}", entry.key.as_str().unwrap_or_default()),
                    all,
                );
            }
        }
    }
}

const SCHEDULING: &str = "cluster.allowSchedulingOnControlPlanes";

/// What may be shown. Everything else may hold a secret: files, environments, keys, credentials.
const SHOWN: &[&str] = &[
    SCHEDULING,
    "cluster.apiServer.certSANs",
    "cluster.clusterName",
    "cluster.controlPlane.endpoint",
    "cluster.network.",
    "cluster.proxy.disabled",
    "machine.certSANs",
    "machine.features.",
    "machine.install.",
    "machine.kernel.modules",
    "machine.network.",
    "machine.nodeLabels",
    "machine.nodeTaints",
    "machine.sysctls",
    "machine.sysfs",
    "machine.time",
    "machine.type",
    "DHCPv4Config",
    "HostnameConfig",
    "Layer2VIPConfig",
    "LinkConfig",
    "ResolverConfig",
    "TimeSyncConfig",
    "UserVolumeConfig",
    "VLANConfig",
];

/// Words that are in the paths of secrets.
const SECRET: &[&str] = &["key", "secret", "token", "password", "auth", "wireguard"];

fn is_shown(path: &str) -> bool {
    let lower = path.to_lowercase();
    let is_known = SHOWN.iter().any(|start| path.starts_with(start))
        || path.rsplit('.').next() == Some("image");
    is_known && !SECRET.iter().any(|word| lower.contains(word))
}

/// What Talos takes over while it runs; anything else waits for a reboot.
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
    // Documents beyond the first never need a reboot by themselves.
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
    fn secrets_have_no_value() {
        assert!(is_shown("machine.network.hostname"));
        assert!(is_shown("machine.kubelet.image"));
        for path in [
            "machine.token",
            "machine.ca.key",
            "machine.files[0].content",
            "machine.network.interfaces[0].wireguard.peers[0].publicKey",
            "ExtensionServiceConfig/tailscale.environment[0]",
            "cluster.secret",
            "machine.registries.config.r.auth.password",
        ] {
            assert!(!is_shown(path), "{path}");
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

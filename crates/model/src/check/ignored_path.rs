//! Paths in `ignore:`: the fields that a plan can show.
//!
//! A path that no plan shows would accept nothing, and the difference that the user meant would be changed.

use crate::language::closest;

/// Options of a VM, and other fields of a VM and of a node.
const FIELDS: [&str; 33] = [
    "agent",
    "balloon",
    "bios",
    "boot",
    "cores",
    "cpu",
    "efidisk0",
    "host",
    "hostpci0",
    "machine",
    "memory",
    "name",
    "nameserver",
    "net0",
    "notes",
    "numa",
    "onboot",
    "ostype",
    "pool",
    "protection",
    "schematic",
    "scsihw",
    "searchdomain",
    "serial0",
    "size",
    "smbios1",
    "sockets",
    "startup",
    "tags",
    "talos",
    "tpmstate0",
    "user-data",
    "vmid",
];

/// Options of a VM whose names end with a number.
const NUMBERED: [&str; 7] = ["scsi", "virtio", "sata", "ide", "net", "ipconfig", "hostpci"];

/// Keys of `machine` in a machine config.
const MACHINE: [&str; 27] = [
    "acceptedCAs",
    "baseRuntimeSpecOverrides",
    "ca",
    "certSANs",
    "controlPlane",
    "disks",
    "env",
    "features",
    "files",
    "install",
    "kernel",
    "kubelet",
    "logging",
    "network",
    "nodeAnnotations",
    "nodeLabels",
    "nodeTaints",
    "pods",
    "registries",
    "seccompProfiles",
    "sysctls",
    "sysfs",
    "systemDiskEncryption",
    "time",
    "token",
    "type",
    "udev",
];

/// Keys of `cluster` in a machine config.
const CLUSTER: [&str; 26] = [
    "acceptedCAs",
    "adminKubeconfig",
    "aescbcEncryptionSecret",
    "aggregatorCA",
    "allowSchedulingOnControlPlanes",
    "allowSchedulingOnMasters",
    "apiServer",
    "ca",
    "clusterName",
    "controlPlane",
    "controllerManager",
    "coreDNS",
    "discovery",
    "etcd",
    "externalCloudProvider",
    "extraManifestHeaders",
    "extraManifests",
    "id",
    "inlineManifests",
    "network",
    "proxy",
    "scheduler",
    "secret",
    "secretboxEncryptionSecret",
    "serviceAccount",
    "token",
];

/// Keys of the inventory, and the fields that plans show for them.
const INVENTORY: [(&str, &str); 13] = [
    ("ram", "memory"),
    ("cpu_type", "cpu"),
    ("machine_type", "machine"),
    ("disk", "scsi0"),
    ("bridge", "net0"),
    ("vlan", "net0"),
    ("gpu", "hostpci0"),
    ("tpm", "tpmstate0"),
    ("boot_order", "boot"),
    ("description", "notes"),
    ("sysctls", "machine.sysctls"),
    ("labels", "machine.nodeLabels"),
    ("taints", "machine.nodeTaints"),
];

/// Whether a plan can show a field with this path, or a field below it.
pub(super) fn is_known(path: &str) -> bool {
    let mut parts = path.split(['.', '[', '/']);
    let first = parts.next().unwrap_or_default();
    match keys_below(first) {
        Some(keys) => parts.next().is_none_or(|key| keys.contains(&key)),
        // Other documents of a machine config are named by their kind.
        None if first.ends_with("Config") => first.starts_with(|c: char| c.is_ascii_uppercase()),
        None => FIELDS.contains(&path) || is_numbered(path),
    }
}

/// The valid path that is most similar to `path`. None if none is similar.
pub(super) fn suggestion(path: &str) -> Option<String> {
    if let Some((_, field)) = INVENTORY.iter().find(|(key, _)| *key == path) {
        return Some((*field).to_owned());
    }
    let Some((first, rest)) = path.split_once('.') else {
        let roots = ["machine", "cluster"];
        return closest(path, FIELDS.iter().chain(&roots).copied()).map(str::to_owned);
    };
    let root = closest(first, ["machine", "cluster"])?;
    let key = rest.split(['.', '[', '/']).next().unwrap_or_default();
    let key = closest(key, keys_below(root)?.iter().copied())?;
    Some(format!("{root}.{key}"))
}

/// The keys below this root of a machine config. None if it is not a root.
fn keys_below(root: &str) -> Option<&'static [&'static str]> {
    match root {
        "machine" => Some(&MACHINE),
        "cluster" => Some(&CLUSTER),
        _ => None,
    }
}

fn is_numbered(path: &str) -> bool {
    let family = path.trim_end_matches(|c: char| c.is_ascii_digit());
    family.len() < path.len() && NUMBERED.contains(&family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_plans_show_are_known() {
        for path in [
            "memory",
            "scsi1",
            "net0",
            "user-data",
            "machine",
            "machine.sysctls",
            "machine.files[0].path",
            "cluster.apiServer.extraArgs",
            "UserVolumeConfig/data.name",
            "HostnameConfig",
        ] {
            assert!(is_known(path), "{path}");
        }
        for path in
            ["", "ram", "memmory", "net", "net0.bridge", "machine.sysctl", "userVolumeConfig"]
        {
            assert!(!is_known(path), "{path}");
        }
    }

    #[test]
    fn unknown_paths_get_the_nearest_valid_one() {
        for (path, nearest) in [
            ("memmory", "memory"),
            ("ram", "memory"),
            ("machine.sysctl", "machine.sysctls"),
            ("machin.sysctls.vm", "machine.sysctls"),
            ("cluster.apiserver.image", "cluster.apiServer"),
        ] {
            assert_eq!(suggestion(path).as_deref(), Some(nearest), "{path}");
        }
        assert_eq!(suggestion("frobnicate.everything"), None);
    }
}

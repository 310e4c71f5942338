//! Resource types by their names and aliases. Common types are built in; other types are looked up on the node.

use talmox_talos_api::client::{Resource, ResourceKind};
use talmox_talos_api::{Client, TalosError};
use talmox_yaml::Node;

/// Namespace, full name and additional aliases of each common type.
const KNOWN: &[(&str, &str, &[&str])] = &[
    ("cluster", "Affiliates.cluster.talos.dev", &[]),
    ("cluster", "Members.cluster.talos.dev", &[]),
    ("config", "MachineConfigs.config.talos.dev", &["mc", "mcs"]),
    ("config", "MachineTypes.config.talos.dev", &["mt", "mts"]),
    ("etcd", "EtcdMembers.etcd.talos.dev", &[]),
    ("hardware", "MemoryModules.hardware.talos.dev", &["ram"]),
    ("hardware", "PCIDevices.hardware.talos.dev", &["device", "devices"]),
    ("hardware", "Processors.hardware.talos.dev", &["cpu", "cpus"]),
    ("hardware", "SystemInformations.hardware.talos.dev", &["systeminfo"]),
    ("k8s", "KubeletSpecs.kubernetes.talos.dev", &[]),
    ("k8s", "Nodenames.kubernetes.talos.dev", &[]),
    ("k8s", "NodeStatuses.kubernetes.talos.dev", &[]),
    ("k8s", "StaticPodStatuses.kubernetes.talos.dev", &["podstatus"]),
    ("meta", "ResourceDefinitions.meta.cosi.dev", &["rd", "rds"]),
    ("network", "AddressStatuses.net.talos.dev", &["address", "addresses"]),
    ("network", "HostnameStatuses.net.talos.dev", &["hostname"]),
    ("network", "LinkStatuses.net.talos.dev", &["link", "links"]),
    ("network", "NodeAddresses.net.talos.dev", &["na", "nas"]),
    ("network", "ResolverStatuses.net.talos.dev", &["resolvers"]),
    ("network", "RouteStatuses.net.talos.dev", &["route", "routes"]),
    ("network", "TimeServerStatuses.net.talos.dev", &["timeserver", "timeservers"]),
    ("runtime", "Diagnostics.runtime.talos.dev", &[]),
    ("runtime", "Disks.block.talos.dev", &[]),
    ("runtime", "DiscoveredVolumes.block.talos.dev", &["dv", "dvs"]),
    ("runtime", "ExtensionStatuses.runtime.talos.dev", &["extensions"]),
    ("runtime", "LoadedKernelModules.runtime.talos.dev", &["module", "modules"]),
    ("runtime", "MachineStatuses.runtime.talos.dev", &["ms"]),
    ("runtime", "PlatformMetadatas.talos.dev", &[]),
    ("runtime", "Services.v1alpha1.talos.dev", &["svc"]),
    ("runtime", "SystemDisks.block.talos.dev", &["sd", "sds"]),
    ("runtime", "TimeStatuses.v1alpha1.talos.dev", &["ts"]),
    ("runtime", "VolumeStatuses.block.talos.dev", &["vs"]),
];

/// Resource type with its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Kind {
    pub(super) fn as_ref(&self) -> ResourceKind<'_> {
        ResourceKind::new(&self.namespace, &self.name)
    }
}

/// Parts of the names of resource types that may hold keys.
const SECRET_NAME_PARTS: [&str; 6] = [
    "machineconfigs",
    "secret",
    "kubespanidentit",
    "extensionserviceconfig",
    "encryption",
    "linkspecs",
];

/// Whether resources of this type may hold keys.
pub(super) fn may_hold_keys(kind: &str) -> bool {
    let kind = kind.to_lowercase();
    SECRET_NAME_PARTS.iter().any(|part| kind.contains(part))
}

/// Looks up a built-in type.
pub(super) fn known(text: &str) -> Option<Kind> {
    let wanted = text.to_lowercase();
    let (namespace, name, _) = KNOWN.iter().find(|(_, name, short)| {
        let full = name.to_lowercase();
        let plural = full.split('.').next().unwrap_or_default();
        let singular = |end: &str| plural.strip_suffix(end) == Some(wanted.as_str());
        wanted == full
            || wanted == plural
            || singular("es")
            || singular("s")
            || short.contains(&wanted.as_str())
    })?;
    Some(Kind { namespace: (*namespace).to_owned(), name: (*name).to_owned() })
}

/// Looks up a type on the node. Returns several types if they have the same alias.
pub(super) async fn look_up(client: &Client, text: &str) -> Result<Vec<Kind>, TalosError> {
    let definitions = client.list(ResourceKind::DEFINITION).await?;
    let wanted = text.to_lowercase();
    Ok(definitions.iter().filter_map(|one| defined(one, &wanted)).collect())
}

fn defined(definition: &Resource, wanted: &str) -> Option<Kind> {
    let tree = definition.tree()?;
    let map = tree.as_map()?;
    let text = |key: &str| map.get(key).and_then(Node::as_str).unwrap_or_default();
    let aliases = map.get("allAliases").and_then(Node::as_seq).map(|seq| seq.items.as_slice());
    let mut names = aliases.unwrap_or_default().iter().filter_map(Node::as_str);
    let is_it = definition.id.to_lowercase() == wanted
        || text("type").to_lowercase() == wanted
        || names.any(|name| name.to_lowercase() == wanted);
    is_it.then(|| Kind {
        namespace: text("defaultNamespace").to_owned(),
        name: text("type").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_hold_keys_are_recognised() {
        for kind in ["MachineConfigs.config.talos.dev", "OSRootSecrets.secrets.talos.dev"] {
            assert!(may_hold_keys(kind), "{kind}");
        }
        assert!(!may_hold_keys("Members.cluster.talos.dev"));
    }

    #[test]
    fn types_have_several_names() {
        for (text, name) in [
            ("members", "Members.cluster.talos.dev"),
            ("Member", "Members.cluster.talos.dev"),
            ("machinestatus", "MachineStatuses.runtime.talos.dev"),
            ("MachineStatuses", "MachineStatuses.runtime.talos.dev"),
            ("ms", "MachineStatuses.runtime.talos.dev"),
            ("svc", "Services.v1alpha1.talos.dev"),
            ("disks.block.talos.dev", "Disks.block.talos.dev"),
            ("addresses", "AddressStatuses.net.talos.dev"),
            ("nodeaddress", "NodeAddresses.net.talos.dev"),
            ("extensions", "ExtensionStatuses.runtime.talos.dev"),
            ("hostname", "HostnameStatuses.net.talos.dev"),
            ("systeminformation", "SystemInformations.hardware.talos.dev"),
            ("platformmetadata", "PlatformMetadatas.talos.dev"),
        ] {
            assert_eq!(known(text).map(|kind| kind.name).as_deref(), Some(name), "{text}");
        }
        assert_eq!(known("etcdspecs"), None);
        assert_eq!(known(""), None);
    }

    #[test]
    fn every_name_is_unique() {
        let mut names = std::collections::BTreeSet::new();
        for (_, name, short) in KNOWN {
            assert!(names.insert(name.to_lowercase()), "{name}");
            for short in *short {
                assert!(names.insert((*short).to_owned()), "{short}");
                assert_eq!(known(short).unwrap().name, *name);
            }
        }
    }
}

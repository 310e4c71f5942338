//! Detection of manifests that install a pod network. Without a pod network, nodes do not become ready.

use serde_json::Value;

use super::read::Manifest;

/// Prefixes of the names of DaemonSets that install a pod network.
const NAMES: [&str; 9] = [
    "antrea-agent",
    "calico-node",
    "canal",
    "cilium",
    "kindnet",
    "kube-flannel",
    "kube-ovn-cni",
    "kube-router",
    "weave-net",
];

/// The folder from which the container runtime reads its network configuration. Every pod network writes to this folder.
const SETTINGS: &str = "/etc/cni";

/// Whether a DaemonSet with this name and these host paths installs a pod network.
pub fn is_pod_network<'a>(name: &str, mut host_paths: impl Iterator<Item = &'a str>) -> bool {
    NAMES.iter().any(|known| name.starts_with(known))
        || host_paths.any(|path| path.starts_with(SETTINGS))
}

impl Manifest {
    /// Whether the manifest installs a pod network.
    pub fn brings_network(&self) -> bool {
        match (self.group(), self.kind.as_str()) {
            ("apps", "DaemonSet") => {
                let volumes = self.object.pointer("/spec/template/spec/volumes");
                let volumes = volumes.and_then(Value::as_array).into_iter().flatten();
                let paths = volumes.filter_map(|volume| volume["hostPath"]["path"].as_str());
                is_pod_network(&self.name, paths)
            }
            // The operator of Calico creates the DaemonSet from this object.
            ("operator.tigera.io", "Installation") => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::read_manifests;

    #[test]
    fn a_network_is_known_by_its_name_or_by_where_it_writes() {
        let set = |name: &str, path: &str| {
            format!(
                "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: {name}}}\n\
                 spec: {{template: {{spec: {{volumes: [{{name: a, hostPath: {{path: {path}}}}}]}}}}}}\n"
            )
        };
        for (name, path, expected) in [
            ("cilium", "/sys/fs/bpf", true),
            ("homemade", "/etc/cni/net.d", true),
            ("node-exporter", "/sys", false),
        ] {
            let manifest = read_manifests("x.yaml", &set(name, path)).unwrap().remove(0);
            assert_eq!(manifest.brings_network(), expected, "{name}");
        }
    }
}

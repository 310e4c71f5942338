//! What brings a network for pods: nodes become ready with it, and not without.

use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::Value;

use super::manifest::Manifest;

/// DaemonSets that do, by how their names begin.
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

/// Where the container runtime looks for a network: whoever brings one writes there.
const SETTINGS: &str = "/etc/cni";

/// Whether this one of a cluster's does.
pub(super) fn is_network(set: &DaemonSet) -> bool {
    let pod = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let volumes = pod.and_then(|pod| pod.volumes.as_deref()).unwrap_or_default();
    let paths = volumes.iter().filter_map(|volume| volume.host_path.as_ref());
    is_one(
        set.metadata.name.as_deref().unwrap_or_default(),
        paths.map(|mounted| mounted.path.as_str()),
    )
}

fn is_one<'a>(name: &str, mut host_paths: impl Iterator<Item = &'a str>) -> bool {
    NAMES.iter().any(|known| name.starts_with(known))
        || host_paths.any(|path| path.starts_with(SETTINGS))
}

impl Manifest {
    /// Whether the pods of the cluster get a network by it.
    pub fn brings_network(&self) -> bool {
        match (self.group(), self.kind.as_str()) {
            ("apps", "DaemonSet") => {
                let volumes = self.object.pointer("/spec/template/spec/volumes");
                let volumes = volumes.and_then(Value::as_array).into_iter().flatten();
                let paths = volumes.filter_map(|volume| volume["hostPath"]["path"].as_str());
                is_one(&self.name, paths)
            }
            // Calico's operator makes the DaemonSet of it.
            ("operator.tigera.io", "Installation") => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::read_manifests;
    use super::*;

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
            let typed: DaemonSet = serde_json::from_value(manifest.object.clone()).unwrap();
            assert_eq!(is_network(&typed), expected, "{name}");
        }
    }
}

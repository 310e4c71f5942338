//! Recognition of the DaemonSets in a cluster that install a pod network.

use k8s_openapi::api::apps::v1::DaemonSet;
use talmox_plan::manifest::is_pod_network;

/// Whether this DaemonSet installs a pod network.
pub(super) fn is_network(set: &DaemonSet) -> bool {
    let pod = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let volumes = pod.and_then(|pod| pod.volumes.as_deref()).unwrap_or_default();
    let paths = volumes.iter().filter_map(|volume| volume.host_path.as_ref());
    is_pod_network(
        set.metadata.name.as_deref().unwrap_or_default(),
        paths.map(|mounted| mounted.path.as_str()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use talmox_plan::manifest::read_manifests;

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
            let typed: DaemonSet = serde_json::from_value(manifest.object.clone()).unwrap();
            assert_eq!(is_network(&typed), expected, "{name}");
        }
    }
}

//! Pods of a manifest: whether they need a pod network, and whether they assign a shared address.

use serde_json::Value;

use super::read::Manifest;

/// The taint that Kubernetes sets on nodes that are not ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The name of kube-vip in its images and charts. kube-vip assigns a shared address to a control plane.
const KUBE_VIP: &str = "kube-vip";

impl Manifest {
    /// Whether the manifest creates pods that cannot start before a pod network exists. Pods of a DaemonSet are scheduled on
    /// nodes that are not ready. Other pods need a toleration for such nodes.
    pub fn needs_network(&self) -> bool {
        let is_daemon_set = match (self.group(), self.kind.as_str()) {
            ("apps", "DaemonSet") => true,
            ("apps", "Deployment" | "StatefulSet") | ("batch", "Job") => false,
            _ => return false,
        };
        if self.object.pointer("/spec/replicas").and_then(Value::as_i64) == Some(0) {
            return false;
        }
        let pod = self.pod();
        let has_own = pod.is_some_and(|pod| pod["hostNetwork"] == true);
        !has_own || !(is_daemon_set || pod.is_some_and(may_begin))
    }

    /// Whether the pods of the manifest assign the shared address.
    pub fn holds_shared_address(&self) -> bool {
        let containers = self.pod().and_then(|pod| pod["containers"].as_array());
        let mut images =
            containers.into_iter().flatten().filter_map(|container| container["image"].as_str());
        images.any(|image| {
            let name = image.rsplit('/').next().unwrap_or_default();
            let name = name.split([':', '@']).next().unwrap_or_default();
            // The cloud provider of kube-vip assigns addresses to Services, but not to control planes.
            name.starts_with(KUBE_VIP) && !name.contains("cloud-provider")
        })
    }

    /// Whether the manifest contains the text `kube-vip`. A controller in the cluster may install kube-vip from a chart.
    pub fn names_kube_vip(&self) -> bool {
        self.object.to_string().contains(KUBE_VIP)
    }

    fn pod(&self) -> Option<&Value> {
        let path = if self.kind == "Pod" { "/spec" } else { "/spec/template/spec" };
        self.object.pointer(path)
    }
}

fn may_begin(pod: &Value) -> bool {
    let mut tolerations = pod["tolerations"].as_array().into_iter().flatten();
    tolerations.any(|one| match one["key"].as_str() {
        Some(key) => key == NOT_READY,
        None => one["operator"] == "Exists",
    })
}

#[cfg(test)]
mod tests {
    use super::super::read::read_manifests;
    use super::*;

    fn manifest(kind: &str, spec: &str, pod: &str) -> Manifest {
        let text = format!(
            "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: a}}\n\
             spec: {{{spec}template: {{spec: {{{pod}}}}}}}\n"
        );
        read_manifests("x.yaml", &text).unwrap().remove(0)
    }

    #[test]
    fn pods_need_a_network_unless_they_use_that_of_a_node_that_need_not_be_ready() {
        let begins = "hostNetwork: true, tolerations: [{operator: Exists}]";
        for (kind, spec, pod, expected) in [
            ("Deployment", "", "", true),
            ("Deployment", "replicas: 0, ", "", false),
            ("Deployment", "", "hostNetwork: true", true),
            ("Deployment", "", begins, false),
            ("StatefulSet", "", "tolerations: [{operator: Exists}]", true),
            ("DaemonSet", "", "", true),
            ("DaemonSet", "", "hostNetwork: true", false),
            ("ConfigMap", "", "", false),
        ] {
            let found = manifest(kind, spec, pod).needs_network();
            assert_eq!(found, expected, "{kind} {spec}{pod}");
        }
    }

    #[test]
    fn the_holder_of_a_shared_address_is_recognised_by_its_image() {
        for (image, expected) in [
            ("ghcr.io/kube-vip/kube-vip:v1.0.0", true),
            ("registry.lan:5000/kube-vip-iptables@sha256:00", true),
            ("ghcr.io/kube-vip/kube-vip-cloud-provider:v0.0.12", false),
            ("kube-vip/till:1", false),
        ] {
            let pod = format!("containers: [{{name: a, image: '{image}'}}]");
            let found = manifest("DaemonSet", "", &pod);
            assert_eq!(found.holds_shared_address(), expected, "{image}");
            assert!(found.names_kube_vip());
        }
    }
}

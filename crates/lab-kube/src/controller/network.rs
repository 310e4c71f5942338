//! Detection of pods that install a CNI plugin on their node.

use std::path::Path;

use serde_json::Value;

use crate::object::{self, flag, list, text};

/// Directory in which the container runtime looks for CNI configuration.
const SETTINGS: &str = "/etc/cni/net.d";

/// Name prefixes of DaemonSets that install a CNI plugin. A pod of such a DaemonSet counts even if it does not mount the CNI
/// directory.
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

/// Whether this pod installs a CNI plugin on its node.
pub(super) fn installs_network(pod: &Value) -> bool {
    let owner = object::controller(pod).filter(|owner| text(owner, "/kind") == "DaemonSet");
    owner.is_some_and(|owner| is_known(text(owner, "/name")) || writes_settings(pod))
}

fn is_known(name: &str) -> bool {
    NAMES.iter().any(|known| name.starts_with(known)) && !name.contains("envoy")
}

fn writes_settings(pod: &Value) -> bool {
    let is_there = |volume: &&Value| {
        let path = Path::new(text(volume, "/hostPath/path"));
        path.starts_with(SETTINGS) || Path::new(SETTINGS).parent() == Some(path)
    };
    let volumes = list(pod, "/spec/volumes").iter().filter(is_there);
    let names: Vec<&str> = volumes.map(|volume| text(volume, "/name")).collect();
    let containers = ["/spec/initContainers", "/spec/containers"].map(|all| list(pod, all));
    let mut mounts =
        containers.iter().copied().flatten().flat_map(|one| list(one, "/volumeMounts"));
    mounts.any(|mount| names.contains(&text(mount, "/name")) && !flag(mount, "/readOnly"))
}

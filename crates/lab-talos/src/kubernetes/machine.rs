//! Properties of a machine that a kubelet reports.

use talmox_lab_kube::Machine;

use super::{node_spec, static_pod};
use crate::talos_state::TalosState;

/// Machine properties for the Node object; `None` while the node has no config or no address.
pub(super) fn of(talos: &TalosState, vmid: u32, has_static_pods: bool) -> Option<Machine> {
    let node = talos.nodes.get(&vmid)?;
    let config = node.config.as_ref()?;
    let address = node.node_address()?;
    let mut static_pods = static_pod::of_config(config);
    if has_static_pods && let Some(components) = talos.components.get(&vmid) {
        static_pods.extend(static_pod::of_control_plane(components));
    }
    let (kernel, containerd) = software(node.version.minor);
    Some(Machine {
        name: node.hostname().to_lowercase(),
        address: address.to_string(),
        kubelet_version: config.facts.kubelet_version.clone(),
        os_image: format!("Talos ({})", node.version),
        kernel_version: format!("{kernel}-talos"),
        container_runtime: format!("containerd://{containerd}"),
        architecture: "amd64".to_owned(),
        cpus: node.hardware.cpus,
        memory_bytes: node.hardware.memory,
        system_uuid: node.hardware.uuid.clone(),
        boot_id: node.boot_id.clone(),
        labels: node_spec::labels(&config.facts),
        taints: node_spec::taints(&config.facts),
        static_pods,
    })
}

/// Kernel and containerd versions of a Talos minor release.
fn software(minor: u32) -> (&'static str, &'static str) {
    match minor {
        ..=8 => ("6.6.58", "2.0.0-rc.6"),
        9 => ("6.12.6", "2.0.1"),
        10 => ("6.12.25", "2.0.5"),
        11 => ("6.12.45", "2.1.4"),
        12 => ("6.18.1", "2.1.5"),
        _ => ("6.18.9", "2.2.1"),
    }
}

/// Whether a change of the properties requires a restart of the kubelet.
pub(super) fn needs_restart(one: &Machine, other: &Machine) -> bool {
    one.kubelet_version != other.kubelet_version
        || one.name != other.name
        || one.address != other.address
}

//! `talos-machines.auto.tfvars.json`: inputs of a Terraform module that creates one VM.

use serde_json::{Map, Value as Json, json};
use talmox_model::value::{MacAddress, Role};
use talmox_model::{Cluster, Node};
use talmox_plan::desired::NodeIdentity;

use crate::printer::Printer;

pub(super) const FILE_NAME: &str = "talos-machines.auto.tfvars.json";

/// Name of the Terraform variable.
const VARIABLE: &str = "talos_machines";

const GIB: u64 = 1 << 30;

/// Exports all nodes. MACs are derived from `cluster_id`, which is `None` for a cluster without secrets.
pub(super) fn export(cluster: &Cluster, cluster_id: Option<&str>, printer: &Printer) -> Json {
    let mut machines = Map::new();
    let mut has_unknown_mac = false;
    for node in &cluster.nodes {
        let name = node.name.value.as_str();
        let warn = |what: &str| {
            printer.say(&format!("{} `{name}` {what}", printer.paint("warning:", "1;33")));
        };
        if !node.is_talos() {
            warn("does not run Talos and is left out");
            continue;
        }
        let settings = node.settings();
        if settings.placement.host.get().is_none() {
            warn("names no Proxmox host: `node` is null");
        }
        if settings.hardware.gpu.mapping.is_given() {
            warn("uses a PCI mapping for its GPU, which the module does not support");
        }
        let mac = match (node.entry.mac.get(), cluster_id) {
            (Some(given), _) => Some(*given),
            (None, Some(id)) => NodeIdentity::of(node, id).macs.first().copied(),
            (None, None) => {
                has_unknown_mac = true;
                None
            }
        };
        machines.insert(name.to_owned(), machine(cluster, node, mac));
    }
    if has_unknown_mac {
        // Missing MACs need a warning, because rendered configs contain these MACs.
        printer.warn(
            "MACs are derived from the secrets of the cluster, which cannot be read: `mac` is null",
        );
    }
    json!({ VARIABLE: machines })
}

/// Inputs of one machine. Every machine has every key, so that Terraform infers one type for all machines. Unknown values
/// are null.
fn machine(cluster: &Cluster, node: &Node, mac: Option<MacAddress>) -> Json {
    let settings = node.settings();
    let (hardware, placement) = (&settings.hardware, &settings.placement);
    // The default template name contains the Talos version.
    let template = placement.template.get().cloned().or_else(|| {
        cluster.file.talos_version.get().map(|version| format!("talos-{version}-base"))
    });
    let disk = hardware.disk.required().bytes().div_ceil(GIB);
    json!({
        "name": node.name.value.as_str(),
        "node": placement.host.get().map(ToString::to_string),
        "template": template,
        "cores": hardware.cores.required().get(),
        "memory_mb": hardware.memory.required().mib(),
        "disk_gb": disk,
        "disk_pool": placement.datastore.get().map(ToString::to_string),
        "network_bridge": placement.bridge.get().map(ToString::to_string),
        "gpu_pci_bdf": hardware.gpu.pci.get().map(ToString::to_string),
        "gpu_pcie_mode": hardware.gpu.pcie.required(),
        "gpu_rombar": hardware.gpu.rombar.required(),
        "onboot": hardware.onboot.required(),
        "role": match node.role {
            Role::ControlPlane => "controlplane",
            Role::Worker => "worker",
        },
        "ip": node.address().map(|address| address.to_string()),
        "vmid": node.entry.vmid.get().map(|vmid| vmid.get()),
        "mac": mac.map(|mac| mac.to_string()),
    })
}

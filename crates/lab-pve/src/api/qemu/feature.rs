//! `GET /nodes/{node}/qemu/{vmid}/feature`: whether all disks of a VM support snapshots, linked clones or full clones.

use std::collections::BTreeSet;

use serde_json::json;

use super::vmid;
use crate::ApiError;
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::{Config, PveState, VolumeId};
use crate::storage::Feature;
use crate::vm::drive;
use crate::vm::power::is_running;
use crate::vm::volume_references::all_can;

pub(super) fn get(call: &Call) -> Outcome {
    let vmid = vmid(call);
    let pve_state = call.pve_state();
    is_running(&pve_state, &call.node, vmid)?;
    let vm = pve_state.vm(&call.node, vmid)?;
    let snapshot = call.params.text("snapname").filter(|name| !name.is_empty());
    let config = match snapshot {
        None => &vm.config,
        Some(name) => {
            let missing = || ApiError::failed(format!("snapshot '{name}' does not exist"));
            &vm.snapshots.get(name).ok_or_else(missing)?.config
        }
    };
    let feature = match call.params.text("feature") {
        Some("snapshot") => Feature::Snapshot,
        Some("clone") => Feature::Clone,
        _ => Feature::Copy,
    };
    let has = all_can(&pve_state, config, feature, snapshot)?;
    let nodes = shared_nodes(&pve_state, &call.node, config)?;
    Ok(Reply::Data(json!({"hasFeature": u8::from(has), "nodes": nodes})))
}

/// Hosts that have access to the storages of all drives.
fn shared_nodes(
    pve_state: &PveState,
    node: &str,
    config: &Config,
) -> Result<BTreeSet<String>, ApiError> {
    let mut nodes: BTreeSet<String> = pve_state.hosts.keys().cloned().collect();
    for drive in drive::drives(config) {
        let Some(volume) = VolumeId::parse(drive.file()) else { continue };
        let storage = pve_state.storage(&volume.storage)?;
        if storage.disabled {
            nodes.clear();
        } else if !storage.nodes.is_empty() {
            nodes.retain(|host| storage.nodes.contains(host));
        } else if !storage.shared {
            nodes.retain(|host| host == node);
        }
    }
    Ok(nodes)
}

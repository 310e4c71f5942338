//! Whether a VM as a whole can be snapshotted or cloned, and where.

use std::collections::BTreeSet;

use serde_json::json;

use super::vmid;
use crate::Refusal;
use crate::call::{Call, Outcome, Reply};
use crate::storage::Feature;
use crate::vm::drive;
use crate::vm::power::is_running;
use crate::vm::volumes::all_can;
use crate::world::{Config, VolumeId, World};

pub(super) fn get(call: &Call) -> Outcome {
    let vmid = vmid(call);
    let world = call.world();
    is_running(&world, &call.node, vmid)?;
    let vm = world.vm(&call.node, vmid)?;
    let snapshot = call.params.text("snapname").filter(|name| !name.is_empty());
    let config = match snapshot {
        None => &vm.config,
        Some(name) => {
            let missing = || Refusal::failed(format!("snapshot '{name}' does not exist"));
            &vm.snapshots.get(name).ok_or_else(missing)?.config
        }
    };
    let feature = match call.params.text("feature") {
        Some("snapshot") => Feature::Snapshot,
        Some("clone") => Feature::Clone,
        _ => Feature::Copy,
    };
    let has = all_can(&world, config, feature, snapshot)?;
    let nodes = shared_nodes(&world, &call.node, config)?;
    Ok(Reply::Data(json!({"hasFeature": u8::from(has), "nodes": nodes})))
}

/// The hosts that see all of the drives' storages.
fn shared_nodes(world: &World, node: &str, config: &Config) -> Result<BTreeSet<String>, Refusal> {
    let mut nodes: BTreeSet<String> = world.hosts.keys().cloned().collect();
    for drive in drive::drives(config) {
        let Some(volume) = VolumeId::parse(drive.file()) else { continue };
        let storage = world.storage(&volume.storage)?;
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

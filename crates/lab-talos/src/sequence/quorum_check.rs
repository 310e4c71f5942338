//! etcd quorum check before an upgrade.

use talmox_talos_api::server::Status;

use super::super::talos_state::TalosState;

/// Rejects the upgrade of a control plane if etcd would lose its quorum without it. Workers can always be upgraded.
pub(super) fn allows_upgrade(talos: &TalosState, vmid: u32) -> Result<(), Status> {
    let Some(node) = talos.nodes.get(&vmid).filter(|node| node.is_control_plane()) else {
        return Ok(());
    };
    let cluster = node.etcd.and_then(|part| talos.etcds.get(&part.cluster));
    let Some(cluster) = cluster else {
        return Err(Status::unknown(
            "failed to create etcd client: error building etcd client: no etcd endpoints",
        ));
    };
    let rejected =
        |text: String| Err(Status::unknown(format!("error validating etcd for upgrade: {text}")));
    let count = cluster.members.len();
    if count == 2 {
        return rejected(format!(
            "etcd member count({count}) is insufficient to maintain quorum if upgrade commences"
        ));
    }
    for (id, member) in &cluster.members {
        if member.name.is_empty() {
            return rejected(format!(
                "etcd member {id:016x} is not started, all members must be running to perform an upgrade"
            ));
        }
        let is_reachable =
            member.is_up && (member.vmid == vmid || talos.is_connected(vmid, member.vmid));
        if !is_reachable {
            return rejected(format!(
                "etcd member {id:016x} is not healthy; all members must be healthy to perform an upgrade: context deadline exceeded"
            ));
        }
    }
    Ok(())
}

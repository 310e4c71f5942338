//! Observing whether VMs can be migrated to the host that the inventory sets.

use talmox_plan::desired::Desired;
use talmox_plan::observed::Pve;
use talmox_plan::planning::{VmPresence, places};
use talmox_pve::Client;
use talmox_pve::api::qemu;

/// Requests the conditions for the migration of each VM whose `host:` is another host. No request is sent if all VMs are on
/// their hosts.
pub(super) async fn look(desired: &Desired, client: &Client, pve: &mut Pve) {
    let mut found = vec![];
    for placed in places(desired, pve).nodes {
        let (VmPresence::Owned(_), Some(target)) = (&placed.state, &placed.node.pinned_host) else {
            continue;
        };
        let vm = &placed.own.vm;
        if *target != vm.node
            && pve.is_online(target)
            && let Ok(check) = client.send(&qemu::check_migrate(vm, Some(target))).await
        {
            found.push((vm.vmid, check));
        }
    }
    pve.migrations = found.into_iter().collect();
}

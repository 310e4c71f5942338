//! Preflight check: names of VMs, and pools.

use std::collections::BTreeSet;

use crate::plan::{Finding, FindingCode};
use crate::planning::builder::Builder;
use crate::planning::placed::VmPresence;

pub(super) fn check(builder: &Builder<'_>, findings: &mut Vec<Finding>) {
    for placed in &builder.places.nodes {
        let node = placed.node;
        let guests = builder.observed.pve.resources.guests.iter();
        let is_absent = matches!(placed.state, VmPresence::Absent);
        let doubles = guests.filter(|guest| {
            // A foreign VM with the name of a node without a VM has another finding.
            let is_told = is_absent && builder.observed.pve.vms.contains_key(&guest.vmid);
            let is_other = guest.vmid != placed.own.vm.vmid && !is_told;
            is_other && guest.name.as_deref() == Some(node.name.as_str())
        });
        for double in doubles {
            let message = format!(
                "VM {} on {} has the same name, and is not managed by talmox",
                double.vmid, double.node
            );
            let hint = "rename one of the two: talmox tells them apart, but people may not";
            findings
                .push(Finding::warning(FindingCode::VmNameInUse, &node.name, message).hint(hint));
        }
    }
    pools(builder, findings);
}

/// Checks that pools exist. A pool that the token may see and that Proxmox does not list does not exist.
fn pools(builder: &Builder<'_>, findings: &mut Vec<Finding>) {
    let pve = &builder.observed.pve;
    let new = builder.places.nodes.iter().filter(|one| matches!(one.state, VmPresence::Absent));
    let pools: BTreeSet<_> = new.filter_map(|placed| placed.node.pool.as_ref()).collect();
    for pool in pools {
        let path = format!("/pool/{pool}");
        if pve.resources.pools.contains(pool) || !pve.permissions.allows(&path, "Pool.Audit") {
            continue;
        }
        let hint = format!("as root on a host: pveum pool add {pool}");
        findings.push(
            Finding::error(FindingCode::PoolMissing, pool.as_str(), "Proxmox has no such pool")
                .hint(hint),
        );
    }
}

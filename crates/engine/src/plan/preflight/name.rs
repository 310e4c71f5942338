//! Names and pools: what is called as a VM of ours is, and is not it.

use std::collections::BTreeSet;

use super::super::Builder;
use super::super::change::Finding;
use super::super::place::State;

pub(super) fn check(builder: &Builder<'_>, findings: &mut Vec<Finding>) {
    for placed in &builder.places.nodes {
        let node = placed.node;
        let guests = builder.world.pve.resources.guests.iter();
        let is_absent = matches!(placed.state, State::Absent);
        let doubles = guests.filter(|guest| {
            // What is there in the place of a VM of ours is told of as such.
            let is_told = is_absent && builder.world.pve.vms.contains_key(&guest.vmid);
            let is_other = guest.vmid != placed.own.vm.vmid && !is_told;
            is_other && guest.name.as_deref() == Some(node.name.as_str())
        });
        for double in doubles {
            let message =
                format!("VM {} on {} has the same name, and is not ours", double.vmid, double.node);
            let hint = "people mix them up, talmox does not: rename one of the two";
            findings.push(Finding::warning(&node.name, message).hint(hint));
        }
    }
    pools(builder, findings);
}

/// A pool that we may look at and that is not in the list is not there.
fn pools(builder: &Builder<'_>, findings: &mut Vec<Finding>) {
    let pve = &builder.world.pve;
    let new = builder.places.nodes.iter().filter(|one| matches!(one.state, State::Absent));
    let pools: BTreeSet<_> = new.filter_map(|placed| placed.node.pool.as_ref()).collect();
    for pool in pools {
        let path = format!("/pool/{pool}");
        if pve.resources.pools.contains(pool) || !pve.permissions.allows(&path, "Pool.Audit") {
            continue;
        }
        let hint = format!("as root on a host: pveum pool add {pool}");
        findings.push(Finding::error(pool.as_str(), "there is no such pool").hint(hint));
    }
}

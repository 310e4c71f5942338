//! What it takes to see a cluster's VMs, and to stop and delete them. Told before anything is touched; and who may see
//! nothing must not take that for nothing being there.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::id::VmId;

use super::action::OwnVm;
use super::change::Finding;
use super::place::{Found, Places, State};
use super::stranger;
use crate::desired::Desired;
use crate::observe::World;
use crate::role::{Grants, Role};

pub(super) fn check(desired: &Desired, world: &World, places: &Places<'_>) -> Vec<Finding> {
    let rights = Rights { desired, world };
    let mut missing: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    let mut need = |vmid: VmId, right: &'static str| {
        if !rights.has(vmid, right) {
            missing.entry(rights.place(vmid)).or_default().insert(right);
        }
    };
    let found = places.nodes.iter().filter_map(|placed| match &placed.state {
        State::Ours(found) => Some((&placed.own, found)),
        _ => None,
    });
    let removed = places.removed.iter().map(|(own, found)| (own, found));
    for (OwnVm { vm, .. }, Found { seen, .. }) in found.chain(removed) {
        need(vm.vmid, "VM.Allocate");
        if seen.is_running {
            need(vm.vmid, "VM.PowerMgmt");
        }
    }
    let told = missing.into_iter().map(|(path, rights)| {
        let rights: Vec<&str> = rights.into_iter().collect();
        let message = format!("we lack {}", rights.join(", "));
        Finding::error(&path, message).hint(lines(desired, &path))
    });
    told.chain(unseen(&rights, places)).collect()
}

/// Pools, or all VMs, that we may not look into, and that nodes without a VM are to be in.
fn unseen(rights: &Rights<'_>, places: &Places<'_>) -> Vec<Finding> {
    let desired = rights.desired;
    let blind = stranger::missing(desired, places).into_iter().filter_map(|node| {
        // Where a VM without a number would be is as good as any.
        let first = VmId::new(desired.vmid_range.0).ok();
        let vm = node.vmid.or(first).map(|vmid| format!("/vms/{vmid}"));
        let pool = node.pool.as_ref().map(|pool| format!("/pool/{pool}"));
        let may_see = |path: &String| rights.world.pve.permissions.allows(path, "VM.Audit");
        let is_blind = !vm.iter().chain(&pool).any(may_see);
        is_blind.then(|| pool.unwrap_or_else(|| "/vms".to_owned()))
    });
    let paths: BTreeSet<String> = blind.collect();
    let told = paths.into_iter().map(|path| {
        let message = "we lack VM.Audit: VMs of the cluster may be there, and not be seen";
        Finding::error(&path, message).hint(lines(desired, &path))
    });
    told.collect()
}

fn lines(desired: &Desired, path: &str) -> String {
    let lines = Grants::one(path, Role::Vm).lines(&desired.login).join("\n");
    format!("as root on a host; what is there already says so, and stays:\n{lines}")
}

struct Rights<'a> {
    desired: &'a Desired,
    world: &'a World,
}

impl Rights<'_> {
    /// Rights on a VM come from its pool, or from above all VMs.
    fn has(&self, vmid: VmId, right: &str) -> bool {
        let permissions = &self.world.pve.permissions;
        permissions.allows(&format!("/vms/{vmid}"), right)
            || self.pools(vmid).iter().any(|path| permissions.allows(path, right))
    }

    /// Where we ask for them.
    fn place(&self, vmid: VmId) -> String {
        self.pools(vmid).into_iter().next().unwrap_or_else(|| "/vms".to_owned())
    }

    /// The pool that a VM is in; those of the inventory, where that is not told.
    fn pools(&self, vmid: VmId) -> Vec<String> {
        let seen = self.world.pve.guest(vmid).and_then(|guest| guest.pool.as_ref());
        let own = self.desired.nodes.iter().filter_map(|node| node.pool.as_ref());
        let all: BTreeSet<_> = match seen {
            Some(pool) => [pool].into(),
            None => own.collect(),
        };
        all.into_iter().map(|pool| format!("/pool/{pool}")).collect()
    }
}

//! Privileges to see, stop and destroy the VMs of a cluster, checked before anything is changed. With a token that may not
//! see VMs, talmox must not conclude that no VM exists.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve_types::id::VmId;

use super::foreign_vm;
use super::placed::{ObservedVm, Placements, VmPresence};
use crate::desired::Desired;
use crate::observed::Observed;
use crate::plan::{Finding, FindingCode, OwnVm};
use crate::rights::{Grants, PveRole};

pub(super) fn check(
    desired: &Desired,
    observed: &Observed,
    places: &Placements<'_>,
) -> Vec<Finding> {
    let rights = Rights { desired, observed };
    let mut missing: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    let mut need = |vmid: VmId, right: &'static str| {
        if !rights.has(vmid, right) {
            missing.entry(rights.place(vmid)).or_default().insert(right);
        }
    };
    let found = places.nodes.iter().filter_map(|placed| match &placed.state {
        VmPresence::Owned(found) => Some((&placed.own, found)),
        _ => None,
    });
    let removed = places.removed.iter().map(|(own, found)| (own, found));
    for (OwnVm { vm, .. }, ObservedVm { seen, .. }) in found.chain(removed) {
        need(vm.vmid, "VM.Allocate");
        if seen.is_running {
            need(vm.vmid, "VM.PowerMgmt");
        }
    }
    let findings = missing.into_iter().map(|(path, rights)| {
        let rights: Vec<&str> = rights.into_iter().collect();
        let message = format!("the token lacks {}", rights.join(", "));
        Finding::error(FindingCode::RightMissing, &path, message).hint(lines(desired, &path))
    });
    findings.chain(unseen(&rights, places)).collect()
}

/// Findings about paths on which the token lacks VM.Audit, although the VM of a node without a known owned VM may be there.
fn unseen(rights: &Rights<'_>, places: &Placements<'_>) -> Vec<Finding> {
    let desired = rights.desired;
    let blind = foreign_vm::missing(desired, places).into_iter().filter_map(|node| {
        // A node without `vmid:` gets a vmid of the range, so the privileges on the first vmid of the range are checked.
        let first = VmId::new(desired.vmid_range.0).ok();
        let vm = node.vmid.or(first).map(|vmid| format!("/vms/{vmid}"));
        let pool = node.pool.as_ref().map(|pool| format!("/pool/{pool}"));
        let may_see = |path: &String| rights.observed.pve.permissions.allows(path, "VM.Audit");
        let is_blind = !vm.iter().chain(&pool).any(may_see);
        is_blind.then(|| pool.unwrap_or_else(|| "/vms".to_owned()))
    });
    let paths: BTreeSet<String> = blind.collect();
    let findings = paths.into_iter().map(|path| {
        let message = "the token lacks VM.Audit: VMs of the cluster may exist that it cannot see";
        Finding::error(FindingCode::RightMissing, &path, message).hint(lines(desired, &path))
    });
    findings.collect()
}

fn lines(desired: &Desired, path: &str) -> String {
    let lines = Grants::one(path, PveRole::Vm).lines(&desired.login).join("\n");
    format!("as root on a host; the commands can be repeated:\n{lines}")
}

struct Rights<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
}

impl Rights<'_> {
    /// Whether the token has a privilege on a VM, granted on `/vms` or on the pool of the VM.
    fn has(&self, vmid: VmId, right: &str) -> bool {
        let permissions = &self.observed.pve.permissions;
        permissions.allows(&format!("/vms/{vmid}"), right)
            || self.pools(vmid).iter().any(|path| permissions.allows(path, right))
    }

    /// The ACL path on which a missing privilege must be granted.
    fn place(&self, vmid: VmId) -> String {
        self.pools(vmid).into_iter().next().unwrap_or_else(|| "/vms".to_owned())
    }

    /// The ACL path of the pool of a VM. If Proxmox does not report the pool, the paths of all pools in the inventory.
    fn pools(&self, vmid: VmId) -> Vec<String> {
        let seen = self.observed.pve.guest(vmid).and_then(|guest| guest.pool.as_ref());
        let own = self.desired.nodes.iter().filter_map(|node| node.pool.as_ref());
        let all: BTreeSet<_> = match seen {
            Some(pool) => [pool].into(),
            None => own.collect(),
        };
        all.into_iter().map(|pool| format!("/pool/{pool}")).collect()
    }
}

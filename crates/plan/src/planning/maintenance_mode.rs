//! Machine configs that talmox sends to machines in maintenance mode. Such machines cannot prove their identity.
//!
//! A node in maintenance mode has a self-signed certificate. A machine between talmox and the node can forward the identity
//! that the node reports (UUID, MAC addresses, instance id), and read the keys in the config. A config on a cidata volume
//! reaches only the VM that Proxmox attaches the volume to.

use std::collections::BTreeMap;

use super::builder::Builder;
use super::placed::{Placed, VmPresence};
use super::vm_plan::VmPlan;
use crate::observed::TalosSeen;
use crate::plan::{Action, ConfigBy, Finding, FindingCode};

/// Maximum number of nodes that a finding names.
const NAMED: usize = 3;

/// Warns if this plan sends configs to machines in maintenance mode: to new VMs, or to nodes that wait for a config now.
pub(super) fn warn(
    builder: &mut Builder<'_>,
    nodes: &[&Placed<'_>],
    vms: &BTreeMap<String, VmPlan>,
) {
    let sends = |step: &Action| match step {
        Action::ApplyConfig(apply) if apply.by == ConfigBy::Maintenance => {
            Some(apply.node.name.clone())
        }
        _ => None,
    };
    let sent: Vec<String> = builder.steps.iter().filter_map(|step| sends(&step.action)).collect();
    let is_empty = |name: &str| {
        let seen = builder.observed.nodes.get(name);
        vms[name].is_fresh || matches!(seen, Some(TalosSeen::Maintenance { .. }))
    };
    let names = nodes.iter().map(|placed| placed.node.name.as_str());
    let names: Vec<&str> =
        names.filter(|name| sent.iter().any(|one| one == name) && is_empty(name)).collect();
    if names.is_empty() {
        return;
    }
    let message = format!(
        "{} sent to machines in maintenance mode, which cannot prove their identity: a machine between this one and \
         them can read the keys of the cluster",
        configs_of(&names)
    );
    let hint = "use `boot: cidata`, which delivers each config on a volume of its VM; or make sure that no other machine is in \
                the networks in between";
    let finding =
        Finding::warning(FindingCode::ConfigUnprotected, &builder.desired.cluster, message)
            .hint(hint);
    builder.findings.push(finding);
}

/// Text such as `the configs of cp-1, cp-2, cp-3 and 2 more are`.
fn configs_of(names: &[&str]) -> String {
    match names {
        [only] => format!("the config of {only} is"),
        [named @ .., last] if names.len() <= NAMED => {
            format!("the configs of {} and {last} are", named.join(", "))
        }
        _ => {
            let more = names.len() - NAMED;
            format!("the configs of {} and {more} more are", names[..NAMED].join(", "))
        }
    }
}

/// Whether a VM has no cidata volume although `boot:` of its node requires one. The VM was created with another `boot:`, or
/// it was reset after its volume was detached.
pub(super) fn lacks_volume(placed: &Placed<'_>) -> bool {
    let (VmPresence::Owned(found), Some(slot)) = (&placed.state, &placed.node.vm.cidata) else {
        return false;
    };
    placed.node.is_talos && found.config.get(slot.as_str()).is_none()
}

/// Error: a machine waits for a config at the address of a node whose VM has no cidata volume. talmox does not send the
/// config, because another machine may answer at the address.
pub(super) fn no_volume(placed: &Placed<'_>) -> Finding {
    let (name, vm) = (&placed.node.name, &placed.own.vm);
    let message = format!(
        "a machine in maintenance mode answers at its address, and VM {} has no volume with a config to read",
        vm.vmid
    );
    let hint = format!(
        "nothing is sent to it. If the console of VM {} on {} shows maintenance mode and a fingerprint: render the config and \
         run `talmox node apply FILE {name} --insecure --fingerprint PIN`; or set `boot: cloudinit` for the node, which trusts \
         whatever machine answers",
        vm.vmid, vm.node
    );
    Finding::error(FindingCode::ConfigVolumeMissing, name, message).hint(hint)
}

/// Error: a VM was created with another `boot:` and was never started.
pub(super) fn unfinished(placed: &Placed<'_>) -> Finding {
    let (name, vmid) = (&placed.node.name, placed.own.vm.vmid);
    let message = format!(
        "VM {vmid} was created without a volume for its config by a run that did not finish: `boot: {}` cannot finish it",
        placed.node.boot
    );
    let hint = "set `boot:` of the node to the way that the VM was created with (`cloudinit` was the default of earlier releases)";
    Finding::error(FindingCode::BootChanged, name, message).hint(hint)
}

//! Reading of VM configs.

use std::collections::BTreeMap;

use talmox_plan::observed::{Answer, Unobserved, VmSeen};
use talmox_pve::api::cluster::{self, Guest};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{PendingChange, PendingOption, VmConfig};
use talmox_pve::id::VmId;
use talmox_pve::{Client, PveError};
use tokio::task::JoinSet;

use super::answer::{answer, unobserved};

/// The reason for VMs that cannot be read because Proxmox reports their host as down.
pub(super) fn host_down() -> Unobserved {
    Unobserved::Unreachable("the host does not run".to_owned())
}

/// Reads these VMs. VMs that were deleted since they were listed are omitted.
pub(super) async fn vms(client: &Client, guests: Vec<Guest>) -> BTreeMap<VmId, VmSeen> {
    let mut looks = JoinSet::new();
    for guest in guests {
        let client = client.clone();
        looks.spawn(async move {
            let vm = Vm::new(&guest.node, guest.vmid);
            let mut seen = see(&client, &vm).await;
            if seen.config.is_err() && is_free(&client, guest.vmid).await.unwrap_or(false) {
                return None;
            }
            // A VM whose power state Proxmox does not report counts as running.
            seen.is_running = guest.status != "stopped" && !guest.template;
            // The list is some seconds old, and may show a VM as stopped that was just started.
            if guest.status != "running" && !guest.template && seen.config.is_ok() {
                seen.is_running = is_running(&client, &vm).await;
            }
            Some((guest.vmid, seen))
        });
    }
    looks.join_all().await.into_iter().flatten().collect()
}

/// The configs of these VMs, or the reason why a config cannot be read. VMs that were deleted since they were listed
/// are omitted.
pub(super) async fn configs(client: &Client, guests: Vec<Guest>) -> Vec<(Guest, Answer<VmConfig>)> {
    let mut looks = JoinSet::new();
    for guest in guests {
        let client = client.clone();
        looks.spawn(async move {
            let vm = Vm::new(&guest.node, guest.vmid);
            let config = answer(client.send(&qemu::config(&vm)).await);
            let is_gone = config.is_err() && is_free(&client, guest.vmid).await.unwrap_or(false);
            (!is_gone).then_some((guest, config))
        });
    }
    looks.join_all().await.into_iter().flatten().collect()
}

/// Reads the config of a VM. Its power state is not read: `is_running` is false.
pub(super) async fn see(client: &Client, vm: &Vm) -> VmSeen {
    let (config, pending) = match client.send(&qemu::pending(vm)).await {
        Ok(options) => (Ok(merged(&options)), waiting(options)),
        Err(error) => (Err(unobserved(&error)), vec![]),
    };
    VmSeen { host: vm.node.clone(), is_running: false, config, pending }
}

/// Whether a VM runs. A VM whose power state Proxmox does not report counts as running, because a plan changes and destroys
/// stopped VMs without a drain.
pub(super) async fn is_running(client: &Client, vm: &Vm) -> bool {
    client.send(&qemu::current(vm)).await.map_or(true, |now| now.running)
}

/// The config with its pending changes, as it will be after the next start of the VM.
fn merged(options: &[PendingOption]) -> VmConfig {
    let value = |option: &PendingOption| match &option.pending {
        Some(PendingChange::Set(value)) => Some((option.key.clone(), value.clone())),
        Some(PendingChange::Delete | PendingChange::Destroy) => None,
        None => Some((option.key.clone(), option.value.clone()?)),
    };
    VmConfig::new(options.iter().filter_map(value))
}

fn waiting(options: Vec<PendingOption>) -> Vec<PendingOption> {
    options.into_iter().filter(|option| option.pending.is_some()).collect()
}

/// Whether a vmid is free. A missing answer is an error, because the vmid may belong to an owned VM.
pub(super) async fn is_free(client: &Client, vmid: VmId) -> Result<bool, PveError> {
    match client.send(&cluster::is_free(vmid)).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_already_exists() => Ok(false),
        Err(error) => Err(error),
    }
}

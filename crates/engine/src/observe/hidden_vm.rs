//! Search for VMs that this login created and that the login can no longer see, for example because a user removed them from
//! their pool.
//!
//! Such a VM may have any vmid: an earlier release chose vmids in another way, and `vmid:` can be edited. So the tasks of the
//! login are searched, and not only the vmids that the plan will use.

use std::collections::BTreeMap;

use talmox_plan::desired::Desired;
use talmox_plan::observed::{IdSeen, Pve};
use talmox_plan::planning::locations;
use talmox_pve::Client;
use talmox_pve::api::qemu::Vm;
use talmox_pve::api::task::{self, Filter, TaskEntry};
use talmox_pve::id::{NodeName, VmId};
use tokio::task::JoinSet;

use super::renamed_vm::is_left_by;
use super::vm_config::{is_free, is_running, see};

/// Maximum number of tasks of one host that are searched.
const TASKS: u32 = 1000;

/// Searches the tasks of this login on all hosts that run, if a node has no VM. A VM that exists and can be read is added to
/// `pve.vms`. The vmid of a VM that exists and cannot be read is added to `pve.ids`.
pub(super) async fn search(desired: &Desired, client: &Client, pve: &mut Pve) {
    if locations(desired, pve).iter().all(|(_, vm)| vm.is_some()) {
        return;
    }
    let login = desired.login.id();
    let mut looks = JoinSet::new();
    for (vmid, host) in worked_on(&login, client, pve).await {
        let is_known = pve.guest(vmid).is_some() || pve.vms.contains_key(&vmid);
        if is_known || pve.ids.contains_key(&vmid) {
            continue;
        }
        let client = client.clone();
        looks.spawn(async move {
            // A missing answer counts as a VM, so that no second VM is created.
            if is_free(&client, vmid).await.unwrap_or(false) {
                return None;
            }
            let vm = Vm::new(&host, vmid);
            let mut seen = see(&client, &vm).await;
            if seen.config.is_ok() {
                seen.is_running = is_running(&client, &vm).await;
            }
            Some((vmid, seen))
        });
    }
    for (vmid, seen) in looks.join_all().await.into_iter().flatten() {
        if seen.config.is_ok() {
            pve.vms.insert(vmid, seen);
        } else {
            let taken = IdSeen::Taken { making: None, made_by_login: true, lock: None };
            pve.ids.insert(vmid, taken);
        }
    }
}

/// The vmids whose last task of this login shows that a VM exists, each with the host of that task. A host that does not answer
/// is omitted, because the list of all resources shows the VMs of its pool.
async fn worked_on(login: &str, client: &Client, pve: &Pve) -> BTreeMap<VmId, NodeName> {
    let hosts = pve.resources.hosts.iter().filter(|host| host.status == "online");
    let mut lists = JoinSet::new();
    for host in hosts.map(|host| host.node.clone()) {
        let client = client.clone();
        let filter = Filter { limit: Some(TASKS), ..Filter::default() };
        lists.spawn(async move { client.send(&task::list(&host, &filter)).await });
    }
    let mut tasks: BTreeMap<VmId, Vec<TaskEntry>> = BTreeMap::new();
    for entry in lists.join_all().await.into_iter().flatten().flatten() {
        // A clone has the vmid of its template.
        let is_of_vm = entry.upid.kind().starts_with("qm") && entry.upid.kind() != "qmclone";
        let vmid = entry.upid.id().parse::<VmId>().ok();
        if let Some(vmid) = vmid.filter(|_| is_of_vm) {
            tasks.entry(vmid).or_default().push(entry);
        }
    }
    let mut found = BTreeMap::new();
    for (vmid, mut entries) in tasks {
        // Tasks of several hosts are merged, because a VM may have been migrated.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.upid.started()));
        if is_left_by(login, &entries) {
            let last = entries.iter().find(|entry| entry.upid.user() == login);
            found.extend(last.map(|entry| (vmid, entry.upid.node().clone())));
        }
    }
    found
}

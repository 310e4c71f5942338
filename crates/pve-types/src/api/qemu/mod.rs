//! Calls about VMs.
//!
//! Nearly every change runs as a task. A request contains the node of the VM. The caller must look the node up first,
//! because VMs move.

mod agent;
mod cloudinit;
mod disk;
mod list;
mod migrate;
mod power;
mod snapshot;

use serde::{Deserialize, Serialize};

use crate::config::{PendingOption, VmChange, VmConfig, VmOptions};
use crate::id::{NodeName, PoolId, StorageId, Upid, VmId};
use crate::request::Request;
use crate::wire::Decode;

pub use agent::{AgentAddress, AgentInterface, AgentInterfaces, agent_interfaces, agent_ping};
pub use cloudinit::{InstanceId, instance_id, regenerate_cloudinit};
pub use disk::{MoveDisk, move_disk, resize, unlink};
pub use list::{VmEntry, VmStatus, current, list};
pub use migrate::{LocalDisk, Migrate, MigrateCheck, check_migrate, migrate};
pub use power::{reboot, reset, resume, shutdown, start, stop, suspend};
pub use snapshot::{Snapshot, create_snapshot, delete_snapshot, rollback, snapshots};

/// VM and its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    pub node: NodeName,
    pub vmid: VmId,
}

impl Vm {
    pub fn new(node: &NodeName, vmid: VmId) -> Self {
        Self { node: node.clone(), vmid }
    }

    fn get<T: Decode>(&self, below: &[&dyn std::fmt::Display]) -> Request<T> {
        Request::get(&self.path(below)).on(&self.node)
    }

    fn post<T: Decode>(&self, below: &[&dyn std::fmt::Display]) -> Request<T> {
        Request::post(&self.path(below)).on(&self.node)
    }

    fn put<T: Decode>(&self, below: &[&dyn std::fmt::Display]) -> Request<T> {
        Request::put(&self.path(below)).on(&self.node)
    }

    fn path<'a>(&'a self, below: &[&'a dyn std::fmt::Display]) -> Vec<&'a dyn std::fmt::Display> {
        let own: [&dyn std::fmt::Display; 4] = [&"nodes", &self.node, &"qemu", &self.vmid];
        own.into_iter().chain(below.iter().copied()).collect()
    }
}

/// Creates a VM. While the task runs, the VM has a lock, but no name and no description.
pub fn create(vm: &Vm, pool: Option<&PoolId>, options: &VmOptions) -> Request<Upid> {
    let mut request = Request::post(&[&"nodes", &vm.node, &"qemu"])
        .on(&vm.node)
        .using_storages(&options.storages())
        .with("vmid", vm.vmid)
        .with_some("pool", pool);
    for (key, value) in options.iter() {
        request = request.with(key, value);
    }
    request
}

/// Reads the config that includes pending changes.
pub fn config(vm: &Vm) -> Request<VmConfig> {
    vm.get(&[&"config"])
}

/// Reads the config that the running VM uses, without pending changes.
pub fn current_config(vm: &Vm) -> Request<VmConfig> {
    vm.get(&[&"config"]).with("current", 1)
}

pub fn pending(vm: &Vm) -> Request<Vec<PendingOption>> {
    vm.get(&[&"pending"])
}

/// Changes the config without a task. The change must take less than 30 seconds, so this call is not suitable for
/// disks.
///
/// If the request is rejected, a part of the change may be pending.
pub fn set_config(vm: &Vm, change: &VmChange) -> Request<()> {
    with_change(vm.put(&[&"config"]), change)
}

/// Changes the config in a task.
pub fn start_config(vm: &Vm, change: &VmChange) -> Request<Upid> {
    with_change(vm.post(&[&"config"]), change)
}

fn with_change<T>(mut request: Request<T>, change: &VmChange) -> Request<T> {
    request = request.using_storages(&change.set.storages());
    for (key, value) in change.set.iter() {
        request = request.with(key, value);
    }
    let list = |keys: &[String]| Some(keys.join(",")).filter(|keys| !keys.is_empty());
    request
        .with_some("delete", list(&change.delete))
        .with_some("revert", list(&change.revert))
        .with_flag("force", change.destroy)
        .with_some("digest", change.digest.as_ref())
}

/// Settings of a clone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloneVm {
    pub newid: VmId,
    pub name: String,
    /// Description. It must not be empty: Proxmox replaces an empty description by the description of the template,
    /// including its marker.
    pub description: String,
    pub pool: Option<PoolId>,
    /// Whether the clone has full copies of the disks, on `storage` if it is given. Otherwise the disks are linked
    /// clones.
    pub full: bool,
    pub storage: Option<StorageId>,
    /// Node of the clone, if it differs from the node of the source. All disks must be on shared storages.
    pub target: Option<NodeName>,
}

/// Clones a VM. The request is sent to the node of `source`.
pub fn clone(source: &Vm, clone: &CloneVm) -> Request<Upid> {
    source
        .post(&[&"clone"])
        .using_storages(&clone.storage)
        .with("newid", clone.newid)
        .with("name", &clone.name)
        .with("description", &clone.description)
        .with_some("pool", clone.pool.as_ref())
        .with("full", u8::from(clone.full))
        .with_some("storage", clone.storage.as_ref())
        .with_some("target", clone.target.as_ref())
}

/// Converts a stopped VM to a template. The conversion cannot be undone.
pub fn make_template(vm: &Vm) -> Request<Upid> {
    vm.post(&[&"template"])
}

/// Destroys a stopped VM with its volumes. With `purge`, the VM is also removed from jobs and HA.
///
/// Volumes with the same vmid that the config does not contain are kept, because they may have been detached on
/// purpose.
pub fn delete(vm: &Vm, purge: bool) -> Request<Upid> {
    Request::delete(&vm.path(&[])).on(&vm.node).with_flag("purge", purge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::{Drive, Tags};

    fn vm() -> Vm {
        Vm::new(&"pve1".parse().unwrap(), VmId::new(300).unwrap())
    }

    #[test]
    fn a_create_uses_the_storages_of_its_disks() {
        let storage: StorageId = "local-lvm".parse().unwrap();
        let options =
            VmOptions::new().cores(4).drive(&"scsi0".parse().unwrap(), &Drive::new(&storage, 40));
        let request = create(&vm(), Some(&"talos".parse().unwrap()), &options);
        assert_eq!(request.operation(), "POST /nodes/pve1/qemu");
        assert_eq!(request.body().unwrap(), "vmid=300&pool=talos&cores=4&scsi0=local-lvm%3A40");
        assert_eq!(request.scope().storages, [storage].into());
    }

    #[test]
    fn a_change_with_a_digest_is_conditional() {
        let change = VmChange {
            set: VmOptions::new().tags(&Tags::of(["talmox", "home"])),
            delete: vec!["scsi1".to_owned(), "ide2".to_owned()],
            revert: vec!["cores".to_owned()],
            destroy: true,
            digest: Some("ab".parse().unwrap()),
        };
        let put = set_config(&vm(), &change);
        assert_eq!(put.operation(), "PUT /nodes/pve1/qemu/300/config");
        assert_eq!(
            put.body().unwrap(),
            "tags=home%3Btalmox&delete=scsi1%2Cide2&revert=cores&force=1&digest=ab"
        );
        assert_eq!(start_config(&vm(), &change).operation(), "POST /nodes/pve1/qemu/300/config");
        assert_eq!(
            current_config(&vm()).target(),
            "/api2/json/nodes/pve1/qemu/300/config?current=1"
        );
        assert_eq!(pending(&vm()).path(), "/nodes/pve1/qemu/300/pending");
    }

    #[test]
    fn clone_template_and_delete_build_the_right_requests() {
        let desired = CloneVm {
            newid: VmId::new(301).unwrap(),
            name: "cp".to_owned(),
            description: "marker".to_owned(),
            pool: None,
            full: true,
            storage: Some("tank".parse().unwrap()),
            target: None,
        };
        let request = clone(&vm(), &desired);
        assert_eq!(request.path(), "/nodes/pve1/qemu/300/clone");
        assert_eq!(
            request.body().unwrap(),
            "newid=301&name=cp&description=marker&full=1&storage=tank"
        );
        assert_eq!(request.scope().storages.len(), 1);
        assert_eq!(make_template(&vm()).operation(), "POST /nodes/pve1/qemu/300/template");
        assert_eq!(delete(&vm(), true).target(), "/api2/json/nodes/pve1/qemu/300?purge=1");
        assert_eq!(delete(&vm(), true).body(), None);
    }
}

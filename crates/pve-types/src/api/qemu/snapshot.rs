use serde_json::Value;

use super::Vm;
use crate::id::{ConfigId, Upid};
use crate::request::Request;
use crate::wire::{Decode, Fields, Unreadable};

/// Snapshot of a VM. The last entry of a list is named `current` and is not a snapshot, but the VM itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub name: String,
    pub description: Option<String>,
    pub parent: Option<String>,
    /// Time of the snapshot, in seconds since 1970.
    pub taken: Option<u64>,
    /// Whether the snapshot includes the memory.
    pub with_memory: bool,
}

impl Decode for Snapshot {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        Ok(Self {
            name: fields.need_text("name")?,
            description: fields.text("description"),
            parent: fields.text("parent"),
            taken: fields.number("snaptime"),
            with_memory: fields.flag("vmstate"),
        })
    }
}

pub fn snapshots(vm: &Vm) -> Request<Vec<Snapshot>> {
    vm.get(&[&"snapshot"])
}

pub fn create_snapshot(
    vm: &Vm,
    name: &ConfigId,
    description: Option<&str>,
    with_memory: bool,
) -> Request<Upid> {
    vm.post(&[&"snapshot"])
        .with("snapname", name)
        .with_some("description", description)
        .with_flag("vmstate", with_memory)
}

pub fn delete_snapshot(vm: &Vm, name: &ConfigId) -> Request<Upid> {
    Request::delete(&vm.path(&[&"snapshot", name])).on(&vm.node)
}

/// Rolls a VM back to a snapshot. With `start`, the VM is started afterwards.
pub fn rollback(vm: &Vm, name: &ConfigId, start: bool) -> Request<Upid> {
    vm.post(&[&"snapshot", name, &"rollback"]).with_flag("start", start)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::VmId;

    #[test]
    fn snapshot_requests_are_built() {
        let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(300).unwrap());
        let name: ConfigId = "before".parse().unwrap();
        assert_eq!(
            create_snapshot(&vm, &name, Some("x"), true).body().unwrap(),
            "snapname=before&description=x&vmstate=1"
        );
        assert_eq!(
            delete_snapshot(&vm, &name).operation(),
            "DELETE /nodes/pve1/qemu/300/snapshot/before"
        );
        assert_eq!(
            rollback(&vm, &name, false).path(),
            "/nodes/pve1/qemu/300/snapshot/before/rollback"
        );
        assert_eq!(snapshots(&vm).path(), "/nodes/pve1/qemu/300/snapshot");
        let read =
            Snapshot::decode(&json!({"name": "before", "snaptime": "5", "vmstate": 1})).unwrap();
        assert_eq!((read.taken, read.with_memory), (Some(5), true));
    }
}

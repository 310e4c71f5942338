use serde_json::Value;

use super::Vm;
use crate::id::{NodeName, StorageId, Upid, VolumeId};
use crate::request::Request;
use crate::wire::{Decode, Fields, Unreadable};

/// Conditions for the migration of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrateCheck {
    pub running: bool,
    /// Possible target nodes. Proxmox reports them only for a stopped VM.
    pub allowed_nodes: Vec<NodeName>,
    pub local_disks: Vec<LocalDisk>,
    /// Resources that tie the VM to its host, such as `hostpci0`.
    pub local_resources: Vec<String>,
    pub mapped_resources: Vec<String>,
}

/// Disk that the migration must copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalDisk {
    pub volume: VolumeId,
    /// Size in bytes.
    pub size: Option<u64>,
    pub cdrom: bool,
}

impl Decode for MigrateCheck {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        let nodes = fields.list("allowed_nodes").into_iter().map(|node| node.parse());
        let disk = |disk: Fields<'_>| {
            Ok(LocalDisk {
                volume: disk.need("volid")?,
                size: disk.number("size"),
                cdrom: disk.flag("cdrom"),
            })
        };
        Ok(Self {
            running: fields.flag("running"),
            allowed_nodes: nodes.collect::<Result<_, _>>()?,
            local_disks: fields
                .objects("local_disks")
                .map(disk)
                .collect::<Result<_, Unreadable>>()?,
            local_resources: fields.list("local_resources"),
            mapped_resources: fields.list("mapped-resources"),
        })
    }
}

pub fn check_migrate(vm: &Vm, target: Option<&NodeName>) -> Request<MigrateCheck> {
    vm.get(&[&"migrate"]).with_some("target", target)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrate {
    pub target: NodeName,
    /// Whether the VM is migrated while it runs.
    pub online: bool,
    /// Storage that receives the copies of disks that are not shared.
    pub local_disks_to: Option<StorageId>,
}

pub fn migrate(vm: &Vm, migrate: &Migrate) -> Request<Upid> {
    vm.post(&[&"migrate"])
        .using_storages(&migrate.local_disks_to)
        .with("target", &migrate.target)
        .with_flag("online", migrate.online)
        .with_flag("with-local-disks", migrate.local_disks_to.is_some())
        .with_some("targetstorage", migrate.local_disks_to.as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::VmId;

    #[test]
    fn migration_requests_and_checks_are_built() {
        let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(300).unwrap());
        let target: NodeName = "pve2".parse().unwrap();
        assert_eq!(
            check_migrate(&vm, Some(&target)).target(),
            "/api2/json/nodes/pve1/qemu/300/migrate?target=pve2"
        );
        let desired =
            Migrate { target, online: true, local_disks_to: Some("tank".parse().unwrap()) };
        assert_eq!(
            migrate(&vm, &desired).body().unwrap(),
            "target=pve2&online=1&with-local-disks=1&targetstorage=tank"
        );
        let check = MigrateCheck::decode(&json!({
            "running": 1, "local_disks": [{"volid": "local-lvm:vm-300-disk-0", "size": 5, "cdrom": 0}],
            "local_resources": ["hostpci0"], "allowed_nodes": ["pve2"],
        }))
        .unwrap();
        assert!(check.running && check.local_disks[0].size == Some(5));
        assert_eq!(check.local_resources, ["hostpci0"]);
    }
}

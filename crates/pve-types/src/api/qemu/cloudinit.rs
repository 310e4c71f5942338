use serde_json::Value;

use super::Vm;
use crate::request::Request;
use crate::wire::{Decode, Unreadable};

/// Writes the cloud-init drive again, from the current config.
pub fn regenerate_cloudinit(vm: &Vm) -> Request<()> {
    vm.put(&[&"cloudinit"])
}

/// Instance ID of a cloud-init drive: a hash of the content of the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceId(pub String);

impl Decode for InstanceId {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let text = data.as_str().unwrap_or_default();
        let id = text.lines().find_map(|line| line.strip_prefix("instance-id:"));
        let id = id.map(str::trim).filter(|id| !id.is_empty());
        id.map(|id| Self(id.to_owned()))
            .ok_or_else(|| Unreadable("the instance id is missing".to_owned()))
    }
}

/// Reads the instance ID that the cloud-init drive would have if it were written now. Every start of the VM writes the
/// drive.
pub fn instance_id(vm: &Vm) -> Request<InstanceId> {
    vm.get(&[&"cloudinit", &"dump"]).with("type", "meta")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::VmId;

    #[test]
    fn the_instance_id_is_read_from_the_cloudinit_dump() {
        let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(300).unwrap());
        assert_eq!(
            instance_id(&vm).target(),
            "/api2/json/nodes/pve1/qemu/300/cloudinit/dump?type=meta"
        );
        assert_eq!(regenerate_cloudinit(&vm).operation(), "PUT /nodes/pve1/qemu/300/cloudinit");
        let id = InstanceId::decode(&json!("instance-id: 1d3f\n")).unwrap();
        assert_eq!(id, InstanceId("1d3f".to_owned()));
        for odd in [json!(null), json!(""), json!("instance-id:\n"), json!({"uuid": "1"})] {
            assert!(InstanceId::decode(&odd).is_err(), "{odd}");
        }
    }
}

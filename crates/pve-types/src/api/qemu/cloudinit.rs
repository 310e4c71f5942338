use serde_json::Value;

use super::Vm;
use crate::request::Request;
use crate::wire::{Decode, Unreadable};

/// Writes the cloud-init drive anew, from the config as it is.
pub fn regenerate_cloudinit(vm: &Vm) -> Request<()> {
    vm.put(&[&"cloudinit"])
}

/// What a cloud-init drive calls the machine: a hash of all that the drive says.
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

/// What the drive of a VM would call it if it were written now, from the config as it is. Every start writes it.
pub fn instance_id(vm: &Vm) -> Request<InstanceId> {
    vm.get(&[&"cloudinit", &"dump"]).with("type", "meta")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::VmId;

    #[test]
    fn the_drive_is_asked_for_its_name_of_the_machine() {
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

//! SMBIOS UUID and MAC addresses of a node's VM, derived from the cluster's random id and the node's name. A VM that is created again
//! gets the same ones; a VM of another cluster of the same name does not.

use talmox_model::Node;
use talmox_values::MacAddress;

use crate::ownership::{SmbiosUuid, smbios_uuid};

/// SMBIOS UUID and MAC addresses of a node's VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    pub uuid: SmbiosUuid,
    /// MAC address of the first network card, then those of the additional ones.
    pub macs: Vec<MacAddress>,
}

impl NodeIdentity {
    pub fn of(node: &Node, cluster_id: &str) -> Self {
        let name = node.name.value.as_str();
        let namespace = smbios_uuid::version_5(smbios_uuid::NAMESPACE, cluster_id);
        let derived = |index: usize| {
            let uuid = smbios_uuid::version_5(namespace, &format!("{name}/net{index}"));
            // Locally administered, unicast.
            let mut mac = [0x02; 6];
            mac[1..].copy_from_slice(&uuid[11..]);
            MacAddress::new(mac).expect("invariant: the first byte is even")
        };
        let first = node.entry.mac.get().copied().unwrap_or_else(|| derived(0));
        let further = node.settings().hardware.nics.values().enumerate();
        let further = further
            .map(|(index, nic)| nic.mac.get().copied().unwrap_or_else(|| derived(index + 1)));
        Self {
            uuid: SmbiosUuid::of(cluster_id, name),
            macs: std::iter::once(first).chain(further).collect(),
        }
    }
}

//! SMBIOS UUID and MAC addresses of the VM of a node, derived from the random id of the cluster and the name of the node. A
//! VM that is created again gets the same UUID and MAC addresses. A VM of another cluster with the same name gets different
//! ones. An adopted VM keeps its own UUID, which the inventory records.

use talmox_model::Node;
use talmox_values::MacAddress;

use crate::ownership::{SmbiosUuid, smbios_uuid};

/// SMBIOS UUID and MAC addresses of the VM of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    pub uuid: SmbiosUuid,
    /// MAC addresses of the network cards, beginning with the first card.
    pub macs: Vec<MacAddress>,
}

impl NodeIdentity {
    pub fn of(node: &Node, cluster_id: &str) -> Self {
        let name = node.name.value.as_str();
        let namespace = smbios_uuid::version_5(smbios_uuid::NAMESPACE, cluster_id);
        let derived = |index: usize| {
            let uuid = smbios_uuid::version_5(namespace, &format!("{name}/net{index}"));
            // The first byte marks the address as locally administered and unicast.
            let mut mac = [0x02; 6];
            mac[1..].copy_from_slice(&uuid[11..]);
            MacAddress::new(mac).expect("invariant: the first byte is even")
        };
        let first = node.entry.mac.get().copied().unwrap_or_else(|| derived(0));
        let further = node.settings().hardware.nics.values().enumerate();
        let further = further
            .map(|(index, nic)| nic.mac.get().copied().unwrap_or_else(|| derived(index + 1)));
        Self {
            uuid: match node.entry.uuid.get() {
                Some(uuid) => SmbiosUuid::recorded(uuid.bytes()),
                None => SmbiosUuid::of(cluster_id, name),
            },
            macs: std::iter::once(first).chain(further).collect(),
        }
    }
}

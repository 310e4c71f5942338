//! API calls that talmox uses. Each function returns a [`Request`](crate::Request) for typed arguments.

pub mod access;
pub mod cluster;
pub mod ha;
pub mod mapping;
pub mod node;
pub mod pool;
pub mod qemu;
pub mod storage;
pub mod task;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{access, cluster, ha, mapping, node, pool, qemu, storage, task};
    use crate::config::{PendingOption, VmConfig};
    use crate::id::{Upid, VmId, VolumeId};
    use crate::wire::Decode;

    /// Keys of real answers, so that decoders do not stop at the first missing key.
    const KEYS: &[&str] = &[
        "node",
        "vmid",
        "name",
        "status",
        "type",
        "storage",
        "volid",
        "upid",
        "id",
        "map",
        "checks",
        "members",
        "poolid",
        "sid",
        "rule",
        "affinity",
        "resources",
        "nodes",
        "group",
        "key",
        "pending",
        "delete",
        "result",
        "ip-addresses",
        "ticket",
        "version",
        "iface",
        "vendor",
        "device",
        "iommugroup",
        "exitstatus",
        "t",
        "tags",
        "local_disks",
        "allowed_nodes",
        "ha",
        "user-tag-access",
        "digest",
        "scsi0",
        "net0",
    ];

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z0-9:/=,;. -]{0,12}".prop_map(Value::from),
            prop::sample::select(vec![
                json!("pve1"),
                json!("local:iso/x.iso"),
                json!("node"),
                json!("qemu"),
                json!("node-affinity"),
                json!("node=pve1,path=0000:01:00.0,id=10de:2204"),
                json!("UPID:pve1:1:2:3:qmstart:300:root@pam:"),
            ]),
        ]
    }

    fn anything() -> impl Strategy<Value = Value> {
        scalar().prop_recursive(4, 64, 8, |inner| {
            let key = prop::sample::select(KEYS).prop_map(str::to_owned);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((key, inner), 0..8)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    /// Decodes a value as an object and as a list. The results are ignored: the test only checks that decoding does not
    /// panic.
    fn read<T: Decode>(value: &Value) {
        let _one = T::decode(value);
        let _list = Vec::<T>::decode(&json!([value, null]));
    }

    proptest! {
        #[test]
        fn decoders_never_panic(value in anything()) {
            read::<access::Permissions>(&value);
            read::<access::Ticket>(&value);
            read::<cluster::Version>(&value);
            read::<cluster::Status>(&value);
            read::<cluster::Resources>(&value);
            read::<cluster::Options>(&value);
            read::<VmId>(&value);
            read::<Upid>(&value);
            read::<VolumeId>(&value);
            read::<ha::Resource>(&value);
            read::<ha::Group>(&value);
            read::<ha::Rule>(&value);
            read::<mapping::PciMapping>(&value);
            read::<node::Node>(&value);
            read::<node::Bridge>(&value);
            read::<node::PciDevice>(&value);
            read::<pool::PoolEntry>(&value);
            read::<pool::Pool>(&value);
            read::<qemu::VmEntry>(&value);
            read::<qemu::VmStatus>(&value);
            read::<qemu::AgentInterfaces>(&value);
            read::<qemu::MigrateCheck>(&value);
            read::<qemu::Snapshot>(&value);
            read::<storage::Storage>(&value);
            read::<storage::StorageStatus>(&value);
            read::<storage::Volume>(&value);
            read::<storage::VolumeInfo>(&value);
            read::<storage::UrlMetadata>(&value);
            read::<task::TaskState>(&value);
            read::<task::TaskEntry>(&value);
            read::<task::LogPart>(&value);
            read::<PendingOption>(&value);
            read::<VmConfig>(&value);
        }
    }
}

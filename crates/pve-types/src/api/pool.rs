//! Resource pools. The list of a pool shows its VMs also to a token with few permissions.

use serde_json::Value;

use crate::id::{PoolId, StorageId, VmId};
use crate::request::Request;
use crate::wire::{Decode, Fields, Unreadable};

/// Pool in a list of pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEntry {
    pub id: PoolId,
    pub comment: Option<String>,
}

impl Decode for PoolEntry {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        Ok(Self { id: fields.need("poolid")?, comment: fields.text("comment") })
    }
}

/// Pool and its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    pub comment: Option<String>,
    /// VMs and containers of the pool.
    pub guests: Vec<VmId>,
    pub storages: Vec<StorageId>,
}

impl Decode for Pool {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        // If a pool is selected by parameter, Proxmox returns it in a list with one element.
        let data = data.as_array().and_then(|list| list.first()).unwrap_or(data);
        let fields = Fields::of(data)?;
        let mut pool = Self { comment: fields.text("comment"), ..Self::default() };
        for member in fields.objects("members") {
            match member.text("type").as_deref() {
                Some("storage") => pool.storages.push(member.need("storage")?),
                Some("qemu" | "lxc") => pool.guests.push(member.need("vmid")?),
                _ => {}
            }
        }
        // Proxmox lists a storage once for every node, so duplicates are removed.
        pool.storages.sort_unstable();
        pool.storages.dedup();
        Ok(pool)
    }
}

pub fn list() -> Request<Vec<PoolEntry>> {
    Request::get(&[&"pools"])
}

pub fn get(id: &PoolId) -> Request<Pool> {
    // Proxmox accepts only pools of the first level in the path.
    if id.as_str().contains('/') {
        return Request::get(&[&"pools"]).with("poolid", id);
    }
    Request::get(&[&"pools", id])
}

pub fn create(id: &PoolId, comment: Option<&str>) -> Request<()> {
    Request::post(&[&"pools"]).with("poolid", id).with_some("comment", comment)
}

/// Members to add to a pool or to remove from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    pub guests: Vec<VmId>,
    pub storages: Vec<StorageId>,
}

/// Adds members to the pool. With `allow_move`, members of other pools are moved.
pub fn add(id: &PoolId, members: &Members, allow_move: bool) -> Request<()> {
    update(id, members).with_flag("allow-move", allow_move)
}

/// Removes members from the pool. The members themselves are not changed.
pub fn remove(id: &PoolId, members: &Members) -> Request<()> {
    update(id, members).with("delete", 1)
}

/// Replaces the comment of an existing pool.
pub fn set_comment(id: &PoolId, comment: &str) -> Request<()> {
    Request::put(&[&"pools"]).with("poolid", id).with("comment", comment)
}

fn update(id: &PoolId, members: &Members) -> Request<()> {
    let join = |items: Vec<String>| Some(items.join(",")).filter(|items| !items.is_empty());
    Request::put(&[&"pools"])
        .with("poolid", id)
        .with_some("vms", join(members.guests.iter().map(VmId::to_string).collect()))
        .with_some("storage", join(members.storages.iter().map(StorageId::to_string).collect()))
}

/// Deletes an empty pool.
pub fn delete(id: &PoolId) -> Request<()> {
    Request::delete(&[&"pools"]).with("poolid", id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_separated_by_kind() {
        let data = json!({"comment": "x", "members": [
            {"type": "qemu", "vmid": 300}, {"type": "lxc", "vmid": "301"},
            {"type": "storage", "storage": "local", "node": "a"},
            {"type": "storage", "storage": "local", "node": "b"},
        ]});
        let pool = Pool::decode(&data).unwrap();
        assert_eq!((pool.guests.len(), pool.storages.len()), (2, 1));
        assert_eq!(Pool::decode(&json!([data])).unwrap(), pool);
    }

    #[test]
    fn nested_pools_are_selected_by_parameter() {
        let id = "a/b".parse().unwrap();
        assert_eq!(get(&id).target(), "/api2/json/pools?poolid=a%2Fb");
        assert_eq!(get(&"talos".parse().unwrap()).target(), "/api2/json/pools/talos");
        let members = Members { guests: vec![VmId::new(300).unwrap()], ..Members::default() };
        assert_eq!(add(&id, &members, true).body().unwrap(), "poolid=a%2Fb&vms=300&allow-move=1");
        assert_eq!(remove(&id, &members).body().unwrap(), "poolid=a%2Fb&vms=300&delete=1");
        assert_eq!(set_comment(&id, "c d").body().unwrap(), "poolid=a%2Fb&comment=c%20d");
        assert_eq!(delete(&id).target(), "/api2/json/pools?poolid=a%2Fb");
    }
}

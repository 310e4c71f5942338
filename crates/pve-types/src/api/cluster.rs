//! Calls about the whole Proxmox cluster: version, members, resources and options.

use serde_json::Value;

use crate::id::{NodeName, PoolId, StorageId, VmId};
use crate::request::Request;
use crate::wire::{Decode, Fields, Unreadable, number, text};

/// Version of the node that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Full version, such as `9.1.6`.
    pub version: String,
    /// Release, such as `9.1`.
    pub release: String,
}

impl Version {
    /// Major version. The API calls of versions 8 and 9 differ.
    pub fn major(&self) -> Option<u32> {
        self.part(0)
    }

    /// Minor version.
    pub fn minor(&self) -> Option<u32> {
        self.part(1)
    }

    fn part(&self, index: usize) -> Option<u32> {
        let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>();
        digits(self.version.split('.').nth(index)?).parse().ok()
    }
}

impl Decode for Version {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        let version = fields.need_text("version")?;
        let release = fields.text("release").unwrap_or_else(|| version.clone());
        Ok(Self { version, release })
    }
}

pub fn version() -> Request<Version> {
    Request::get(&[&"version"])
}

/// Members and quorum of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Name of the cluster; `None` for a host that is not in a cluster.
    pub name: Option<String>,
    pub quorate: bool,
    pub members: Vec<Member>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub node: NodeName,
    pub online: bool,
    /// Whether this is the node that answered.
    pub local: bool,
    pub ip: Option<String>,
}

impl Decode for Status {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        // A host without a cluster is quorate.
        let mut status = Self { quorate: true, ..Self::default() };
        for item in data.as_array().into_iter().flatten() {
            let fields = Fields::of(item)?;
            match fields.text("type").as_deref() {
                Some("cluster") => {
                    status.name = fields.text("name");
                    status.quorate = fields.flag("quorate");
                }
                Some("node") => status.members.push(Member {
                    node: fields.need("name")?,
                    online: fields.flag("online"),
                    local: fields.flag("local"),
                    ip: fields.text("ip"),
                }),
                _ => {}
            }
        }
        Ok(status)
    }
}

pub fn status() -> Request<Status> {
    Request::get(&[&"cluster", &"status"])
}

/// VM or container of the Proxmox cluster.
///
/// Name and status may be some seconds old. Tags, lock and pool are current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    pub vmid: VmId,
    pub node: NodeName,
    /// Whether the guest is a VM; `false` for a container.
    pub is_vm: bool,
    pub name: Option<String>,
    /// `running`, `stopped` or `unknown`. The status is `unknown` for a new guest and for a guest on an unreachable
    /// node.
    pub status: String,
    pub template: bool,
    pub tags: Vec<String>,
    pub lock: Option<String>,
    pub pool: Option<PoolId>,
    pub ha_state: Option<String>,
    pub max_memory: Option<u64>,
    pub max_cpu: Option<u64>,
    pub uptime: Option<u64>,
}

/// Storage as reported by one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageResource {
    pub storage: StorageId,
    pub node: NodeName,
    pub status: String,
    pub shared: bool,
    pub kind: Option<String>,
    pub content: Vec<String>,
    pub total: Option<u64>,
    pub used: Option<u64>,
}

/// Host with its load.
#[derive(Clone, Debug, PartialEq)]
pub struct HostResource {
    pub node: NodeName,
    pub status: String,
    pub cpu: Option<f64>,
    pub max_cpu: Option<u64>,
    pub memory: Option<u64>,
    pub max_memory: Option<u64>,
}

/// All objects that the caller may see. The call also works while nodes are down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resources {
    pub guests: Vec<Guest>,
    pub storages: Vec<StorageResource>,
    pub hosts: Vec<HostResource>,
    pub pools: Vec<PoolId>,
}

impl Decode for Resources {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let mut resources = Self::default();
        for item in data.as_array().into_iter().flatten() {
            let fields = Fields::of(item)?;
            let status = fields.text("status").unwrap_or_else(|| "unknown".to_owned());
            match fields.text("type").as_deref() {
                Some(kind @ ("qemu" | "lxc")) => resources.guests.push(Guest {
                    vmid: fields.need("vmid")?,
                    node: fields.need("node")?,
                    is_vm: kind == "qemu",
                    name: fields.text("name"),
                    status,
                    template: fields.flag("template"),
                    tags: fields.list("tags"),
                    lock: fields.text("lock"),
                    pool: fields.id("pool")?,
                    ha_state: fields.text("hastate"),
                    max_memory: fields.number("maxmem"),
                    max_cpu: fields.number("maxcpu"),
                    uptime: fields.number("uptime"),
                }),
                Some("storage") => resources.storages.push(StorageResource {
                    storage: fields.need("storage")?,
                    node: fields.need("node")?,
                    status,
                    shared: fields.flag("shared"),
                    kind: fields.text("plugintype"),
                    content: fields.list("content"),
                    total: fields.number("maxdisk"),
                    used: fields.number("disk"),
                }),
                Some("node") => resources.hosts.push(HostResource {
                    node: fields.need("node")?,
                    status,
                    cpu: fields.fraction("cpu"),
                    max_cpu: fields.number("maxcpu"),
                    memory: fields.number("mem"),
                    max_memory: fields.number("maxmem"),
                }),
                Some("pool") => resources.pools.push(fields.need("pool")?),
                _ => {}
            }
        }
        Ok(resources)
    }
}

pub fn resources() -> Request<Resources> {
    Request::get(&[&"cluster", &"resources"])
}

impl Decode for VmId {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let id = text(data).ok_or_else(|| Unreadable("the VM id is missing".to_owned()))?;
        Ok(id.parse()?)
    }
}

/// Reads a vmid that is free at the moment. The vmid is not reserved.
pub fn next_id() -> Request<VmId> {
    Request::get(&[&"cluster", &"nextid"])
}

/// Checks whether a vmid is free. This is the only call about a VM that needs no permission.
///
/// If the vmid is used, Proxmox rejects the request, and `is_already_exists` is true for the error.
pub fn is_free(vmid: VmId) -> Request<VmId> {
    next_id().with("vmid", vmid)
}

/// Datacenter options that talmox uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub mac_prefix: Option<String>,
    pub http_proxy: Option<String>,
    /// Maximum number of guests that a node processes at the same time.
    pub max_workers: Option<u64>,
    /// Rule for the tags that users may set: `free`, `list`, `existing` or `none`.
    pub user_tag_access: Option<String>,
}

impl Decode for Options {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let Ok(fields) = Fields::of(data) else { return Ok(Self::default()) };
        let nested = |key: &str, inner: &str| match fields.value(key)? {
            Value::Object(_) => fields.inner(key)?.text(inner),
            other => text(other),
        };
        Ok(Self {
            mac_prefix: fields.text("mac_prefix"),
            http_proxy: fields.text("http_proxy"),
            max_workers: fields.value("max_workers").and_then(number),
            user_tag_access: nested("user-tag-access", "user-allow"),
        })
    }
}

pub fn options() -> Request<Options> {
    Request::get(&[&"cluster", &"options"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_are_split_into_numbers() {
        let version = Version::decode(&json!({"version": "8.4.14", "release": 8.4})).unwrap();
        assert_eq!((version.major(), version.minor()), (Some(8), Some(4)));
        assert_eq!(version.release, "8.4");
    }

    #[test]
    fn a_standalone_host_is_a_quorate_cluster() {
        let alone =
            json!([{"type": "node", "name": "atlas", "online": 1, "local": "1", "nodeid": 0}]);
        let status = Status::decode(&alone).unwrap();
        assert!(status.quorate && status.name.is_none() && status.members[0].local);
        let lost = json!([{"type": "cluster", "name": "home", "quorate": 0}]);
        assert!(!Status::decode(&lost).unwrap().quorate);
    }

    #[test]
    fn a_new_vm_without_name_and_status_is_decoded() {
        let data = json!([
            {"type": "qemu", "vmid": 300, "node": "pve1", "tags": "a;b", "lock": "create"},
            {"type": "qemu", "vmid": "301", "node": "pve2", "status": "running", "name": "x", "template": 0},
            {"type": "storage", "storage": "local", "node": "pve1", "shared": 0, "content": "iso,import"},
            {"type": "node", "node": "pve1", "status": "online", "cpu": 0.25},
            {"type": "sdn", "sdn": "localnetwork"},
            {"type": "pool", "pool": "talos", "id": "/pool/talos"},
        ]);
        let resources = Resources::decode(&data).unwrap();
        assert_eq!(resources.guests[0].status, "unknown");
        assert_eq!(resources.guests[0].tags, ["a", "b"]);
        assert_eq!(resources.guests[1].vmid.get(), 301);
        assert_eq!(resources.storages[0].content, ["iso", "import"]);
        assert_eq!(resources.hosts[0].cpu, Some(0.25));
        assert_eq!(resources.pools[0].as_str(), "talos");
    }

    #[test]
    fn a_free_vmid_is_decoded_from_number_and_text() {
        assert_eq!(VmId::decode(&json!(300)), VmId::decode(&json!("300")));
        assert_eq!(is_free(VmId::new(300).unwrap()).target(), "/api2/json/cluster/nextid?vmid=300");
    }
}

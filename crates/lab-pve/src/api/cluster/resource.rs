//! `/cluster/resources`: hosts, VMs, storages, pools and zones in one list. The values of VMs come from the last sample of the
//! status daemon and may be seconds old.

use serde_json::{Map, Value as Json, json};

use crate::Release;
use crate::api::reply::{data, flag};
use crate::call::{Call, Outcome};
use crate::status_daemon;
use crate::world::{Host, LOCAL_ZONE, Storage, World};

/// Entry of `/cluster/resources` as JSON.
type ResourceEntry = Map<String, Json>;

pub(super) fn list(call: &Call) -> Outcome {
    let world = call.world();
    let kind = call.params.text("type");
    let includes = |name: &str| kind.is_none_or(|kind| kind == name);
    let mut entries: Vec<ResourceEntry> = vec![];
    if includes("pool") {
        entries.extend(pools(call, &world));
    }
    if includes("vm") {
        entries.extend(vms(call, &world));
    }
    if includes("node") {
        entries.extend(world.hosts.iter().map(|(name, host)| node(call, &world, name, host)));
    }
    if includes("storage") {
        entries.extend(storages(call, &world));
    }
    let networks = if world.release >= Release::V9 { "network" } else { "sdn" };
    if includes(networks) && world.allowed(&call.caller, "/sdn/zones/localnetwork", &["SDN.Audit"])
    {
        entries.extend(world.hosts.keys().map(|node| zone(&world, node, LOCAL_ZONE, None)));
    }
    if includes(networks) {
        entries.extend(zones(call, &world));
    }
    data(entries.into_iter().map(Json::Object).collect::<Vec<_>>())
}

fn pools<'a>(call: &'a Call, world: &'a World) -> impl Iterator<Item = ResourceEntry> + 'a {
    let seen = world
        .pools
        .keys()
        .filter(|id| world.allowed(&call.caller, &format!("/pool/{id}"), &["Pool.Audit"]));
    seen.map(|id| object(json!({ "id": format!("/pool/{id}"), "pool": id, "type": "pool" })))
}

/// VM entries. Name and status come from the last sample of the status daemon. Tags, lock and pool are current.
fn vms<'a>(call: &'a Call, world: &'a World) -> impl Iterator<Item = ResourceEntry> + 'a {
    let seen = world
        .vms
        .iter()
        .filter(|(vmid, _)| world.allowed(&call.caller, &format!("/vms/{vmid}"), &["VM.Audit"]));
    seen.map(|(vmid, vm)| {
        let mut entry = vm_entry(world, *vmid, call.now());
        for option in ["lock", "tags"] {
            if let Some(value) = vm.config.get(option) {
                entry.insert(option.to_owned(), json!(value));
            }
        }
        let sees =
            |pool: &&str| world.allowed(&call.caller, &format!("/pool/{pool}"), &["Pool.Audit"]);
        if let Some(pool) = world.pool_of(*vmid).filter(sees) {
            entry.insert("pool".to_owned(), json!(pool));
        }
        if let Some(state) = world.ha_state(*vmid) {
            entry.insert("hastate".to_owned(), json!(state));
        }
        entry
    })
}

/// VM entry from the last sample of the status daemon. The entry of a VM without a sample has no name.
pub(in crate::api) fn vm_entry(world: &World, vmid: u32, now: u64) -> ResourceEntry {
    let node = world.vms.get(&vmid).map(|vm| vm.node.as_str()).unwrap_or_default();
    let mut entry = object(json!({
        "id": format!("qemu/{vmid}"),
        "vmid": vmid,
        "node": node,
        "type": "qemu",
        "status": "unknown",
    }));
    let Some(seen) = world.sampled.get(&vmid) else { return entry };
    let running = seen.since.is_some();
    let memory = if running { seen.memory / 2 } else { 0 };
    entry.extend(object(json!({
        "name": seen.name,
        "status": if running { "running" } else { "stopped" },
        "template": flag(seen.template),
        "uptime": seen.since.map_or(0, |since| now.saturating_sub(since)),
        "maxcpu": seen.cores,
        "cpu": if running { json!(0.01) } else { json!(0) },
        "maxmem": seen.memory,
        "mem": memory,
        "maxdisk": seen.disk,
        "disk": 0,
        "netin": 0,
        "netout": 0,
        "diskread": 0,
        "diskwrite": 0,
    })));
    if world.release >= Release::V9 {
        entry.insert("memhost".to_owned(), json!(memory));
    }
    entry
}

fn node(call: &Call, world: &World, name: &str, host: &Host) -> ResourceEntry {
    let audits = world.allowed(&call.caller, &format!("/nodes/{name}"), &["Sys.Audit"]);
    let mut entry = node_entry(world, name, host, call.now(), audits);
    entry.insert("cgroup-mode".to_owned(), json!(2));
    if world.ha.is_used() {
        let state = if host.online { "online" } else { "unknown" };
        entry.insert("hastate".to_owned(), json!(state));
    }
    entry
}

/// Host entry. Only a caller with `Sys.Audit` gets load and uptime.
pub(in crate::api) fn node_entry(
    world: &World,
    name: &str,
    host: &Host,
    now: u64,
    audits: bool,
) -> ResourceEntry {
    let mut entry = object(json!({
        "id": format!("node/{name}"),
        "node": name,
        "type": "node",
        "status": if host.online { "online" } else { "offline" },
        "level": "",
    }));
    if audits && host.online {
        let load = load(world, name, host);
        entry.extend(object(json!({
            "uptime": now.saturating_sub(host.booted),
            "cpu": load.cpu,
            "mem": load.memory,
            "disk": load.disk,
        })));
    }
    if audits {
        entry.extend(object(json!({
            "maxcpu": host.cores,
            "maxmem": host.memory,
            "maxdisk": root_disk(world, name),
        })));
    }
    entry
}

/// CPU, memory and disk usage of a host.
pub(in crate::api) struct HostLoad {
    pub(in crate::api) cpu: f64,
    /// Used memory in bytes.
    pub(in crate::api) memory: u64,
    pub(in crate::api) disk: u64,
}

pub(in crate::api) fn load(world: &World, name: &str, host: &Host) -> HostLoad {
    let running = world.vms.values().filter(|vm| vm.node == name && vm.is_running());
    let (mut guests, mut memory) = (0_u32, 2 << 30);
    for vm in running {
        guests += 1;
        memory += status_daemon::memory(&vm.config) << 19;
    }
    let cpu = (f64::from(guests) * 0.05 / f64::from(host.cores.max(1)) + 0.01).min(1.0);
    let on_root = world.storages.get("local").map_or(0, |local| local.used(name));
    HostLoad { cpu, memory: memory.min(host.memory), disk: on_root + (4 << 30) }
}

/// Size in bytes of the root file system of a host. The storage `local` is on the same file system.
pub(in crate::api) fn root_disk(world: &World, node: &str) -> u64 {
    let local = world.storages.get("local").filter(|local| local.is_on(node));
    local.map_or(96 << 30, |local| local.capacity)
}

/// Storage entries: one entry for each storage on each host.
fn storages<'a>(call: &'a Call, world: &'a World) -> impl Iterator<Item = ResourceEntry> + 'a {
    let seen = world.storages.iter().filter(|(id, storage)| {
        let path = format!("/storage/{id}");
        !storage.disabled && world.allowed(&call.caller, &path, &["Datastore.Audit"])
    });
    seen.flat_map(|(id, storage)| {
        let nodes = world.hosts.keys().filter(|node| storage.is_on(node));
        nodes.map(|node| storage_entry(world, id, storage, node))
    })
}

pub(in crate::api) fn storage_entry(
    world: &World,
    id: &str,
    storage: &Storage,
    node: &str,
) -> ResourceEntry {
    let content: Vec<&str> = storage.content.iter().map(|content| content.name()).collect();
    let mut entry = object(json!({
        "id": format!("storage/{node}/{id}"),
        "storage": id,
        "node": node,
        "type": "storage",
        "plugintype": storage.kind.name(),
        "status": "unknown",
        "shared": flag(storage.shared),
        "content": content.join(","),
    }));
    if world.hosts.get(node).is_some_and(|host| host.online) {
        entry.extend(object(json!({
            "status": "available",
            "maxdisk": storage.capacity,
            "disk": storage.used(node),
        })));
    }
    entry
}

/// Entries of the configured SDN zones: one entry for each zone on each host.
fn zones<'a>(call: &'a Call, world: &'a World) -> impl Iterator<Item = ResourceEntry> + 'a {
    let seen =
        world.sdn.zones.iter().filter(|(id, _)| {
            world.allowed(&call.caller, &format!("/sdn/zones/{id}"), &["SDN.Audit"])
        });
    seen.flat_map(|(id, of)| {
        let nodes = world.hosts.keys().filter(|node| of.is_on(node));
        nodes.map(|node| zone(world, node, id, Some(&of.kind)))
    })
}

/// Zone entry of a host. The built-in zone `localnetwork`, which contains the bridges, has no type.
fn zone(world: &World, node: &str, zone: &str, kind: Option<&str>) -> ResourceEntry {
    let status = if kind.is_some() { "available" } else { "ok" };
    let mut entry = object(match world.release {
        Release::V8 => json!({
            "id": format!("sdn/{node}/{zone}"),
            "sdn": zone,
            "node": node,
            "type": "sdn",
            "status": status,
        }),
        Release::V9 => json!({
            "id": format!("network/{node}/zone/{zone}"),
            "network": zone,
            "network-type": "zone",
            "node": node,
            "type": "network",
            "status": status,
        }),
    });
    if let Some(kind) = kind.filter(|_| world.release >= Release::V9) {
        entry.insert("zone-type".to_owned(), json!(kind));
    }
    entry
}

fn object(value: Json) -> ResourceEntry {
    match value {
        Json::Object(entry) => entry,
        _ => ResourceEntry::new(),
    }
}

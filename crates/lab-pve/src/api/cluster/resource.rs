//! `/cluster/resources`: hosts, VMs, storages, pools and zones in one list. The values of VMs come from the last sample of the
//! status daemon and may be seconds old.

use serde_json::{Map, Value as Json, json};

use crate::Release;
use crate::api::reply::{data, flag};
use crate::call::{Call, Outcome};
use crate::pve_state::{Host, LOCAL_ZONE, PveState, Storage};
use crate::status_daemon;

/// Entry of `/cluster/resources` as JSON.
type ResourceEntry = Map<String, Json>;

pub(super) fn list(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let kind = call.params.text("type");
    let includes = |name: &str| kind.is_none_or(|kind| kind == name);
    let mut entries: Vec<ResourceEntry> = vec![];
    if includes("pool") {
        entries.extend(pools(call, &pve_state));
    }
    if includes("vm") {
        entries.extend(vms(call, &pve_state));
    }
    if includes("node") {
        entries
            .extend(pve_state.hosts.iter().map(|(name, host)| node(call, &pve_state, name, host)));
    }
    if includes("storage") {
        entries.extend(storages(call, &pve_state));
    }
    let networks = if pve_state.release >= Release::V9 { "network" } else { "sdn" };
    if includes(networks)
        && pve_state.allowed(&call.caller, "/sdn/zones/localnetwork", &["SDN.Audit"])
    {
        entries.extend(pve_state.hosts.keys().map(|node| zone(&pve_state, node, LOCAL_ZONE, None)));
    }
    if includes(networks) {
        entries.extend(zones(call, &pve_state));
    }
    data(entries.into_iter().map(Json::Object).collect::<Vec<_>>())
}

fn pools<'a>(call: &'a Call, pve_state: &'a PveState) -> impl Iterator<Item = ResourceEntry> + 'a {
    let seen = pve_state
        .pools
        .keys()
        .filter(|id| pve_state.allowed(&call.caller, &format!("/pool/{id}"), &["Pool.Audit"]));
    seen.map(|id| object(json!({ "id": format!("/pool/{id}"), "pool": id, "type": "pool" })))
}

/// VM entries. Name and status come from the last sample of the status daemon. Tags, lock and pool are current.
fn vms<'a>(call: &'a Call, pve_state: &'a PveState) -> impl Iterator<Item = ResourceEntry> + 'a {
    let seen = pve_state.vms.iter().filter(|(vmid, _)| {
        pve_state.allowed(&call.caller, &format!("/vms/{vmid}"), &["VM.Audit"])
    });
    seen.map(|(vmid, vm)| {
        let mut entry = vm_entry(pve_state, *vmid, call.now());
        for option in ["lock", "tags"] {
            if let Some(value) = vm.config.get(option) {
                entry.insert(option.to_owned(), json!(value));
            }
        }
        let sees = |pool: &&str| {
            pve_state.allowed(&call.caller, &format!("/pool/{pool}"), &["Pool.Audit"])
        };
        if let Some(pool) = pve_state.pool_of(*vmid).filter(sees) {
            entry.insert("pool".to_owned(), json!(pool));
        }
        if let Some(state) = pve_state.ha_state(*vmid) {
            entry.insert("hastate".to_owned(), json!(state));
        }
        entry
    })
}

/// VM entry from the last sample of the status daemon. The entry of a VM without a sample has no name.
pub(in crate::api) fn vm_entry(pve_state: &PveState, vmid: u32, now: u64) -> ResourceEntry {
    let node = pve_state.vms.get(&vmid).map(|vm| vm.node.as_str()).unwrap_or_default();
    let mut entry = object(json!({
        "id": format!("qemu/{vmid}"),
        "vmid": vmid,
        "node": node,
        "type": "qemu",
        "status": "unknown",
    }));
    let Some(seen) = pve_state.sampled.get(&vmid) else { return entry };
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
    if pve_state.release >= Release::V9 {
        entry.insert("memhost".to_owned(), json!(memory));
    }
    entry
}

fn node(call: &Call, pve_state: &PveState, name: &str, host: &Host) -> ResourceEntry {
    let audits = pve_state.allowed(&call.caller, &format!("/nodes/{name}"), &["Sys.Audit"]);
    let mut entry = node_entry(pve_state, name, host, call.now(), audits);
    entry.insert("cgroup-mode".to_owned(), json!(2));
    if pve_state.ha.is_used() {
        let state = if host.online { "online" } else { "unknown" };
        entry.insert("hastate".to_owned(), json!(state));
    }
    entry
}

/// Host entry. Only a caller with `Sys.Audit` gets load and uptime.
pub(in crate::api) fn node_entry(
    pve_state: &PveState,
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
        let load = load(pve_state, name, host);
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
            "maxdisk": root_disk(pve_state, name),
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

pub(in crate::api) fn load(pve_state: &PveState, name: &str, host: &Host) -> HostLoad {
    let running = pve_state.vms.values().filter(|vm| vm.node == name && vm.is_running());
    let (mut guests, mut memory) = (0_u32, 2 << 30);
    for vm in running {
        guests += 1;
        memory += status_daemon::memory(&vm.config) << 19;
    }
    let cpu = (f64::from(guests) * 0.05 / f64::from(host.cores.max(1)) + 0.01).min(1.0);
    let on_root = pve_state.storages.get("local").map_or(0, |local| local.used(name));
    HostLoad { cpu, memory: memory.min(host.memory), disk: on_root + (4 << 30) }
}

/// Size in bytes of the root file system of a host. The storage `local` is on the same file system.
pub(in crate::api) fn root_disk(pve_state: &PveState, node: &str) -> u64 {
    let local = pve_state.storages.get("local").filter(|local| local.is_on(node));
    local.map_or(96 << 30, |local| local.capacity)
}

/// Storage entries: one entry for each storage on each host.
fn storages<'a>(
    call: &'a Call,
    pve_state: &'a PveState,
) -> impl Iterator<Item = ResourceEntry> + 'a {
    let seen = pve_state.storages.iter().filter(|(id, storage)| {
        let path = format!("/storage/{id}");
        !storage.disabled && pve_state.allowed(&call.caller, &path, &["Datastore.Audit"])
    });
    seen.flat_map(|(id, storage)| {
        let nodes = pve_state.hosts.keys().filter(|node| storage.is_on(node));
        nodes.map(|node| storage_entry(pve_state, id, storage, node))
    })
}

pub(in crate::api) fn storage_entry(
    pve_state: &PveState,
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
    if pve_state.hosts.get(node).is_some_and(|host| host.online) {
        entry.extend(object(json!({
            "status": "available",
            "maxdisk": storage.capacity,
            "disk": storage.used(node),
        })));
    }
    entry
}

/// Entries of the configured SDN zones: one entry for each zone on each host.
fn zones<'a>(call: &'a Call, pve_state: &'a PveState) -> impl Iterator<Item = ResourceEntry> + 'a {
    let seen = pve_state.sdn.zones.iter().filter(|(id, _)| {
        pve_state.allowed(&call.caller, &format!("/sdn/zones/{id}"), &["SDN.Audit"])
    });
    seen.flat_map(|(id, of)| {
        let nodes = pve_state.hosts.keys().filter(|node| of.is_on(node));
        nodes.map(|node| zone(pve_state, node, id, Some(&of.kind)))
    })
}

/// Zone entry of a host. The built-in zone `localnetwork`, which contains the bridges, has no type.
fn zone(pve_state: &PveState, node: &str, zone: &str, kind: Option<&str>) -> ResourceEntry {
    let status = if kind.is_some() { "available" } else { "ok" };
    let mut entry = object(match pve_state.release {
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
    if let Some(kind) = kind.filter(|_| pve_state.release >= Release::V9) {
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

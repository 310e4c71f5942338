//! VM status: `GET /nodes/{node}/qemu` and `GET …/{vmid}/status/current`.

use serde_json::{Map, Value as Json, json};

use super::vmid;
use crate::Release;
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::{Config, PveState, Run, Vm};
use crate::schema::{self, FormatName};
use crate::vm::drive::{self, Drive};
use crate::vm::memory;
use crate::vm::power::agent_is_enabled;
use crate::vm::{boot, machine};

/// Status of a VM as JSON.
type Status = Map<String, Json>;

pub(super) fn all(call: &Call) -> Outcome {
    let full = call.params.flag("full").unwrap_or_default();
    let pve_state = call.pve_state();
    let seen = pve_state.vms.iter().filter(|(vmid, vm)| {
        vm.node == call.node
            && pve_state.allowed(&call.caller, &format!("/vms/{vmid}"), &["VM.Audit"])
    });
    let list: Vec<Json> = seen
        .map(|(vmid, vm)| {
            let mut status = status(&pve_state, *vmid, vm, call.now());
            if full {
                add_details(&mut status, &pve_state, *vmid, vm);
            }
            Json::Object(status)
        })
        .collect();
    Ok(Reply::Data(Json::Array(list)))
}

pub(super) fn current(call: &Call) -> Outcome {
    let vmid = vmid(call);
    let pve_state = call.pve_state();
    let vm = pve_state.vm(&call.node, vmid)?;
    let mut status = status(&pve_state, vmid, vm, call.now());
    add_details(&mut status, &pve_state, vmid, vm);
    status.insert("ha".to_owned(), ha(&pve_state, vmid));
    if let Some(vga) = vm.config.get("vga") {
        let format = schema::format(pve_state.release, FormatName::Vga);
        let fields = format.parse(vga).unwrap_or_default();
        let kind = fields.get("type").unwrap_or_default();
        if kind.starts_with("virtio") || kind.starts_with("qxl") {
            status.insert("spice".to_owned(), json!(1));
        }
        status.insert("clipboard".to_owned(), json!(fields.get("clipboard")));
    }
    if agent_is_enabled(&pve_state, &vm.config) {
        status.insert("agent".to_owned(), json!(1));
    }
    Ok(Reply::Data(Json::Object(status)))
}

/// Answers `GET …/{vmid}`: index of the calls for a VM.
pub(super) fn index() -> Outcome {
    folders(&[
        "config",
        "cloudinit",
        "pending",
        "status",
        "unlink",
        "vncproxy",
        "termproxy",
        "migrate",
        "resize",
        "move",
        "rrd",
        "rrddata",
        "monitor",
        "agent",
        "snapshot",
        "spiceproxy",
        "sendkey",
        "firewall",
        "mtunnel",
        "remote_migrate",
    ])
}

/// Answers `GET …/{vmid}/status`: index of the power calls.
pub(super) fn status_index(call: &Call) -> Outcome {
    call.pve_state().vm(&call.node, vmid(call))?;
    folders(&["current", "start", "stop", "reset", "shutdown", "suspend", "reboot"])
}

fn folders(names: &[&str]) -> Outcome {
    Ok(Reply::Data(names.iter().map(|name| json!({ "subdir": name })).collect()))
}

/// Status fields that Proxmox returns without querying QEMU.
fn status(pve_state: &PveState, vmid: u32, vm: &Vm, now: u64) -> Status {
    let config = &vm.config;
    let number = |key: &str| config.get(key).and_then(|value| value.parse::<u64>().ok());
    let cores = number("sockets").unwrap_or(1).saturating_mul(number("cores").unwrap_or(1));
    let most = pve_state.hosts.get(&vm.node).map_or(u64::MAX, |host| u64::from(host.cores));
    let name = config.get("name").cloned().unwrap_or_else(|| format!("VM {vmid}"));
    let memory = memory::mib(pve_state, config.get("memory").map(String::as_str)) << 20;
    let run = vm.run.as_ref();
    let mut status = Status::new();
    let mut add = |key: &str, value: Json| status.insert(key.to_owned(), value);
    add("vmid", json!(vmid));
    add("name", json!(name));
    add("status", json!(if run.is_some() { "running" } else { "stopped" }));
    add("cpus", json!(number("vcpus").unwrap_or(cores.min(most))));
    add("maxmem", json!(memory));
    add("maxdisk", json!(boot_disk_size(config)));
    add("disk", json!(0));
    add("uptime", json!(run.map_or(0, |run| now.saturating_sub(run.since))));
    let load = run.map_or_else(VmLoad::default, |run| VmLoad::of(run, vmid, memory, now));
    add("cpu", json!(load.cpu));
    add("mem", json!(load.memory));
    add("netin", json!(load.net_in));
    add("netout", json!(load.net_out));
    if let Some(balloon) = number("balloon").filter(|balloon| *balloon > 0) {
        add("balloon_min", json!(balloon << 20));
        add("shares", json!(number("shares").unwrap_or(1000)));
    }
    if pve_state.release == Release::V9 {
        add("memhost", json!(load.memory));
        let pressures = ["cpusome", "cpufull", "iosome", "iofull", "memorysome", "memoryfull"];
        for name in pressures.iter().filter(|_| run.is_some()) {
            add(&format!("pressure{name}"), json!(0));
        }
    }
    if let Some(run) = run {
        add("pid", json!(run.pid));
    }
    if vm.is_template() {
        add("template", json!(1));
    }
    if config.keys().any(|key| key.starts_with("serial")) {
        add("serial", json!(1));
    }
    for key in ["lock", "tags"] {
        if let Some(value) = config.get(key) {
            add(key, json!(value));
        }
    }
    status
}

/// Adds the status fields for which Proxmox queries QEMU.
fn add_details(status: &mut Status, pve_state: &PveState, vmid: u32, vm: &Vm) {
    let mut add = |key: &str, value: Json| status.insert(key.to_owned(), value);
    add("diskread", json!(0));
    add("diskwrite", json!(0));
    let Some(run) = &vm.run else {
        add("qmpstatus", json!("stopped"));
        return;
    };
    add("qmpstatus", json!(if run.paused { "paused" } else { "running" }));
    add("running-machine", json!(machine::running(pve_state.release, run.config.get("machine"))));
    add("running-qemu", json!(pve_state.release.qemu()));
    let mut blocks = Status::new();
    for drive in drive::drives(&run.config) {
        blocks.insert(drive.key, json!({ "rd_bytes": 0, "wr_bytes": 0 }));
    }
    add("blockstat", Json::Object(blocks));
    let mut cards = Status::new();
    for key in run.config.keys().filter(|key| crate::vm::identity::is_net(key)) {
        let tap = format!("tap{vmid}i{}", key.trim_start_matches("net"));
        cards.insert(tap, json!({ "netin": 0, "netout": 0 }));
    }
    add("nics", Json::Object(cards));
    add("proxmox-support", json!({ "pbs-dirty-bitmap": true, "query-bitmap-info": true }));
}

/// Simulated load of a running VM, computed from its vmid and uptime.
#[derive(Default)]
struct VmLoad {
    cpu: f64,
    memory: u64,
    net_in: u64,
    net_out: u64,
}

impl VmLoad {
    fn of(run: &Run, vmid: u32, memory: u64, now: u64) -> Self {
        let age = now.saturating_sub(run.since);
        let share = u64::from(vmid % 7 + 2);
        Self {
            cpu: f64::from(vmid % 7 + 2) / 100.0,
            memory: memory / 16 * share,
            net_in: age * 900 * share,
            net_out: age * 400 * share,
        }
    }
}

/// Size in bytes of the first disk in the boot order.
fn boot_disk_size(config: &Config) -> u64 {
    let drives = boot::order(config.get("boot"));
    let disk = drives.iter().find_map(|key| {
        let drive = Drive::parse(key, config.get(key)?)?;
        (drive::is_slot(key) && !drive.is_cdrom()).then_some(drive)
    });
    disk.and_then(|disk| disk.size()).unwrap_or_default()
}

fn ha(pve_state: &PveState, vmid: u32) -> Json {
    let Some(options) = pve_state.ha.resources.get(&format!("vm:{vmid}")) else {
        return json!({ "managed": 0 });
    };
    let mut shown = Status::new();
    shown.insert("managed".to_owned(), json!(1));
    shown.extend(options.iter().map(|(key, value)| (key.clone(), json!(value))));
    shown.insert("state".to_owned(), json!(pve_state.ha_state(vmid).unwrap_or("started")));
    Json::Object(shown)
}

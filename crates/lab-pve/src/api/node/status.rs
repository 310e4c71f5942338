//! `/nodes/{node}`: status, time and DNS of a host.

use serde_json::{Map, Value as Json, json};

use crate::api::cluster::{load, root_disk};
use crate::api::reply::data;
use crate::api::version;
use crate::call::{Call, Outcome};
use crate::pve_state::{Host, PveState};
use crate::{ApiError, Release};

pub(super) fn read(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let host = host(&pve_state, &call.node)?;
    let load = load(&pve_state, &call.node, host);
    let disk = root_disk(&pve_state, &call.node);
    let kernel = match call.release {
        Release::V8 => "6.8.12-9-pve",
        Release::V9 => "6.17.4-1-pve",
    };
    let built = "#1 SMP PREEMPT_DYNAMIC";
    let free = host.memory.saturating_sub(load.memory);
    let average = format!("{:.2}", load.cpu * f64::from(host.cores));
    data(json!({
        "uptime": call.now().saturating_sub(host.booted),
        "idle": 0,
        "loadavg": [average, average, average],
        "kversion": format!("Linux {kernel} {built}"),
        "current-kernel": {
            "sysname": "Linux",
            "release": kernel,
            "version": built,
            "machine": "x86_64",
        },
        "boot-info": { "mode": "efi", "secureboot": 0 },
        "cpuinfo": {
            "cores": host.cores,
            "cpus": host.cores,
            "sockets": 1,
            "model": "Simulated CPU",
            "hvm": "1",
            "mhz": "3000.000",
            "user_hz": 100,
        },
        "cpu": load.cpu,
        "wait": 0,
        "memory": {
            "total": host.memory,
            "used": load.memory,
            "free": free,
            "available": free,
        },
        "ksm": { "shared": 0 },
        "swap": { "total": 0, "used": 0, "free": 0 },
        "pveversion": version::package(call.release),
        "rootfs": {
            "total": disk,
            "used": load.disk,
            "free": disk.saturating_sub(load.disk),
            "avail": disk.saturating_sub(load.disk),
        },
    }))
}

/// Answers `GET /nodes/{node}/time` with the lab time, which may run faster than real time.
pub(super) fn time(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let host = host(&pve_state, &call.node)?;
    let zone = host.settings.get("timezone").map_or("UTC", String::as_str);
    data(json!({ "timezone": zone, "time": call.now(), "localtime": call.now() }))
}

pub(super) fn dns(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let host = host(&pve_state, &call.node)?;
    let shown: Map<String, Json> =
        host.resolver().into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    data(shown)
}

pub(super) fn host<'a>(pve_state: &'a PveState, node: &str) -> Result<&'a Host, ApiError> {
    let host = pve_state.hosts.get(node);
    host.ok_or_else(|| ApiError::failed(format!("no such cluster node '{node}'")))
}

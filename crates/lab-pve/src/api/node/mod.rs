//! `/nodes`: calls about hosts. Calls about the VMs and storages of a host are in other modules.

mod capability;
mod hardware;
mod network;
mod status;
pub(super) mod task;
#[cfg(test)]
mod tests;

use serde_json::{Value as Json, json};

use super::cluster::node_entry;
use super::reply::data;
use super::{index, not_implemented, version};
use crate::call::{Call, Outcome};
use crate::schema::{Endpoint, Method};

pub(super) fn answer(endpoint: &Endpoint, call: &Call) -> Outcome {
    use Method::{Delete, Get};
    match endpoint.id() {
        (Get, "/nodes") => list(call),
        (Get, "/nodes/{node}") => index::of(
            "name",
            &[
                "aplinfo",
                "apt",
                "capabilities",
                "ceph",
                "certificates",
                "config",
                "disks",
                "dns",
                "firewall",
                "hardware",
                "hosts",
                "journal",
                "lxc",
                "migrateall",
                "netstat",
                "network",
                "qemu",
                "query-url-metadata",
                "replication",
                "report",
                "rrd",
                "rrddata",
                "scan",
                "sdn",
                "services",
                "spiceshell",
                "startall",
                "status",
                "stopall",
                "storage",
                "subscription",
                "suspendall",
                "syslog",
                "tasks",
                "termproxy",
                "time",
                "version",
                "vncshell",
                "vzdump",
                "wakeonlan",
            ],
        ),
        (Get, "/nodes/{node}/status") => status::read(call),
        (Get, "/nodes/{node}/version") => version::of_node(call),
        (Get, "/nodes/{node}/time") => status::time(call),
        (Get, "/nodes/{node}/dns") => status::dns(call),
        (Get, "/nodes/{node}/capabilities/qemu") => capability::index(call),
        (Get, "/nodes/{node}/capabilities/qemu/cpu") => capability::cpu(call),
        (Get, "/nodes/{node}/capabilities/qemu/machines") => capability::machines(call),
        (Get, "/nodes/{node}/network") => network::list(call),
        (Get, "/nodes/{node}/network/{iface}") => network::read(call),
        (Get, "/nodes/{node}/hardware") => index::of("type", &["pci", "usb"]),
        (Get, "/nodes/{node}/hardware/pci") => hardware::pci(call),
        (Get, "/nodes/{node}/hardware/pci/{pci-id-or-mapping}") => index::of("method", &["mdev"]),
        (Get, "/nodes/{node}/tasks") => task::list(call),
        (Get, "/nodes/{node}/tasks/{upid}") => index::of("name", &["log", "status"]),
        (Get, "/nodes/{node}/tasks/{upid}/status") => task::status(call),
        (Get, "/nodes/{node}/tasks/{upid}/log") => task::log(call),
        (Delete, "/nodes/{node}/tasks/{upid}") => task::stop(call),
        _ => not_implemented(endpoint),
    }
}

/// Answers `GET /nodes`: all hosts. Only a caller with `Sys.Audit` gets load and uptime.
fn list(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let mut entries: Vec<Json> = vec![];
    for (name, host) in &pve_state.hosts {
        let audits = pve_state.allowed(&call.caller, &format!("/nodes/{name}"), &["Sys.Audit"]);
        let mut entry = node_entry(&pve_state, name, host, call.now(), audits);
        entry.insert("ssl_fingerprint".to_owned(), json!(call.site.fingerprint()));
        entries.push(Json::Object(entry));
    }
    data(entries)
}

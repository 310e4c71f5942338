//! Endpoints of the guest agent: `POST agent` for all simple commands, and endpoints for ping, shutdown and most reads. The
//! other endpoints are not simulated, for example exec, file-read, file-write and set-user-password.

use super::super::endpoint::{Endpoint, Permission, Table, all, any};
use super::super::property::{one_of, p};
use crate::Release;

const COMMANDS: [&str; 20] = [
    "fsfreeze-freeze",
    "fsfreeze-status",
    "fsfreeze-thaw",
    "fstrim",
    "get-fsinfo",
    "get-host-name",
    "get-memory-block-info",
    "get-memory-blocks",
    "get-osinfo",
    "get-time",
    "get-timezone",
    "get-users",
    "get-vcpus",
    "info",
    "network-get-interfaces",
    "ping",
    "shutdown",
    "suspend-disk",
    "suspend-hybrid",
    "suspend-ram",
];

pub(super) fn endpoints(table: Table) -> Vec<Endpoint> {
    // Proxmox VE 8 has a single privilege for all guest agent calls.
    let may = |privileges| match table.0 {
        Release::V8 => all("/vms/{vmid}", &["VM.Monitor"]),
        Release::V9 => any("/vms/{vmid}", privileges),
    };
    let audit = || -> Permission { may(&["VM.GuestAgent.Audit", "VM.GuestAgent.Unrestricted"]) };
    let reads = [
        "/nodes/{node}/qemu/{vmid}/agent/get-fsinfo",
        "/nodes/{node}/qemu/{vmid}/agent/get-host-name",
        "/nodes/{node}/qemu/{vmid}/agent/get-osinfo",
        "/nodes/{node}/qemu/{vmid}/agent/get-time",
        "/nodes/{node}/qemu/{vmid}/agent/get-timezone",
        "/nodes/{node}/qemu/{vmid}/agent/get-users",
        "/nodes/{node}/qemu/{vmid}/agent/get-vcpus",
        "/nodes/{node}/qemu/{vmid}/agent/info",
        "/nodes/{node}/qemu/{vmid}/agent/network-get-interfaces",
    ];
    let mut endpoints = vec![
        table.get("/nodes/{node}/qemu/{vmid}/agent").proxied().open(),
        table
            .post("/nodes/{node}/qemu/{vmid}/agent")
            .proxied()
            .allow(may(&["VM.GuestAgent.Unrestricted", "VM.GuestAgent.Unrestricted"]))
            .with([p("command", one_of(COMMANDS).required())]),
        table.post("/nodes/{node}/qemu/{vmid}/agent/ping").proxied().allow(audit()),
        table
            .post("/nodes/{node}/qemu/{vmid}/agent/shutdown")
            .proxied()
            .allow(may(&["VM.PowerMgmt", "VM.GuestAgent.Unrestricted"])),
    ];
    endpoints.extend(reads.map(|path| table.get(path).proxied().allow(audit())));
    endpoints
}

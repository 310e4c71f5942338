//! Endpoints of VM snapshots.

use super::super::endpoint::{Endpoint, Table, all, any};
use super::super::property::{flag, formatted, p, text};
use super::super::value_format::CONFIG_ID;

const LIST: &str = "/nodes/{node}/qemu/{vmid}/snapshot";
const ONE: &str = "/nodes/{node}/qemu/{vmid}/snapshot/{snapname}";
const CONFIG: &str = "/nodes/{node}/qemu/{vmid}/snapshot/{snapname}/config";
const VM: &str = "/vms/{vmid}";

pub(super) fn endpoints(table: Table) -> Vec<Endpoint> {
    vec![
        table.get(LIST).proxied().allow(all(VM, &["VM.Audit"])),
        table.post(LIST).proxied().allow(all(VM, &["VM.Snapshot"])).with([
            p("snapname", formatted(CONFIG_ID).longest(40).required()),
            p("description", text()),
            p("vmstate", flag()),
        ]),
        table.get(ONE),
        table.delete(ONE).proxied().allow(all(VM, &["VM.Snapshot"])).with([p("force", flag())]),
        table
            .get(CONFIG)
            .proxied()
            .allow(any(VM, &["VM.Snapshot", "VM.Snapshot.Rollback", "VM.Audit"])),
        table
            .put(CONFIG)
            .proxied()
            .allow(all(VM, &["VM.Snapshot"]))
            .with([p("description", text())]),
        table
            .post("/nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback")
            .proxied()
            .allow(any(VM, &["VM.Snapshot", "VM.Snapshot.Rollback"]))
            .with([p("start", flag())]),
    ]
}

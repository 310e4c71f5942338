//! Endpoints of VM status and power.

use super::super::endpoint::{Endpoint, Table, all};
use super::super::formats::{FormatName, shared};
use super::super::property::{
    TableEntry, each, flag, formatted, integer, one_of, p, pattern, properties, text,
};
use super::super::value_format::{CIDR, NODE, STORAGE_ID, STORAGE_PAIR};
use crate::Release;

pub(super) fn endpoints(table: Table) -> Vec<Endpoint> {
    let act = |path, entries: Vec<TableEntry>| {
        table.post(path).proxied().allow(all("/vms/{vmid}", &["VM.PowerMgmt"])).with(entries)
    };
    let skip_lock = || p("skiplock", flag());
    let timeout = || p("timeout", integer().min(0));
    vec![
        table.get("/nodes/{node}/qemu/{vmid}/status").proxied(),
        table
            .get("/nodes/{node}/qemu/{vmid}/status/current")
            .proxied()
            .allow(all("/vms/{vmid}", &["VM.Audit"])),
        act(
            "/nodes/{node}/qemu/{vmid}/status/start",
            vec![
                skip_lock(),
                timeout(),
                p("force-cpu", text()),
                p("machine", properties(shared(table.0, FormatName::Machine))),
                p("migratedfrom", formatted(NODE)),
                p("migration_network", formatted(CIDR)),
                p("migration_type", one_of(["secure", "insecure"])),
                p("nets-host-mtu", pattern(r"net\d+=\d+(,net\d+=\d+)*")),
                p("stateuri", text().longest(128)),
                p("targetstorage", each(STORAGE_PAIR)),
                p("with-conntrack-state", flag().since(Release::V9)),
            ],
        ),
        act(
            "/nodes/{node}/qemu/{vmid}/status/stop",
            vec![
                skip_lock(),
                timeout(),
                p("keepActive", flag()),
                p("migratedfrom", formatted(NODE)),
                p("overrule-shutdown", flag()),
            ],
        ),
        act(
            "/nodes/{node}/qemu/{vmid}/status/shutdown",
            vec![skip_lock(), timeout(), p("forceStop", flag()), p("keepActive", flag())],
        ),
        act("/nodes/{node}/qemu/{vmid}/status/reboot", vec![timeout()]),
        act("/nodes/{node}/qemu/{vmid}/status/reset", vec![skip_lock()]),
        act("/nodes/{node}/qemu/{vmid}/status/resume", vec![skip_lock(), p("nocheck", flag())]),
        act(
            "/nodes/{node}/qemu/{vmid}/status/suspend",
            vec![
                skip_lock(),
                p("statestorage", formatted(STORAGE_ID).requires("todisk")),
                p("todisk", flag()),
            ],
        ),
    ]
}

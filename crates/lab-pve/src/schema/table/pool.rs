//! Endpoints of pools. The id of a pool may contain slashes, so Proxmox has calls with the id as a parameter. Older calls have
//! the id in the path.

use super::super::endpoint::{Endpoint, Table, all};
use super::super::property::{each, flag, formatted, one_of, p, text};
use super::super::value_format::{POOL_ID, STORAGE_ID, VMID};

const POOL: &str = "/pools/{poolid}";

pub(super) fn endpoints(table: Table) -> Vec<Endpoint> {
    let manage = |endpoint: Endpoint| endpoint.allow(all("/pool/{poolid}", &["Pool.Allocate"]));
    let id = || [p("poolid", formatted(POOL_ID).required())];
    let kinds = || one_of(["qemu", "lxc", "storage"]);
    let change = || {
        [
            p("allow-move", flag()),
            p("comment", text()),
            p("delete", flag()),
            p("storage", each(STORAGE_ID)),
            p("vms", each(VMID)),
        ]
    };
    vec![
        table
            .get("/pools")
            .with([p("poolid", formatted(POOL_ID)), p("type", kinds().requires("poolid"))]),
        manage(table.post("/pools")).with(id()).with([p("comment", text())]),
        manage(table.put("/pools")).with(id()).with(change()),
        manage(table.delete("/pools")).with(id()),
        table.get(POOL).allow(all("/pool/{poolid}", &["Pool.Audit"])).with([p("type", kinds())]),
        manage(table.put(POOL)).with(change()),
        manage(table.delete(POOL)),
    ]
}

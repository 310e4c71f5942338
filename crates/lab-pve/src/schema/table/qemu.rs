//! Endpoints of VMs and their configs.

use super::super::endpoint::{Endpoint, Permission, Table, all, any, vmid};
use super::super::property::{
    Property, TableEntry, each, flag, formatted, integer, one_of, p, pattern, text,
};
use super::super::value_format::{
    CIDR, CONFIG_ID, DNS_NAME, NODE, POOL_ID, STORAGE_ID, STORAGE_PAIR,
};
use super::super::vm::{UNUSED, drive_names, options};
use super::vm_digest;
use crate::Release;

const LIST: &str = "/nodes/{node}/qemu";
const ONE: &str = "/nodes/{node}/qemu/{vmid}";
const CONFIG: &str = "/nodes/{node}/qemu/{vmid}/config";
const CLOUD_INIT: &str = "/nodes/{node}/qemu/{vmid}/cloudinit";
const MIGRATE: &str = "/nodes/{node}/qemu/{vmid}/migrate";
const VM: &str = "/vms/{vmid}";

/// Privileges to change a config. The declared permission requires one of them; the changed option determines which one.
const CHANGE: &[&str] = &[
    "VM.Config.Disk",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.HWType",
    "VM.Config.Options",
    "VM.Config.Cloudinit",
];

pub(super) fn endpoints(table: Table) -> Vec<Endpoint> {
    let mut endpoints = vm_endpoints(table);
    endpoints.extend(config(table));
    endpoints.extend(disks(table));
    endpoints
}

fn bandwidth_limit() -> TableEntry {
    p("bwlimit", integer().min(0))
}

fn skip_lock() -> TableEntry {
    p("skiplock", flag())
}

fn snapshot() -> Property {
    formatted(CONFIG_ID).longest(40)
}

fn disk() -> Property {
    let names: Vec<String> = drive_names().collect();
    one_of(names.iter().map(String::as_str))
}

fn disk_or_unused() -> Property {
    let unused = (0..UNUSED).map(|index| format!("unused{index}"));
    let names: Vec<String> = drive_names().chain(unused).collect();
    one_of(names.iter().map(String::as_str))
}

fn image_format() -> Property {
    one_of(["raw", "qcow2", "vmdk"])
}

/// Endpoints about a VM as a whole.
fn vm_endpoints(table: Table) -> Vec<Endpoint> {
    let migration = || {
        [
            p("migration_network", formatted(CIDR)),
            p("migration_type", one_of(["secure", "insecure"])),
            p("targetstorage", each(STORAGE_PAIR)),
            p("with-conntrack-state", flag().since(Release::V9)),
        ]
    };
    vec![
        table.get(LIST).proxied().with([p("full", flag())]),
        table.post(LIST).proxied().with(options(table.0)).with([
            p("vmid", vmid().required()),
            bandwidth_limit(),
            p("archive", text().longest(255)),
            p("force", flag().requires("archive")),
            p("ha-managed", flag().since(Release::V9)),
            p("import-working-storage", formatted(STORAGE_ID)),
            p("live-restore", flag()),
            p("pool", formatted(POOL_ID)),
            p("start", flag()),
            p("storage", formatted(STORAGE_ID)),
            p("unique", flag().requires("archive")),
        ]),
        table.get(ONE).proxied(),
        table.delete(ONE).proxied().allow(all(VM, &["VM.Allocate"])).with([
            skip_lock(),
            p("destroy-unreferenced-disks", flag()),
            p("purge", flag()),
        ]),
        table
            .post("/nodes/{node}/qemu/{vmid}/clone")
            .proxied()
            .allow(Permission::And(vec![
                all(VM, &["VM.Clone"]),
                Permission::Or(vec![
                    all("/vms/{newid}", &["VM.Allocate"]),
                    Permission::Privileges {
                        path: "/pool/{pool}",
                        privileges: &["VM.Allocate"],
                        any: false,
                        needs: Some("pool"),
                    },
                ]),
            ]))
            .with([
                p("newid", vmid().required()),
                bandwidth_limit(),
                p("description", text()),
                p("format", image_format()),
                p("full", flag()),
                p("name", formatted(DNS_NAME)),
                p("pool", formatted(POOL_ID)),
                p("snapname", snapshot()),
                p("storage", formatted(STORAGE_ID)),
                p("target", formatted(NODE)),
            ]),
        table
            .get(MIGRATE)
            .proxied()
            .allow(all(VM, &["VM.Migrate"]))
            .with([p("target", formatted(NODE))]),
        table.post(MIGRATE).proxied().allow(all(VM, &["VM.Migrate"])).with(migration()).with([
            p("target", formatted(NODE).required()),
            bandwidth_limit(),
            p("force", flag()),
            p("online", flag()),
            p("with-local-disks", flag()),
        ]),
        table
            .post("/nodes/{node}/qemu/{vmid}/template")
            .proxied()
            .allow(all(VM, &["VM.Allocate"]))
            .with([p("disk", disk())]),
        table
            .get("/nodes/{node}/qemu/{vmid}/feature")
            .proxied()
            .allow(all(VM, &["VM.Audit"]))
            .with([
                p("feature", one_of(["snapshot", "clone", "copy"]).required()),
                p("snapname", snapshot()),
            ]),
        table
            .put("/nodes/{node}/qemu/{vmid}/sendkey")
            .proxied()
            .allow(all(VM, &["VM.Console"]))
            .with([p("key", text().required()), skip_lock()]),
    ]
}

fn config(table: Table) -> Vec<Endpoint> {
    let change = || {
        [
            skip_lock(),
            p("delete", each(CONFIG_ID)),
            p("digest", vm_digest()),
            p("force", flag().requires("delete")),
            p("revert", each(CONFIG_ID)),
        ]
    };
    vec![
        table
            .get(CONFIG)
            .proxied()
            .allow(all(VM, &["VM.Audit"]))
            .with([p("current", flag()), p("snapshot", snapshot())]),
        table
            .post(CONFIG)
            .proxied()
            .allow(any(VM, CHANGE))
            .with(options(table.0))
            .with(change())
            .with([
                p("background_delay", integer().min(1).max(30)),
                p("import-working-storage", formatted(STORAGE_ID)),
            ]),
        table.put(CONFIG).proxied().allow(any(VM, CHANGE)).with(options(table.0)).with(change()),
        table.get("/nodes/{node}/qemu/{vmid}/pending").proxied().allow(all(VM, &["VM.Audit"])),
        table.get(CLOUD_INIT).proxied().allow(all(VM, &["VM.Audit"])),
        table.put(CLOUD_INIT).proxied().allow(all(VM, &["VM.Config.Cloudinit"])),
        table
            .get("/nodes/{node}/qemu/{vmid}/cloudinit/dump")
            .proxied()
            .allow(all(VM, &["VM.Audit"]))
            .with([p("type", one_of(["user", "network", "meta"]).required())]),
    ]
}

fn disks(table: Table) -> Vec<Endpoint> {
    let change = |endpoint: Endpoint| endpoint.proxied().allow(all(VM, &["VM.Config.Disk"]));
    vec![
        change(table.put("/nodes/{node}/qemu/{vmid}/resize")).with([
            p("disk", disk().required()),
            p("size", pattern(r"\+?\d+(\.\d+)?[KMGT]?").required()),
            p("digest", vm_digest()),
            skip_lock(),
        ]),
        change(table.post("/nodes/{node}/qemu/{vmid}/move_disk")).with([
            p("disk", disk_or_unused().required()),
            bandwidth_limit(),
            p("delete", flag()),
            p("digest", vm_digest()),
            p("format", image_format()),
            p("storage", formatted(STORAGE_ID)),
            p("target-digest", vm_digest()),
            p("target-disk", disk_or_unused()),
            p("target-vmid", vmid()),
        ]),
        change(table.put("/nodes/{node}/qemu/{vmid}/unlink"))
            .with([p("idlist", each(CONFIG_ID).required()), p("force", flag())]),
    ]
}

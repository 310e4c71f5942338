//! Endpoints of storages on a host and their volumes.

use super::super::endpoint::{Endpoint, Permission, Table, all, any, vmid};
use super::super::property::{
    TableEntry, each, flag, formatted, integer, one_of, p, pattern, text,
};
use super::super::value_format::{CONTENT, NODE, STORAGE_ID};
use super::node::access_network;

const CONTENTS: &str = "/nodes/{node}/storage/{storage}/content";
const VOLUME: &str = "/nodes/{node}/storage/{storage}/content/{volume}";
const STORAGE: &str = "/storage/{storage}";

pub(super) fn endpoints(table: Table) -> Vec<Endpoint> {
    let look = || any(STORAGE, &["Datastore.Audit", "Datastore.AllocateSpace"]);
    // The parameter `storage` is optional, because the volume id contains the storage.
    let storage = || p("storage", formatted(STORAGE_ID));
    vec![
        table.get("/nodes/{node}/storage").proxied().with([
            p("content", each(CONTENT)),
            p("enabled", flag()),
            p("format", flag()),
            p("storage", formatted(STORAGE_ID)),
            p("target", formatted(NODE)),
        ]),
        table.get("/nodes/{node}/storage/{storage}").allow(look()),
        table.get("/nodes/{node}/storage/{storage}/status").proxied().allow(look()),
        table
            .get(CONTENTS)
            .proxied()
            .allow(look())
            .with([p("content", formatted(CONTENT)), p("vmid", vmid())]),
        table.post(CONTENTS).proxied().allow(all(STORAGE, &["Datastore.AllocateSpace"])).with([
            p("filename", text().required()),
            p("size", pattern(r"\d+[MG]?").required()),
            p("vmid", vmid().required()),
            p("format", one_of(["raw", "qcow2", "subvol", "vmdk"]).requires("size")),
        ]),
        table.get(VOLUME).proxied().with([storage()]),
        table.put(VOLUME).proxied().with([storage(), p("notes", text()), p("protected", flag())]),
        table.delete(VOLUME).proxied().with([storage(), p("delay", integer().min(1).max(30))]),
        table.post(VOLUME).proxied().allow(Permission::Root).with([
            storage(),
            p("target", text().required()),
            p("target_node", formatted(NODE)),
        ]),
        table
            .post("/nodes/{node}/storage/{storage}/upload")
            .allow(all(STORAGE, &["Datastore.AllocateTemplate"]))
            .with(new_file())
            .with([p("tmpfilename", pattern("/var/tmp/pveupload-[0-9a-f]+"))]),
        table
            .post("/nodes/{node}/storage/{storage}/download-url")
            .proxied()
            .allow(Permission::And(vec![
                all(STORAGE, &["Datastore.AllocateTemplate"]),
                access_network(),
            ]))
            .with(new_file())
            .with([
                p("url", pattern("https?://.*").required()),
                // Proxmox accepts any text here. For an unknown compression, the task fails.
                p("compression", text()),
                p("verify-certificates", flag()),
            ]),
    ]
}

fn new_file() -> [TableEntry; 4] {
    let algorithms = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];
    [
        p("content", one_of(["iso", "vztmpl", "import"]).checked(CONTENT).required()),
        p("filename", text().longest(255).required()),
        p("checksum", text().requires("checksum-algorithm")),
        p("checksum-algorithm", one_of(algorithms).requires("checksum")),
    ]
}

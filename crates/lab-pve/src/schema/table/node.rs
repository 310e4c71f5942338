//! Endpoints of hosts and their tasks.

use super::super::endpoint::{Endpoint, Permission, Table, all, any, vmid};
use super::super::property::{Property, each, flag, integer, one_of, p, pattern, text};
use super::super::value_format::{ANY, TASK_STATUS};
use crate::Release;

const TASK: &str = "/nodes/{node}/tasks/{upid}";

pub(super) fn endpoints(table: Table) -> Vec<Endpoint> {
    let audit = || all("/nodes/{node}", &["Sys.Audit"]);
    let arch = || p("arch", one_of(["x86_64", "aarch64"]).since(Release::V9));
    let mut endpoints = vec![
        table.get("/nodes"),
        table.get("/nodes/{node}"),
        table.get("/nodes/{node}/capabilities/qemu").proxied_since(Release::V9),
        table.get("/nodes/{node}/capabilities/qemu/cpu").with([arch()]),
        table.get("/nodes/{node}/capabilities/qemu/machines").proxied().with([arch()]),
        table.get("/nodes/{node}/dns").proxied().allow(audit()),
        table.get("/nodes/{node}/hardware"),
        table
            .get("/nodes/{node}/hardware/pci")
            .proxied()
            .allow(any("/", &["Sys.Audit", "Sys.Modify"]))
            .with([p("pci-class-blacklist", each(ANY)), p("verbose", flag())]),
        table.get("/nodes/{node}/hardware/pci/{pci-id-or-mapping}"),
        table.get("/nodes/{node}/network").proxied().with([p("type", interface_type(table.0))]),
        table.get("/nodes/{node}/network/{iface}").proxied().allow(audit()),
        table
            .get("/nodes/{node}/query-url-metadata")
            .proxied()
            .allow(access_network())
            .with([p("url", pattern("https?://.*").required()), p("verify-certificates", flag())]),
        table.get("/nodes/{node}/status").proxied().allow(audit()),
        table.get("/nodes/{node}/time").proxied().allow(audit()),
        table.get("/nodes/{node}/version").proxied(),
    ];
    endpoints.extend(tasks(table));
    endpoints
}

/// Permission to make a host fetch a URL.
pub(super) fn access_network() -> Permission {
    Permission::Or(vec![
        all("/", &["Sys.Audit", "Sys.Modify"]),
        all("/nodes/{node}", &["Sys.AccessNetwork"]),
    ])
}

fn interface_type(release: Release) -> Property {
    let fabric: &[&str] = if release >= Release::V9 { &["fabric"] } else { &[] };
    let sdn: &[&str] = if release >= Release::V9 { &["include_sdn"] } else { &[] };
    let types = [
        &["bridge", "bond", "eth", "alias", "vlan"],
        fabric,
        &[
            "OVSBridge",
            "OVSBond",
            "OVSPort",
            "OVSIntPort",
            "vnet",
            "any_bridge",
            "any_local_bridge",
        ],
        sdn,
    ];
    one_of(types.concat())
}

fn tasks(table: Table) -> Vec<Endpoint> {
    let page = || [p("limit", integer().min(0)), p("start", integer().min(0))];
    vec![
        table.get("/nodes/{node}/tasks").proxied().with(page()).with([
            p("errors", flag()),
            p("since", integer()),
            p("source", one_of(["archive", "active", "all"])),
            p("statusfilter", each(TASK_STATUS)),
            p("typefilter", text()),
            p("until", integer()),
            p("userfilter", text()),
            p("vmid", vmid()),
        ]),
        table.get(TASK),
        table.delete(TASK).proxied(),
        table.get("/nodes/{node}/tasks/{upid}/status").proxied(),
        table
            .get("/nodes/{node}/tasks/{upid}/log")
            .proxied()
            .with(page())
            .with([p("download", flag())]),
    ]
}

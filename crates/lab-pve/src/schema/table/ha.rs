//! Endpoints of high availability. Proxmox VE 9 uses rules instead of groups, but its API still contains the endpoints of both.

use super::super::endpoint::{Endpoint, Permission, Table, all};
use super::super::property::{
    Property, TableEntry, each, flag, formatted, integer, one_of, p, text,
};
use super::super::value_format::{
    CONFIG_ID, HA_GROUP_NODE, HA_NODE, HA_RESOURCE, HA_RESOURCE_OR_VMID, NODE,
};
use super::digest;
use crate::Release;

const GROUPS: &str = "/cluster/ha/groups";
const GROUP: &str = "/cluster/ha/groups/{group}";
const RESOURCES: &str = "/cluster/ha/resources";
const RESOURCE: &str = "/cluster/ha/resources/{sid}";
const RULES: &str = "/cluster/ha/rules";
const RULE: &str = "/cluster/ha/rules/{rule}";

pub(super) fn endpoints(table: Table) -> Vec<Endpoint> {
    let mut endpoints = vec![
        table.get("/cluster/ha").allow(read()),
        table.get("/cluster/ha/status"),
        table.get("/cluster/ha/status/current").allow(read()),
    ];
    endpoints.extend(groups(table));
    endpoints.extend(resources(table));
    if table.0 >= Release::V9 {
        endpoints.extend(rules(table));
    }
    endpoints
}

fn read() -> Permission {
    all("/", &["Sys.Audit"])
}

fn write() -> Permission {
    all("/", &["Sys.Console"])
}

fn comment() -> TableEntry {
    p("comment", text().longest(4096))
}

fn delete() -> TableEntry {
    p("delete", each(CONFIG_ID).longest(4096))
}

fn groups(table: Table) -> Vec<Endpoint> {
    let nodes = || match table.0 {
        Release::V8 => each(HA_GROUP_NODE),
        Release::V9 => each(HA_NODE),
    };
    let options = || [comment(), p("nofailback", flag()), p("restricted", flag())];
    vec![
        table.get(GROUPS).allow(read()),
        table.post(GROUPS).allow(write()).with(options()).with([
            p("group", formatted(CONFIG_ID).required()),
            p("nodes", nodes().required()),
            p("type", one_of(["group"])),
        ]),
        table.get(GROUP).allow(read()),
        table.put(GROUP).allow(write()).with(options()).with([
            delete(),
            p("digest", digest()),
            p("nodes", nodes()),
        ]),
        table.delete(GROUP).allow(write()),
    ]
}

fn resources(table: Table) -> Vec<Endpoint> {
    let types = || one_of(["ct", "vm"]);
    let options = || {
        [
            comment(),
            p("failback", flag().since(Release::V9)),
            p("group", formatted(CONFIG_ID)),
            p("max_relocate", integer().min(0)),
            p("max_restart", integer().min(0)),
            p("state", one_of(["started", "stopped", "enabled", "disabled", "ignored"])),
        ]
    };
    let target = || [p("node", formatted(NODE).required())];
    vec![
        table.get(RESOURCES).allow(read()).with([p("type", types())]),
        table
            .post(RESOURCES)
            .allow(write())
            .with(options())
            .with([p("sid", formatted(HA_RESOURCE_OR_VMID).required()), p("type", types())]),
        table.get(RESOURCE).allow(read()),
        table.put(RESOURCE).allow(write()).with(options()).with([delete(), p("digest", digest())]),
        table.delete(RESOURCE).allow(write()).with([p("purge", flag().since(Release::V9))]),
        table.post("/cluster/ha/resources/{sid}/migrate").allow(write()).with(target()),
        table.post("/cluster/ha/resources/{sid}/relocate").allow(write()).with(target()),
    ]
}

fn rules(table: Table) -> Vec<Endpoint> {
    let types = || -> Property { one_of(["node-affinity", "resource-affinity"]) };
    let options = || {
        [
            comment(),
            p("affinity", one_of(["positive", "negative"])),
            p("disable", flag()),
            p("nodes", each(HA_NODE)),
            p("strict", flag()),
            p("type", types().required()),
        ]
    };
    vec![
        table.get(RULES).allow(read()).with([p("resource", text()), p("type", types())]),
        table.post(RULES).allow(write()).with(options()).with([
            p("rule", formatted(CONFIG_ID).required()),
            p("resources", each(HA_RESOURCE).required()),
        ]),
        table.get(RULE).allow(read()),
        table.put(RULE).allow(write()).with(options()).with([
            delete(),
            p("digest", digest()),
            p("resources", each(HA_RESOURCE)),
        ]),
        table.delete(RULE).allow(write()),
    ]
}

//! Endpoints of the cluster: version, options, resources, SDN and mappings.

use super::super::endpoint::{Endpoint, Permission, Table, all, vmid};
use super::super::formats::{FormatName, shared};
use super::super::property::{
    TableEntry, each, flag, formatted, integer, list, one_of, p, pattern,
};
use super::super::property::{properties, text};
use super::super::value_format::{CONFIG_ID, EMAIL, MAC_PREFIX, NODE};
use super::super::vm::keyboard;
use super::digest;
use crate::Release;

const MAPPINGS: &str = "/cluster/mapping/pci";
const MAPPING: &str = "/cluster/mapping/pci/{id}";

pub(super) fn endpoints(table: Table) -> Vec<Endpoint> {
    let mut endpoints = vec![
        table.get("/version"),
        table.get("/cluster"),
        table.get("/cluster/nextid").with([p("vmid", vmid())]),
        table.get("/cluster/options"),
        table.put("/cluster/options").allow(all("/", &["Sys.Modify"])).with(options(table.0)),
        table.get("/cluster/resources").with([p("type", one_of(["vm", "storage", "node", "sdn"]))]),
        table.get("/cluster/sdn/vnets").with(config_views()),
        table.get("/cluster/sdn/zones").with(
            config_views()
                .into_iter()
                .chain([p("type", one_of(["evpn", "faucet", "qinq", "simple", "vlan", "vxlan"]))]),
        ),
        table.get("/cluster/status").allow(all("/", &["Sys.Audit"])),
        table.get("/cluster/tasks"),
    ];
    endpoints.extend(mappings(table));
    endpoints
}

/// Parameters that select the pending or the running SDN config. The lab has only one SDN config, which is always applied.
fn config_views() -> [TableEntry; 2] {
    [p("pending", flag()), p("running", flag())]
}

fn options(release: Release) -> [TableEntry; 24] {
    let format = |name| properties(shared(release, name));
    let languages = [
        "ar", "ca", "da", "de", "en", "es", "eu", "fa", "fr", "hr", "he", "it", "ja", "ka", "kr",
        "nb", "nl", "nn", "pl", "pt_BR", "ru", "sl", "sv", "tr", "ukr", "zh_CN", "zh_TW",
    ];
    let tags = r"(?:(?i:[a-z0-9_][a-z0-9_\-\+\.]*);)*(?i:[a-z0-9_][a-z0-9_\-\+\.]*)";
    [
        p("bwlimit", format(FormatName::BandwidthLimit)),
        p("consent-text", text().longest(65536)),
        p("console", one_of(["applet", "vv", "html5", "xtermjs"])),
        p("crs", format(FormatName::Crs)),
        p("delete", each(CONFIG_ID)),
        p("description", text().longest(65536)),
        p("email_from", text().checked_unless_empty(EMAIL)),
        p("fencing", one_of(["watchdog", "hardware", "both"])),
        p("ha", format(FormatName::Ha)),
        p("http_proxy", pattern("http://.*")),
        p("keyboard", keyboard()),
        p("language", one_of(languages)),
        p("mac_prefix", formatted(MAC_PREFIX)),
        p("max_workers", integer().min(1)),
        p("migration", format(FormatName::Migration)),
        p("migration_unsecure", flag()),
        p("next-id", format(FormatName::NextId)),
        p("notify", format(FormatName::Notify)),
        p("registered-tags", pattern(tags)),
        p("replication", format(FormatName::Migration).since(Release::V9)),
        p("tag-style", format(FormatName::TagStyle)),
        p("u2f", format(FormatName::U2f)),
        p("user-tag-access", format(FormatName::UserTagAccess)),
        p("webauthn", format(FormatName::WebAuthn)),
    ]
}

fn mappings(table: Table) -> Vec<Endpoint> {
    let map = || list(properties(shared(table.0, FormatName::PciMap)));
    let options = || {
        [
            p("description", text().longest(4096)),
            p("live-migration-capable", flag()),
            p("mdev", flag()),
        ]
    };
    vec![
        table.get("/cluster/mapping"),
        table.get(MAPPINGS).with([p("check-node", formatted(NODE))]),
        table
            .post(MAPPINGS)
            .allow(all("/mapping/pci", &["Mapping.Modify"]))
            .with(options())
            .with([p("id", formatted(CONFIG_ID).required()), p("map", map().required())]),
        table.get(MAPPING).allow(Permission::Or(vec![
            all("/mapping/pci/{id}", &["Mapping.Use"]),
            all("/mapping/pci/{id}", &["Mapping.Modify"]),
            all("/mapping/pci/{id}", &["Mapping.Audit"]),
        ])),
        table
            .put(MAPPING)
            .allow(all("/mapping/pci/{id}", &["Mapping.Modify"]))
            .with(options())
            .with([
                p("delete", each(CONFIG_ID).longest(4096)),
                p("digest", digest()),
                p("map", map()),
            ]),
        table.delete(MAPPING).allow(all("/mapping/pci", &["Mapping.Modify"])),
    ]
}

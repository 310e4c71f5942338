//! Endpoints of storage configs.

use super::super::endpoint::{Endpoint, Table, all};
use super::super::formats::{FormatName, shared};
use super::super::property::{
    Property, TableEntry, each, flag, formatted, integer, one_of, p, pattern,
};
use super::super::property::{properties, text};
use super::super::value_format::{
    CONFIG_ID, CONTENT, FOLDER_OVERRIDE, NODE, STORAGE_ID, STORAGE_OPTIONS,
};
use super::super::value_format::{
    STORAGE_PATH, STORAGE_PORTAL, STORAGE_SERVER, VOLUME_GROUP, VOLUME_ID,
};
use super::digest;
use crate::Release;

const STORAGES: &str = "/storage";
const STORAGE: &str = "/storage/{storage}";

pub(super) fn endpoints(table: Table) -> Vec<Endpoint> {
    let manage = |endpoint: Endpoint| endpoint.allow(all("/storage", &["Datastore.Allocate"]));
    vec![
        table.get(STORAGES).with([p("type", types(table.0))]),
        manage(table.post(STORAGES)).with(options(table.0)).with(fixed_options()).with([
            p("storage", formatted(STORAGE_ID).required()),
            p("type", types(table.0).required()),
        ]),
        table.get(STORAGE).allow(all(STORAGE, &["Datastore.Allocate"])),
        manage(table.put(STORAGE))
            .with(options(table.0))
            .with([p("delete", each(CONFIG_ID).longest(4096)), p("digest", digest())]),
        manage(table.delete(STORAGE)),
    ]
}

fn types(release: Release) -> Property {
    let gluster: &[&str] = if release < Release::V9 { &["glusterfs"] } else { &[] };
    let types = [
        &["btrfs", "cephfs", "cifs", "dir", "esxi"],
        gluster,
        &["iscsi", "iscsidirect", "lvm", "lvmthin", "nfs", "pbs", "rbd", "zfs", "zfspool"],
    ];
    one_of(types.concat())
}

/// Options that can be set only at creation.
fn fixed_options() -> [TableEntry; 12] {
    [
        p("authsupported", text()),
        p("base", formatted(VOLUME_ID)),
        p("datastore", text()),
        p("export", formatted(STORAGE_PATH)),
        p("iscsiprovider", text()),
        p("path", formatted(STORAGE_PATH)),
        p("portal", formatted(STORAGE_PORTAL)),
        p("share", text()),
        p("target", text()),
        p("thinpool", formatted(VOLUME_GROUP)),
        p("vgname", formatted(VOLUME_GROUP)),
        p("volume", text().until(Release::V8)),
    ]
}

fn options(release: Release) -> impl Iterator<Item = TableEntry> {
    let format = |name| properties(shared(release, name));
    let image_formats = one_of(["raw", "qcow2", "subvol", "vmdk"]);
    let everywhere = [
        p("bwlimit", format(FormatName::BandwidthLimit)),
        p("content", each(CONTENT)),
        p("content-dirs", each(FOLDER_OVERRIDE)),
        p("create-base-path", flag()),
        p("create-subdirs", flag()),
        p("disable", flag()),
        p("format", image_formats),
        p("is_mountpoint", text()),
        p("max-protected-backups", integer().min(-1)),
        p("maxfiles", integer().min(0).until(Release::V8)),
        p("mkdir", flag()),
        p("nodes", each(NODE)),
        p("options", formatted(STORAGE_OPTIONS)),
        p("preallocation", one_of(["off", "metadata", "falloc", "full"])),
        p("prune-backups", format(FormatName::PruneBackups)),
        p("shared", flag()),
        p("snapshot-as-volume-chain", flag().since(Release::V9)),
    ];
    everywhere.into_iter().chain(block_options()).chain(network_options())
}

fn block_options() -> [TableEntry; 15] {
    let steps = integer().one_of(["1", "2", "4", "8", "16", "32"]);
    [
        p("blocksize", text()),
        p("comstar_hg", text()),
        p("comstar_tg", text()),
        p("data-pool", text()),
        p("krbd", flag()),
        p("lio_tpg", text()),
        p("mountpoint", formatted(STORAGE_PATH)),
        p("nocow", flag()),
        p("nowritecache", flag()),
        p("pool", text()),
        p("saferemove", flag()),
        p("saferemove-stepsize", steps.since(Release::V9)),
        p("saferemove_throughput", text()),
        p("sparse", flag()),
        p("tagged_only", flag()),
    ]
}

fn network_options() -> [TableEntry; 19] {
    let smb_versions = ["default", "2.0", "2.1", "3", "3.0", "3.11"];
    [
        p("domain", text().longest(256)),
        p("encryption-key", text()),
        p("fingerprint", pattern("([A-Fa-f0-9]{2}:){31}[A-Fa-f0-9]{2}")),
        p("fs-name", formatted(CONFIG_ID)),
        p("fuse", flag()),
        p("keyring", text()),
        p("master-pubkey", text()),
        p("monhost", each(STORAGE_PORTAL)),
        p("namespace", text()),
        p("password", text().longest(256)),
        p("port", integer().min(1).max(65535)),
        p("server", formatted(STORAGE_SERVER)),
        p("server2", formatted(STORAGE_SERVER).requires("server").until(Release::V8)),
        p("skip-cert-verification", flag()),
        p("smbversion", one_of(smb_versions)),
        p("subdir", formatted(STORAGE_PATH)),
        p("transport", one_of(["tcp", "rdma", "unix"]).until(Release::V8)),
        p("username", text()),
        p("zfs-base-path", formatted(STORAGE_PATH)),
    ]
}

//! Formats of disks and CD drives.

use super::super::format::Format;
use super::super::property::{TableEntry, flag, formatted, integer, number, one_of, p, pattern};
use super::super::value_format::{
    DISK_SIZE, DRIVE_FILE, URL_ENCODED, VOLUME_ID, VOLUME_ID_OR_PATH,
};
use super::{FormatName, Makers};
use crate::Release;

pub(super) const FORMATS: Makers = &[
    (FormatName::Ide, |release| throttled(release, ide().chain([import_from()]))),
    (FormatName::Cdrom, |release| throttled(release, ide()).named("pve-qm-ide")),
    (FormatName::Sata, |release| throttled(release, sata())),
    (FormatName::Scsi, |release| throttled(release, scsi())),
    (FormatName::Virtio, |release| throttled(release, virtio())),
    (FormatName::EfiDisk, |release| drive(release, efi_disk())),
    (FormatName::TpmState, |release| drive(release, tpm_state())),
    (FormatName::Unused, |release| {
        drive(release, [p("file", formatted(VOLUME_ID).default_key().required())])
    }),
];

const IMAGE_FORMATS: [&str; 6] = ["raw", "qcow", "qed", "qcow2", "vmdk", "cloop"];

fn drive(release: Release, entries: impl IntoIterator<Item = TableEntry>) -> Format {
    Format::new(release, entries).alias("volume", "file")
}

fn file() -> TableEntry {
    p("file", formatted(DRIVE_FILE).default_key().required())
}

fn import_from() -> TableEntry {
    p("import-from", formatted(VOLUME_ID_OR_PATH))
}

fn size() -> TableEntry {
    p("size", formatted(DISK_SIZE))
}

fn wwn() -> TableEntry {
    p("wwn", pattern("(?:^(0x)[0-9a-fA-F]{16})"))
}

/// Keys that drives of all four buses have.
fn common() -> impl Iterator<Item = TableEntry> {
    let geometry = || integer().until(Release::V8);
    [
        file(),
        size(),
        p("aio", one_of(["native", "threads", "io_uring"])),
        p("backup", flag()),
        p("cache", one_of(["none", "writethrough", "writeback", "unsafe", "directsync"])),
        p("cyls", geometry()),
        p("detect_zeroes", flag()),
        p("discard", one_of(["ignore", "on"])),
        p("format", one_of(IMAGE_FORMATS)),
        p("heads", geometry()),
        p("media", one_of(["cdrom", "disk"])),
        p("replicate", flag()),
        p("rerror", one_of(["ignore", "report", "stop"])),
        p("secs", geometry()),
        p("serial", formatted(URL_ENCODED).longest(60)),
        p("shared", flag()),
        p("snapshot", flag()),
        p("trans", one_of(["none", "lba", "auto"]).until(Release::V8)),
        p("werror", one_of(["enospc", "ignore", "report", "stop"])),
    ]
    .into_iter()
}

fn ide() -> impl Iterator<Item = TableEntry> {
    common().chain([p("model", formatted(URL_ENCODED).longest(120)), p("ssd", flag()), wwn()])
}

fn sata() -> impl Iterator<Item = TableEntry> {
    common().chain([import_from(), p("ssd", flag()), wwn()])
}

fn scsi() -> impl Iterator<Item = TableEntry> {
    common().chain([
        import_from(),
        p("iothread", flag()),
        p("product", pattern(r"[A-Za-z0-9\-_\s]{0,16}")),
        p("queues", integer().min(2)),
        p("ro", flag()),
        p("scsiblock", flag()),
        p("ssd", flag()),
        p("vendor", pattern(r"[A-Za-z0-9\-_\s]{0,8}")),
        wwn(),
    ])
}

fn virtio() -> impl Iterator<Item = TableEntry> {
    common().chain([import_from(), p("iothread", flag()), p("ro", flag())])
}

fn efi_disk() -> [TableEntry; 7] {
    [
        file(),
        size(),
        import_from(),
        p("efitype", one_of(["2m", "4m"])),
        p("format", one_of(IMAGE_FORMATS)),
        p("ms-cert", one_of(["2011", "2023", "2023w", "2023k"])),
        p("pre-enrolled-keys", flag()),
    ]
}

fn tpm_state() -> [TableEntry; 5] {
    [
        file(),
        size(),
        import_from(),
        p("format", one_of(["raw", "qcow2", "vmdk"]).since(Release::V9)),
        p("version", one_of(["v1.2", "v2.0"])),
    ]
}

/// Drive format with keys for throttling: limits of bytes and operations per second, for reads, for writes and for both. Each
/// limit has a sustained value and a burst value.
fn throttled(release: Release, entries: impl Iterator<Item = TableEntry>) -> Format {
    let length = || integer().min(1);
    let limits = [
        p("bps", integer()),
        p("bps_rd", integer()),
        p("bps_wr", integer()),
        p("bps_max_length", length()),
        p("bps_rd_max_length", length()),
        p("bps_wr_max_length", length()),
        p("iops", integer()),
        p("iops_rd", integer()),
        p("iops_wr", integer()),
        p("iops_max", integer()),
        p("iops_rd_max", integer()),
        p("iops_wr_max", integer()),
        p("iops_max_length", length()),
        p("iops_rd_max_length", length()),
        p("iops_wr_max_length", length()),
        p("mbps", number()),
        p("mbps_rd", number()),
        p("mbps_wr", number()),
        p("mbps_max", number()),
        p("mbps_rd_max", number()),
        p("mbps_wr_max", number()),
    ];
    drive(release, entries.chain(limits))
        .alias("bps_rd_length", "bps_rd_max_length")
        .alias("bps_wr_length", "bps_wr_max_length")
        .alias("iops_rd_length", "iops_rd_max_length")
        .alias("iops_wr_length", "iops_wr_max_length")
}

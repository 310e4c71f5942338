//! Formats of VM options other than devices.

use super::super::format::Format;
use super::super::property::{each, flag, formatted, integer, number, one_of, p, pattern};
use super::super::value_format::{BOOT_DEVICE, VOLUME_ID};
use super::{FormatName, Makers, cpu};
use crate::Release;

pub(super) const FORMATS: Makers = &[
    (FormatName::Agent, agent),
    (FormatName::Boot, boot),
    (FormatName::CiCustom, ci_custom),
    (FormatName::Cpu, cpu::cpu),
    (FormatName::Machine, machine),
    (FormatName::Memory, memory),
    (FormatName::Meta, meta),
    (FormatName::Numa, numa),
    (FormatName::Sev, sev),
    (FormatName::Smbios1, smbios1),
    (FormatName::Spice, spice),
    (FormatName::Tdx, tdx),
];

fn agent(release: Release) -> Format {
    let format = Format::new(
        release,
        [
            p("enabled", flag().default_key().required()),
            p("freeze-fs", flag().since(Release::V9)),
            p("freeze-fs-on-backup", flag().until(Release::V8)),
            p("fstrim_cloned_disks", flag()),
            p("type", one_of(["virtio", "isa"])),
        ],
    );
    match release {
        Release::V8 => format,
        Release::V9 => {
            format.alias("freeze-fs-on-backup", "freeze-fs").alias("guest-fsfreeze", "freeze-fs")
        }
    }
}

fn boot(release: Release) -> Format {
    Format::new(
        release,
        [p("legacy", pattern("[acdn]{1,4}").default_key()), p("order", each(BOOT_DEVICE))],
    )
    .named("pve-qm-boot")
}

fn ci_custom(release: Release) -> Format {
    let snippets = ["meta", "network", "user", "vendor"];
    Format::new(release, snippets.map(|name| p(name, formatted(VOLUME_ID))))
        .named("pve-qm-cicustom")
}

fn machine(release: Release) -> Format {
    Format::new(
        release,
        [
            p(
                "type",
                pattern(concat!(
                    r"(pc|pc(-i440fx)?-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|q35|",
                    r"pc-q35-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|virt(?:-\d+(\.\d+)+)?(\+pve\d+)?)"
                ))
                .longest(40)
                .default_key(),
            ),
            p("aw-bits", number().min(32).max(64).since(Release::V9)),
            p("enable-s3", flag()),
            p("enable-s4", flag()),
            p("viommu", one_of(["intel", "virtio"])),
        ],
    )
}

fn memory(release: Release) -> Format {
    Format::new(release, [p("current", integer().min(16).default_key().required())])
}

/// Option that Proxmox writes at creation, for information. No operation reads it.
fn meta(release: Release) -> Format {
    Format::new(
        release,
        [p("creation-qemu", pattern(r"\d+(\.\d+)+")), p("ctime", integer().min(0))],
    )
}

fn numa(release: Release) -> Format {
    let ranges = || pattern(r"(?:\d+(?:-\d+)?(?:;\d+(?:-\d+)?)*)");
    Format::new(
        release,
        [
            p("cpus", ranges().required()),
            p("hostnodes", ranges()),
            p("memory", number()),
            p("policy", one_of(["preferred", "bind", "interleave"])),
        ],
    )
}

fn sev(release: Release) -> Format {
    Format::new(
        release,
        [
            p("type", one_of(["std", "es", "snp"]).longest(3).default_key().required()),
            p("allow-smt", flag()),
            p("kernel-hashes", flag()),
            p("no-debug", flag()),
            p("no-key-sharing", flag()),
        ],
    )
    .named("pve-qemu-sev-fmt")
}

fn tdx(release: Release) -> Format {
    Format::new(
        release,
        [
            p("type", one_of(["tdx"]).default_key().required()),
            p("attestation", flag().required()),
            p("vsock-cid", integer().min(2)),
            p("vsock-port", integer().min(0)),
        ],
    )
    .named("pve-qemu-tdx-fmt")
}

fn smbios1(release: Release) -> Format {
    let words = ["family", "manufacturer", "product", "serial", "sku", "version"];
    let words = words.map(|name| p(name, pattern(r"[A-Za-z0-9+\/]+={0,2}")));
    let uuid = pattern("[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}");
    Format::new(release, words.into_iter().chain([p("base64", flag()), p("uuid", uuid)]))
        .named("pve-qm-smbios1")
}

fn spice(release: Release) -> Format {
    let streaming = one_of(["off", "all", "filter"]);
    Format::new(release, [p("foldersharing", flag()), p("videostreaming", streaming)])
}

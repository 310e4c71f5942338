//! Formats of devices other than disks.

use super::super::format::Format;
use super::super::property::{flag, formatted, integer, number, one_of, p, pattern, text};
use super::super::value_format::{
    BRIDGE_ID, CONFIG_ID, IPV4, IPV4_CONFIG, IPV6, IPV6_CONFIG, MAC, NODE,
};
use super::{FormatName, Makers};
use crate::Release;

pub(super) const FORMATS: Makers = &[
    (FormatName::Audio, audio),
    (FormatName::HostPci, host_pci),
    (FormatName::IpConfig, ip_config),
    (FormatName::Ivshmem, ivshmem),
    (FormatName::Net, net),
    (FormatName::PciMap, pci_map),
    (FormatName::Rng, rng),
    (FormatName::Usb, usb),
    (FormatName::Vga, vga),
    (FormatName::VirtioFs, virtiofs),
    (FormatName::Watchdog, watchdog),
];

const NET_MODELS: [&str; 14] = [
    "e1000",
    "e1000-82540em",
    "e1000-82544gc",
    "e1000-82545em",
    "e1000e",
    "i82551",
    "i82557b",
    "i82559er",
    "ne2k_isa",
    "ne2k_pci",
    "pcnet",
    "rtl8139",
    "virtio",
    "vmxnet3",
];

fn net(release: Release) -> Format {
    let format = Format::new(
        release,
        [
            p("model", one_of(NET_MODELS).default_key().required()),
            p("macaddr", formatted(MAC)),
            p("bridge", formatted(BRIDGE_ID)),
            p("firewall", flag()),
            p("link_down", flag()),
            p("mtu", integer().min(1).max(65520)),
            p("queues", integer().min(0).max(64)),
            p("rate", number().min(0)),
            p("tag", integer().min(1).max(4094)),
            p("trunks", pattern(r"(?:\d+(?:-\d+)?(?:;\d+(?:-\d+)?)*)")),
        ],
    );
    NET_MODELS.into_iter().fold(format, |format, model| format.key_alias(model, "macaddr", "model"))
}

fn ip_config(release: Release) -> Format {
    Format::new(
        release,
        [
            p("ip", formatted(IPV4_CONFIG)),
            p("gw", formatted(IPV4).requires("ip")),
            p("ip6", formatted(IPV6_CONFIG)),
            p("gw6", formatted(IPV6).requires("ip6")),
        ],
    )
    .named("pve-qm-ipconfig")
}

fn host_pci(release: Release) -> Format {
    let id = || pattern("(?:^0x[0-9a-fA-F]{4}$)");
    Format::new(
        release,
        [
            p(
                "host",
                pattern(concat!(
                    r"(?:(?:(?:[a-f0-9]{4,}:)?[a-f0-9]{2}:[a-f0-9]{2}(?:\.[a-f0-9])?)",
                    r"(;(?:(?:[a-f0-9]{4,}:)?[a-f0-9]{2}:[a-f0-9]{2}(?:\.[a-f0-9])?))*)"
                ))
                .default_key(),
            ),
            p("mapping", formatted(CONFIG_ID)),
            p("device-id", id()),
            p("driver", one_of(["vfio", "keep"]).since(Release::V9)),
            p("legacy-igd", flag()),
            p("mdev", pattern(r"[^/\.:]+")),
            p("pcie", flag()),
            p("rombar", flag()),
            p("romfile", pattern("[^,;]+")),
            p("sub-device-id", id()),
            p("sub-vendor-id", id()),
            p("vendor-id", id()),
            p("x-vga", flag()),
        ],
    )
    .named("pve-qm-hostpci")
}

/// One device of a PCI mapping.
fn pci_map(release: Release) -> Format {
    let id = || pattern("(?:^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}$)");
    Format::new(
        release,
        [
            p("node", formatted(NODE).required()),
            p(
                "path",
                pattern(concat!(
                    "(?:[a-f0-9]{4,}:[a-f0-9]{2}:[a-f0-9]{2}(?:.[a-f0-9])?;)*",
                    "[a-f0-9]{4,}:[a-f0-9]{2}:[a-f0-9]{2}(?:.[a-f0-9])?"
                ))
                .required(),
            ),
            p("id", id().required()),
            p("description", text().longest(4096)),
            p("iommugroup", integer()),
            p("subsystem-id", id()),
        ],
    )
}

fn usb(release: Release) -> Format {
    Format::new(
        release,
        [
            p(
                "host",
                pattern(concat!(
                    r"(?:(?:(?:(?:(0x)?([0-9A-Fa-f]{4}):(0x)?([0-9A-Fa-f]{4})))",
                    r"|(?:(?:(\d+)\-(\d+(\.\d+)*)))|[Ss][Pp][Ii][Cc][Ee]))"
                ))
                .default_key(),
            ),
            p("mapping", formatted(CONFIG_ID)),
            p("usb3", flag()),
        ],
    )
}

fn vga(release: Release) -> Format {
    let types = [
        "cirrus",
        "qxl",
        "qxl2",
        "qxl3",
        "qxl4",
        "none",
        "serial0",
        "serial1",
        "serial2",
        "serial3",
        "std",
        "virtio",
        "virtio-gl",
        "vmware",
    ];
    Format::new(
        release,
        [
            p("type", one_of(types).default_key()),
            p("clipboard", one_of(["vnc"])),
            p("memory", integer().min(4).max(512)),
        ],
    )
}

fn audio(release: Release) -> Format {
    Format::new(
        release,
        [
            p("device", one_of(["ich9-intel-hda", "intel-hda", "AC97"]).required()),
            p("driver", one_of(["spice", "none"])),
        ],
    )
}

fn ivshmem(release: Release) -> Format {
    Format::new(
        release,
        [p("size", integer().min(1).required()), p("name", pattern(r"[a-zA-Z0-9\-]+"))],
    )
}

fn rng(release: Release) -> Format {
    let sources = ["/dev/urandom", "/dev/random", "/dev/hwrng"];
    Format::new(
        release,
        [
            p("source", one_of(sources).default_key().required()),
            p("max_bytes", integer()),
            p("period", integer()),
        ],
    )
    .named("pve-qm-rng")
}

fn virtiofs(release: Release) -> Format {
    Format::new(
        release,
        [
            p("dirid", formatted(CONFIG_ID).default_key().required()),
            p("cache", one_of(["auto", "always", "metadata", "never"])),
            p("direct-io", flag()),
            p("expose-acl", flag()),
            p("expose-xattr", flag()),
        ],
    )
}

fn watchdog(release: Release) -> Format {
    let actions = ["reset", "shutdown", "poweroff", "pause", "debug", "none"];
    Format::new(
        release,
        [p("model", one_of(["i6300esb", "ib700"]).default_key()), p("action", one_of(actions))],
    )
    .named("pve-qm-watchdog")
}

//! Checks of the settings of single machines.

use std::collections::HashMap;

use crate::cluster::{Cluster, Node};
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::language::Setting;
use crate::source::Span;
use crate::value::{Bios, Boot, DiskSize, Memory, Os, Role};

const SMALLEST_DISK: DiskSize = DiskSize::from_gib(10);
const SMALLEST_MEMORY: Memory = Memory::from_mib(2048);

pub(super) fn check(cluster: &Cluster, node: &Node, out: &mut Findings) {
    sizes(node, out);
    firmware(node, out);
    boot(cluster, node, out);
    system(cluster, node, out);
    disks(node, out);
    links(node, out);
    taints(node, out);
}

/// Reports addresses of additional network cards and of VLANs without a prefix length, because no other setting
/// contains the prefix length.
fn links(node: &Node, out: &mut Findings) {
    let hardware = &node.settings().hardware;
    let cards = hardware.nics.values().map(|nic| &nic.ip);
    let vlans = hardware.vlans.values().map(|vlan| &vlan.ip);
    for ip in cards.chain(vlans).filter_map(Setting::spanned) {
        if ip.value.prefix_len.is_none() {
            out.push(
                Diagnostic::error(Code::Missing, format!("{} has no prefix length", ip.value))
                    .at(ip.span)
                    .hint(format!(
                        "add the prefix length of its network, such as `{}/24`",
                        ip.value
                    )),
            );
        }
    }
    for vlan in hardware.vlans.iter().filter(|vlan| vlan.value.id.is_absent()) {
        out.push(
            Diagnostic::error(Code::Missing, "the VLAN has no tag")
                .at(vlan.span)
                .hint("add `id: …`"),
        );
    }
}

/// Reports two taints with the same key, because Talos keeps only one effect per key.
fn taints(node: &Node, out: &mut Findings) {
    let mut keys: HashMap<&str, Span> = HashMap::new();
    for taint in node.settings().kubernetes.taints.iter() {
        if let Some(first) = keys.insert(&taint.value.key, taint.span) {
            out.push(
                Diagnostic::error(
                    Code::Duplicate,
                    format!("the taint `{}` is given twice", taint.value.key),
                )
                .at(taint.span)
                .related(first, "first given here")
                .hint("keep one effect per key, as Talos does, and add the other with kubectl"),
            );
        }
    }
}

fn sizes(node: &Node, out: &mut Findings) {
    let hardware = &node.settings().hardware;
    if let Some(disk) = hardware.disk.spanned()
        && disk.value < SMALLEST_DISK
    {
        out.push(
            Diagnostic::error(
                Code::TooSmall,
                format!("a disk of {} is too small for Talos", disk.value),
            )
            .at(disk.span)
            .hint(format!("use at least {SMALLEST_DISK}; a number without a unit is GiB")),
        );
    }
    if let Some(memory) = hardware.memory.spanned()
        && memory.value < SMALLEST_MEMORY
    {
        out.push(
            Diagnostic::error(
                Code::TooSmall,
                format!("{} of memory is too little for Talos", memory.value),
            )
            .at(memory.span)
            .hint(format!("use at least {SMALLEST_MEMORY}; a number without a unit is MiB")),
        );
    }
}

fn firmware(node: &Node, out: &mut Findings) {
    let hardware = &node.settings().hardware;
    if *hardware.secureboot.required() && *hardware.bios.required() != Bios::Ovmf {
        out.push(
            Diagnostic::error(Code::Conflict, "SecureBoot needs UEFI firmware")
                .at(hardware.secureboot.span())
                .related(hardware.bios.span(), "the firmware")
                .hint("use `bios: ovmf`"),
        );
    }
}

fn boot(cluster: &Cluster, node: &Node, out: &mut Findings) {
    let (system, placement) = (&node.settings().system, &node.settings().placement);
    let boot = *system.boot.required();
    match boot {
        Boot::Meta => {
            let network = &cluster.file.network;
            let only_nocloud = [
                (
                    "`image.schematic`",
                    system.image.schematic.spanned().map(|schematic| schematic.span),
                    "omit it: each node gets its own schematic, which holds its address",
                ),
                (
                    "`template`",
                    placement.template.spanned().map(|it| it.span),
                    "omit it: a template cannot hold the address of a node",
                ),
                (
                    "`search`",
                    network.search.span.filter(|_| !network.search.is_empty()),
                    "set the search domains with a patch: META key 0xa cannot hold them",
                ),
            ];
            for (what, span, why) in only_nocloud {
                if let Some(span) = span {
                    out.push(
                        Diagnostic::error(
                            Code::Conflict,
                            format!("{what} cannot be used with `boot: meta`"),
                        )
                        .at(span)
                        .related(system.boot.span(), "the boot setting")
                        .hint(why),
                    );
                }
            }
        }
        Boot::Template => {
            if placement.template.is_absent() {
                out.push(
                    Diagnostic::error(
                        Code::Missing,
                        format!("`{}` has no template", node.name.value),
                    )
                    .at(system.boot.span())
                    .hint(
                        "add `template: talos-vX.Y.Z-base` to the node, its class, its role or `machine:`; `talmox template create` creates one",
                    ),
                );
            }
        }
        Boot::Dhcp => {
            let has_agent = system.image.has_extension("siderolabs/qemu-guest-agent");
            let found = has_agent || node.entry.dhcp.is_given() || node.entry.ip.is_given();
            if !found && node.is_talos() {
                out.push(
                    Diagnostic::warning(
                        Code::NeededLater,
                        format!("`{}` gets its address by DHCP, and talmox cannot find that address", node.name.value),
                    )
                    .at(node.name.span)
                    .hint(
                        "add the extension siderolabs/qemu-guest-agent, or the address of its lease as `dhcp: …`",
                    ),
                );
            }
        }
        Boot::Cloudinit | Boot::Cidata => {}
    }
    if boot != Boot::Cidata && node.is_talos() {
        out.push(
            Diagnostic::warning(
                Code::UnprovenPeer,
                format!("`boot: {boot}` sends machine configs to machines that cannot prove their identity"),
            )
            .at(system.boot.span())
            .hint(
                "use `boot: cidata`, which delivers each config on a volume of the VM: otherwise a machine on the network path can read the keys of the cluster",
            ),
        );
    }
    if let Some(template) = placement.template.spanned()
        && !matches!(boot, Boot::Template | Boot::Meta)
    {
        out.push(
            Diagnostic::warning(
                Code::Questionable,
                format!("`template` has no effect with `boot: {boot}`"),
            )
            .at(template.span)
            .related(system.boot.span(), "the boot setting")
            .hint("set `boot: template` at the top level of the file, or beside `template`, to clone it"),
        );
    }
}

/// Error for a file that is downloaded without TLS and without a checksum, because a machine on the network path could
/// replace it.
pub(super) fn unverified_download(key: &str, what: &str) -> Diagnostic {
    Diagnostic::error(Code::Unverified, format!("{key} uses http, and {what} has no checksum"))
        .hint("use `https://`, or add `checksum:` with the SHA-256 of the file")
}

fn system(cluster: &Cluster, node: &Node, out: &mut Findings) {
    let system = &node.settings().system;
    let image = &system.image;
    if let (Some(schematic), Some(extension)) =
        (image.schematic.spanned(), image.extensions.iter().next())
    {
        out.push(
            Diagnostic::warning(
                Code::Questionable,
                "`extensions` has no effect together with `schematic`",
            )
            .at(extension.span)
            .related(schematic.span, "the schematic")
            .hint("remove one of the two"),
        );
    }
    let (source, key) = match system.os.required() {
        Os::Talos => (image.factory.spanned(), "image.factory"),
        Os::Ubuntu => (image.url.spanned(), "image.url"),
    };
    if let Some(source) = source
        && !source.value.https
        && image.checksum.is_absent()
    {
        out.push(unverified_download(&format!("`{key}`"), "the image").at(source.span));
    }
    match system.os.required() {
        Os::Ubuntu => {
            if image.url.is_absent() {
                out.push(
                    Diagnostic::error(
                        Code::Missing,
                        format!("`{}` runs Ubuntu, but has no image", node.name.value),
                    )
                    .at(system.os.span())
                    .hint("add `image: {url: …}` with a cloud image"),
                );
            }
        }
        Os::Talos => {
            if let Some(cloud_init) = system.cloud_init.span.filter(|_| !system.cloud_init.cleared)
            {
                out.push(
                    Diagnostic::warning(Code::Questionable, "`cloud_init` has no effect: Talos does not run cloud-init")
                        .at(cloud_init)
                        .hint(
                            "remove `cloud_init`, which is for nodes with `os: ubuntu`, and use `patches` for Talos",
                        ),
                );
            }
            let tailscale = &cluster.file.tailscale;
            let has_extension =
                image.schematic.is_given() || image.has_extension("siderolabs/tailscale");
            if let Some(key) = tailscale.auth_key.spanned()
                && !has_extension
            {
                out.push(
                    Diagnostic::warning(
                        Code::Questionable,
                        "`tailscale` is set, but the Tailscale extension is missing",
                    )
                    .at(tailscale.span.unwrap_or(key.span))
                    .hint("add siderolabs/tailscale to `image.extensions`"),
                );
            }
        }
    }
    let small = Memory::from_mib(3946);
    if node.role == Role::ControlPlane
        && node.is_talos()
        && let Some(memory) = node.settings().hardware.memory.spanned()
        && memory.value < small
        && memory.value >= SMALLEST_MEMORY
    {
        out.push(
            Diagnostic::warning(
                Code::Questionable,
                format!("{} of memory is little for a control plane", memory.value),
            )
            .at(memory.span)
            .hint("use at least 4 GiB, as Talos recommends"),
        );
    }
}

fn disks(node: &Node, out: &mut Findings) {
    for disk in node.settings().hardware.disks.iter() {
        if disk.value.size.is_absent() {
            out.push(
                Diagnostic::error(Code::Missing, "the disk has no size")
                    .at(disk.span)
                    .hint("add `size: …`"),
            );
        }
        if let Some(filesystem) = disk.value.filesystem.spanned()
            && disk.value.volume.is_absent()
        {
            out.push(
                Diagnostic::warning(
                    Code::Questionable,
                    "`filesystem` has no effect without `volume`",
                )
                .at(filesystem.span)
                .hint("add `volume: NAME` to mount the disk at /var/mnt/NAME"),
            );
        }
    }
}

//! Single machines.

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

/// Further cards and VLANs have networks of their own, whose size only their address can say.
fn links(node: &Node, out: &mut Findings) {
    let hardware = &node.settings().hardware;
    let cards = hardware.nics.values().map(|nic| &nic.ip);
    let vlans = hardware.vlans.values().map(|vlan| &vlan.ip);
    for ip in cards.chain(vlans).filter_map(Setting::spanned) {
        if ip.value.prefix_len.is_none() {
            out.push(
                Diagnostic::error(Code::Missing, format!("{} has no prefix length", ip.value))
                    .at(ip.span)
                    .hint(format!("write it as `{}/24`, or how large its network is", ip.value)),
            );
        }
    }
    for vlan in hardware.vlans.iter().filter(|vlan| vlan.value.id.is_absent()) {
        out.push(
            Diagnostic::error(Code::Missing, "a VLAN without a tag")
                .at(vlan.span)
                .hint("add `id: …`"),
        );
    }
}

/// Talos keeps taints by their key.
fn taints(node: &Node, out: &mut Findings) {
    let mut keys: HashMap<&str, Span> = HashMap::new();
    for taint in node.settings().kubernetes.taints.iter() {
        if let Some(first) = keys.insert(&taint.value.key, taint.span) {
            out.push(
                Diagnostic::error(Code::Duplicate, format!("two taints `{}`", taint.value.key))
                    .at(taint.span)
                    .related(first, "the first")
                    .hint("Talos takes one effect for each key; add the other with kubectl"),
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
            Diagnostic::error(Code::TooSmall, format!("a disk of {} is too small", disk.value))
                .at(disk.span)
                .hint(format!("{SMALLEST_DISK} are the least; a bare number is GiB")),
        );
    }
    if let Some(memory) = hardware.memory.spanned()
        && memory.value < SMALLEST_MEMORY
    {
        out.push(
            Diagnostic::error(Code::TooSmall, format!("{} of memory are too little", memory.value))
                .at(memory.span)
                .hint(format!("{SMALLEST_MEMORY} are the least; a bare number is MiB")),
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
                    "each node needs a schematic of its own",
                ),
                (
                    "`template`",
                    placement.template.spanned().map(|it| it.span),
                    "a template holds no address",
                ),
                (
                    "`search`",
                    network.search.span.filter(|_| !network.search.is_empty()),
                    "META key 0xa takes no search domains; use a patch",
                ),
            ];
            for (what, span, why) in only_nocloud {
                if let Some(span) = span {
                    out.push(
                        Diagnostic::error(
                            Code::Conflict,
                            format!("{what} does not go with `boot: meta`"),
                        )
                        .at(span)
                        .related(system.boot.span(), "this way of booting")
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
                        format!("`{}` names no template", node.name.value),
                    )
                    .at(system.boot.span())
                    .hint(
                        "add `template: talos-vX.Y.Z-base` to the node, its class, its role or `machine:`; `talmox template create` makes one",
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
                        format!("`{}` cannot be found after it booted", node.name.value),
                    )
                    .at(node.name.span)
                    .hint(
                        "add the extension siderolabs/qemu-guest-agent, or its lease as `dhcp: …`",
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
                "a machine in between can read the keys of the cluster; `boot: cidata` delivers each config on a volume of its VM",
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
            .related(system.boot.span(), "this way of booting")
            .hint("set `boot: template` at the top level of the file, or beside `template`, to clone it"),
        );
    }
}

/// A file that comes over a connection without TLS: anybody on the way can replace it, unless its checksum is known.
pub(super) fn unverified(key: &str, what: &str) -> Diagnostic {
    Diagnostic::error(Code::Unverified, format!("{key} has no TLS, and {what} has no checksum"))
        .hint("use `https://`, or add `checksum:` with the SHA-256 of the file")
}

fn system(cluster: &Cluster, node: &Node, out: &mut Findings) {
    let system = &node.settings().system;
    let image = &system.image;
    if let (Some(schematic), Some(extension)) =
        (image.schematic.spanned(), image.extensions.iter().next())
    {
        out.push(
            Diagnostic::warning(Code::Questionable, "extensions have no effect beside a schematic")
                .at(extension.span)
                .related(schematic.span, "the schematic")
                .hint("keep one of the two"),
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
        out.push(unverified(&format!("`{key}`"), "the image").at(source.span));
    }
    match system.os.required() {
        Os::Ubuntu => {
            if image.url.is_absent() {
                out.push(
                    Diagnostic::error(Code::Missing, format!("`{}` has no image", node.name.value))
                        .at(system.os.span())
                        .hint("add `image: {url: …}` with a cloud image"),
                );
            }
        }
        Os::Talos => {
            if let Some(cloud_init) = system.cloud_init.span.filter(|_| !system.cloud_init.cleared)
            {
                out.push(
                    Diagnostic::warning(Code::Questionable, "Talos does not run cloud-init")
                        .at(cloud_init)
                        .hint(
                            "`cloud_init` is for nodes with `os: ubuntu`; use `patches` for Talos",
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
                        "Tailscale is set up, but its extension is missing",
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
                format!("{} of memory are little for a control plane", memory.value),
            )
            .at(memory.span)
            .hint("Talos recommends 4 GiB"),
        );
    }
}

fn disks(node: &Node, out: &mut Findings) {
    for disk in node.settings().hardware.disks.iter() {
        if disk.value.size.is_absent() {
            out.push(
                Diagnostic::error(Code::Missing, "a disk without a size")
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
                    "a file system without a volume has no effect",
                )
                .at(filesystem.span)
                .hint("add `volume: NAME` to have it mounted at /var/mnt/NAME"),
            );
        }
    }
}

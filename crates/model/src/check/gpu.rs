//! Checks of PCI devices that are passed through.

use crate::cluster::Node;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::inventory::Gpu;
use crate::value::MachineType;

pub(super) fn check(node: &Node, out: &mut Findings) {
    let hardware = &node.settings().hardware;
    let gpu = &hardware.gpu;
    if !node.has_gpu() {
        without_device(gpu, out);
        return;
    }
    if let (Some(pci), Some(mapping)) = (gpu.pci.spanned(), gpu.mapping.spanned()) {
        out.push(
            Diagnostic::error(Code::Gpu, "`gpu` has both a PCI address and a mapping")
                .at(mapping.span)
                .related(pci.span, "the address")
                .hint("keep the mapping: only root can use a PCI address directly"),
        );
    }
    let at = gpu.pci.span().or(gpu.mapping.span());
    if *hardware.machine_type.required() != MachineType::Q35 && *gpu.pcie.required() {
        out.push(
            Diagnostic::error(Code::Gpu, "PCIe passthrough needs the machine type q35")
                .at(hardware.machine_type.span())
                .related(at, "the device")
                .hint("use `machine_type: q35`, or `pcie: false`"),
        );
    }
    if node.settings().placement.host.is_absent() {
        out.push(
            Diagnostic::warning(
                Code::NeededLater,
                format!("`{}` has a PCI device, but no Proxmox host", node.name.value),
            )
            .at(at)
            .hint("add `host: …` to the node"),
        );
    }
}

/// Reports settings of a PCI device if no device is given.
fn without_device(gpu: &Gpu, out: &mut Findings) {
    let Some(span) = gpu.span.filter(|span| !gpu.cleared && !span.is_builtin()) else { return };
    if gpu.pci.is_absent() && gpu.mapping.is_absent() {
        out.push(
            Diagnostic::warning(Code::Gpu, "`gpu` has settings, but no device")
                .at(span)
                .hint("add `pci: ADDRESS` or `mapping: NAME`"),
        );
    }
}

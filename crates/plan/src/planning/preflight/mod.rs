//! Preflight checks. They report problems that would stop a run halfway, before anything is changed. They only use the
//! observed state.

mod address;
mod gpu;
mod host;
mod name;
mod right;
mod source;
mod storage;

use talmox_model::value::Boot;

use super::builder::Builder;
use super::missing_template::{MissingTemplate, missing_templates};
use super::placed::{Placed, VmPresence};
use crate::desired::{Contact, GpuSource};
use crate::plan::{Finding, FindingCode};

pub(super) use address::{in_use as address_in_use, virtual_address};
pub(super) use right::lock_finding;

pub(super) fn check(builder: &mut Builder<'_>) {
    let mut findings = vec![];
    version(builder, &mut findings);
    right::check(builder, &mut findings);
    right::check_lock(builder, &mut findings);
    let new: Vec<&Placed<'_>> =
        builder.places.nodes.iter().filter(|one| matches!(one.state, VmPresence::Absent)).collect();
    for placed in &new {
        node(placed, &mut findings);
        findings.extend(address::reserved(builder, placed.node));
    }
    way_in(builder, &mut findings);
    host::check(builder, &new, &mut findings);
    storage::check(builder, &new, &mut findings);
    gpu::check(builder, &new, &mut findings);
    name::check(builder, &mut findings);
    source::check(builder, &mut findings);
    builder.findings.extend(findings);
}

/// The preflight checks of a plan that only creates templates.
pub(super) fn check_templates(builder: &mut Builder<'_>) {
    let mut findings = vec![];
    let missing = missing_templates(builder.desired, &builder.observed.pve);
    template_version(builder, &missing, &mut findings);
    right::check(builder, &mut findings);
    host::check_templates(builder, &missing, &mut findings);
    storage::check_templates(builder, &missing, &mut findings);
    source::check(builder, &mut findings);
    builder.findings.extend(findings);
    Finding::sort(&mut builder.findings);
}

/// The first Proxmox VE version whose storages accept images for the import of disks.
const IMAGES: (u32, u32) = (8, 4);

/// The oldest Proxmox VE version that is accepted. Versions before 8.4 are not tested.
const OLDEST: (u32, u32) = (8, 0);

/// The version of Proxmox VE, if it cannot import disks from images. None for newer versions.
fn old_version<'a>(builder: &Builder<'a>) -> Option<(&'a str, (u32, u32))> {
    let version = builder.observed.pve.version.as_ref()?;
    let number = (version.major()?, version.minor()?);
    (number < IMAGES).then_some((version.version.as_str(), number))
}

/// Checks the version of Proxmox VE. Versions that cannot import images can still clone templates that were created by hand.
fn version(builder: &Builder<'_>, findings: &mut Vec<Finding>) {
    let Some((version, number)) = old_version(builder) else { return };
    let is_new =
        |one: &&Placed<'_>| matches!(one.state, VmPresence::Absent | VmPresence::BeingMade(_));
    let mut new = builder.places.nodes.iter().filter(is_new).peekable();
    let is_cloning = new.peek().is_some();
    let needs_image = new.any(|one| one.node.image.is_some());
    if number < OLDEST || needs_image {
        let message = format!("Proxmox VE {version} is too old: 8.4 is needed");
        let hint = "upgrade it; from 8.0 on, nodes can be cloned from a template that was created by hand (`machine: {boot: template, template: NAME}`)";
        findings.push(Finding::error(FindingCode::ProxmoxVersion, "proxmox", message).hint(hint));
    } else if is_cloning {
        let message = format!("Proxmox VE {version} is old: it can only clone templates");
        let hint = "upgrade to 8.4: this version is not tested, and `talmox template create` and all other boot ways need 8.4";
        findings.push(Finding::warning(FindingCode::ProxmoxVersion, "proxmox", message).hint(hint));
    }
}

fn template_version(
    builder: &Builder<'_>,
    missing: &[MissingTemplate<'_>],
    findings: &mut Vec<Finding>,
) {
    if let (Some((version, _)), false) = (old_version(builder), missing.is_empty()) {
        let message = format!("Proxmox VE {version} is too old: creating templates needs 8.4");
        let hint = "upgrade it, or create the template by hand";
        findings.push(Finding::error(FindingCode::ProxmoxVersion, "proxmox", message).hint(hint));
    }
}

/// Checks that the Kubernetes API has a known address: the shared address, or the address of a control plane.
fn way_in(builder: &Builder<'_>, findings: &mut Vec<Finding>) {
    let desired = builder.desired;
    let mut planes = desired.control_planes().peekable();
    let is_hidden = planes.peek().is_some() && planes.all(|node| node.contact == Contact::AskAgent);
    // Any other holder of the shared address is installed through the Kubernetes API, so it cannot help to reach this API.
    let has_shared = desired.vip.is_some() && desired.is_vip_by_talos;
    if !has_shared && is_hidden {
        findings.push(
            Finding::error(
                FindingCode::EndpointUnknown,
                &desired.cluster,
                "its Kubernetes API has no known address",
            )
            .hint("add `network: {vip: …}`, or the lease of a control plane as `dhcp: …`"),
        );
    }
}

fn node(placed: &Placed<'_>, findings: &mut Vec<Finding>) {
    let node = placed.node;
    if node.boot != Boot::Dhcp && !node.has_gateway {
        findings.push(
            Finding::error(
                FindingCode::GatewayMissing,
                &node.name,
                "it has a static address and no gateway",
            )
            .hint("add `network: {gateway: …}`"),
        );
    }
    if node.contact == Contact::AskAgent && !node.vm.has_agent {
        findings.push(
            Finding::error(
                FindingCode::AddressUnknown,
                &node.name,
                "its address is unknown: it comes from DHCP, and no guest agent reports it",
            )
            .hint("add `dhcp: …`, or the extension siderolabs/qemu-guest-agent"),
        );
    }
    let Some(gpu) = &node.vm.gpu else { return };
    let is_q35 = node.vm.options.get("machine") == Some("q35");
    if gpu.pcie && !is_q35 {
        findings.push(
            Finding::error(
                FindingCode::MachineType,
                &node.name,
                "a PCIe device needs the machine type q35",
            )
            .hint("set `machine_type: q35`, or `gpu: {pcie: false}`"),
        );
    }
    if let (GpuSource::Address(address), true) = (&gpu.source, gpu.x_vga) {
        let message =
            format!("{address} becomes its only display: its console in Proxmox stays dark");
        findings.push(
            Finding::warning(FindingCode::ConsoleDark, &node.name, message)
                .hint("use the serial console"),
        );
    }
}

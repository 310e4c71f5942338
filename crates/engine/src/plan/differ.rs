//! How VMs differ from what the inventory says by now, and what it would take to change them.

use talmox_pve::config::{Drift, drift};
use talmox_pve::id::DiskSlot;
use talmox_pve::property::{Drive, Net};

use super::change::{Change, Class, FieldChange, Finding, Object};
use super::place::{Found, Placed};
use super::vm::user_data_mark;
use super::{Builder, gpu};
use crate::desired::DesiredNode;

/// Options that hold a secret, wherever it came from.
const HIDDEN: &[&str] = &["cipassword", "sshkeys"];

pub(super) fn vm(builder: &mut Builder<'_>, placed: &Placed<'_>, found: &Found<'_>) {
    let node = placed.node;
    let pve = &builder.world.pve;
    let host = &found.seen.host;
    let hostpci = node.vm.gpu.as_ref().and_then(|gpu| gpu::wanted(gpu, found.config, host, pve));
    let mut fields: Vec<(Class, FieldChange)> =
        drift(&node.vm.wanted(hostpci.as_ref()), found.config)
            .iter()
            .map(|drift| (class(node, drift), field(drift)))
            .collect();
    if node.vm.gpu.is_none()
        && let Some(device) = found.config.get("hostpci0")
    {
        let gone = FieldChange::new("hostpci0", Some(device.to_owned()), None);
        fields.push((with_a_stop(node), gone));
    }
    if let Some(vmid) = node.vmid.filter(|vmid| *vmid != placed.own.vm.vmid) {
        let old = Some(placed.own.vm.vmid.to_string());
        let change = FieldChange::new("vmid", old, Some(vmid.to_string()));
        fields.push((Class::Replace, change));
    }
    if let (Some(wanted), Some(guest)) = (&node.pool, pve.guest(placed.own.vm.vmid))
        && guest.pool.as_ref() != Some(wanted)
    {
        let old = guest.pool.as_ref().map(ToString::to_string);
        fields.push((Class::Live, FieldChange::new("pool", old, Some(wanted.to_string()))));
    }
    let data = user_data_mark(node);
    if data.is_some() && found.marker.data != data {
        let change = FieldChange::new("user-data", found.marker.data.clone(), data);
        fields.push((Class::Replace, change));
    }
    if let Some(wanted) = node.host.as_ref().filter(|wanted| *wanted != host) {
        let message = format!("its VM is on {host}, and the inventory says {wanted}");
        let hint = "it is followed to where it is; migrate it, or change `host:`";
        builder.findings.push(Finding::warning(&node.name, message).hint(hint));
    }
    let waiting: Vec<&str> = found
        .seen
        .pending
        .iter()
        .filter(|option| option.pending.is_some())
        .map(|option| option.key.as_str())
        .collect();
    if !waiting.is_empty() {
        let message = format!("changes wait for its next start: {}", waiting.join(", "));
        let hint = "they take effect when the VM is stopped and started";
        builder.findings.push(Finding::warning(&node.name, message).hint(hint));
    }
    if fields.is_empty() {
        return;
    }
    fields.sort_by(|(_, a), (_, b)| a.path.cmp(&b.path));
    let class = fields.iter().map(|(class, _)| *class).max().unwrap_or(Class::Live);
    let is_disk = |key: &str| {
        let is_data = ["scsi", "virtio", "sata"].iter().any(|bus| key.starts_with(bus));
        is_data && key.parse::<DiskSlot>().is_ok()
    };
    let grows = fields.iter().any(|(_, field)| field.old.is_some() && is_disk(&field.path));
    let fields = fields.into_iter().map(|(_, field)| field).collect();
    let change = Change::open(Object::Vm(node.name.clone()), class, fields);
    builder.changes.push(if grows {
        change.note("a disk grows at once, its file system with the next boot")
    } else {
        change
    });
}

fn field(drift: &Drift) -> FieldChange {
    let shown = |text: &str| {
        if HIDDEN.contains(&drift.key.as_str()) {
            return "******".to_owned();
        }
        // A wanted disk is compared by what matters: where it is and how large at least.
        if drift.key.parse::<DiskSlot>().is_ok() { disk(text) } else { text.to_owned() }
    };
    FieldChange::new(&drift.key, drift.found.as_deref().map(shown), Some(shown(&drift.wanted)))
}

fn disk(text: &str) -> String {
    let drive = Drive::parse(text);
    let Some(storage) = drive.storage().filter(|_| !drive.is_cdrom()) else {
        return text.to_owned();
    };
    let size = drive.size().map(|bytes| format!("{} GiB", bytes >> 30)).unwrap_or_default();
    let mut options = drive.options.clone();
    let _size = options.remove("size");
    let options = options.to_string();
    let comma = if options.is_empty() { "" } else { ", " };
    format!("{size} on {storage}{comma}{options}").trim_start().to_owned()
}

/// Nodes of Kubernetes are drained before they stop.
fn with_a_stop(node: &DesiredNode) -> Class {
    if node.is_talos { Class::Drain } else { Class::Reboot }
}

/// What it takes to change an option of a VM that runs.
fn class(node: &DesiredNode, drift: &Drift) -> Class {
    let key = drift.key.as_str();
    match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "description" | "tags" | "name" | "onboot" | "protection" | "hotplug" | "nameserver"
        | "searchdomain" => Class::Live,
        // The node keeps its first address beside any other.
        "ipconfig" => Class::Replace,
        "net" => match &drift.found {
            Some(found) if is_same_card(&drift.wanted, found) => Class::Live,
            Some(_) => with_a_stop(node),
            None => Class::Live,
        },
        "scsi" | "virtio" if drift.found.is_none() => Class::Live,
        _ => with_a_stop(node),
    }
}

/// Whether only the place that the card is plugged into changes.
fn is_same_card(wanted: &str, found: &str) -> bool {
    let (wanted, found) = (Net::parse(wanted), Net::parse(found));
    wanted.model == found.model && wanted.mac == found.mac
}

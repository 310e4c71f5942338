//! Drift of VMs, and the cost of changing them.

use std::collections::BTreeSet;

use talmox_pve_types::config::{Drift, VmConfig, drift, option_number};
use talmox_pve_types::id::{DiskSlot, NodeName, PoolId};
use talmox_pve_types::property::{Drive, GIB, Net, Tags};

use super::address_change::AddressChange;
use super::builder::Builder;
use super::gpu;
use super::placed::{ObservedVm, Placed};
use super::removed_option::{is_hotplugged, surplus};
use crate::desired::DesiredNode;
use crate::plan::{
    Change, Class, DiskValue, FieldChange, FieldValue, Finding, FindingCode, Object,
};

/// Options that hold a secret.
const HIDDEN: &[&str] = &["cipassword", "sshkeys"];

const GROWS: &str = "a disk grows at once, its file system with the next boot";
const SHRINKS: &str = "no disk can shrink: keep its size in the inventory, or replace the node";
const OTHER_SLOT: &str = "the system stays on the disk that it was installed on";
const FIRST_BOOT: &str = "systems other than Talos read their settings at their first boot";

pub(super) fn vm(builder: &mut Builder<'_>, placed: &Placed<'_>, found: &ObservedVm<'_>) {
    let node = placed.node.as_created(found.config);
    let node = &*node;
    let pve = &builder.observed.pve;
    let host = &found.seen.host;
    let hostpci = node.vm.gpu.as_ref().and_then(|gpu| gpu::wanted(gpu, found.config, host, pve));
    let wanted = node.vm.wanted(hostpci.as_ref());
    let drifted = drift(&wanted, found.config);
    let mut notes: BTreeSet<&str> = BTreeSet::new();
    let mut fields: Vec<(Class, FieldChange)> = vec![];
    for one in drifted.iter().filter_map(without_added_tags) {
        // Protection is set when the volume is detached: Proxmox removes no drive of a protected VM.
        if one.key == "protection" && has_volume(node, found.config) {
            continue;
        }
        if one.key == "tags" && found.marker.are_tags_rejected {
            builder.findings.push(tags_rejected(placed, &one));
            continue;
        }
        let (class, note) = class(node, &one, found.config);
        notes.extend(note);
        fields.push((class, field(&one)));
    }
    for surplus in surplus(node, &wanted, found.config) {
        let old = Some(shown(&surplus.key, &surplus.found));
        if surplus.class == Class::Destroy {
            let object = Object::Disk(format!("{}/{}", node.name, surplus.key));
            let fields = vec![FieldChange::of("size", old, None)];
            let change = Change::open(object, Class::Destroy, fields);
            builder.changes.push(change.note("the inventory no longer has this disk"));
        } else {
            fields.push((surplus.class, FieldChange::of(&surplus.key, old, None)));
        }
    }
    for (slot, old, new) in shrunk(node, found.config) {
        notes.insert(SHRINKS);
        fields.retain(|(_, field)| field.path != slot);
        fields.push((Class::Replace, FieldChange::of(&slot, Some(old), Some(new))));
    }
    if let Some(vmid) = node.vmid.filter(|vmid| *vmid != placed.own.vm.vmid) {
        let old = Some(placed.own.vm.vmid.into());
        let change = FieldChange::of("vmid", old, Some(vmid.into()));
        fields.push((Class::Replace, change));
    }
    // Without this right Proxmox does not report the pool of a VM.
    let sees_pool = |pool: &PoolId| pve.permissions.allows(&format!("/pool/{pool}"), "Pool.Audit");
    if let (Some(wanted), Some(guest)) = (&node.pool, pve.guest(placed.own.vm.vmid))
        && guest.pool.as_ref() != Some(wanted)
        && sees_pool(wanted)
    {
        let old = guest.pool.as_ref().map(ToString::to_string);
        fields.push((Class::Live, FieldChange::new("pool", old, Some(wanted.to_string()))));
    }
    let data = node.user_data_mark();
    if data.is_some() && found.marker.data != data {
        let change = FieldChange::new("user-data", found.marker.data.clone(), data);
        notes.insert(FIRST_BOOT);
        fields.push((Class::Replace, change));
    }
    let vmid = placed.own.vm.vmid.to_string();
    builder.findings.extend(without_serial(node, &vmid, found.config));
    let is_elsewhere = |wanted: &&NodeName| *wanted != host && pve.host(wanted).is_some();
    if let Some(wanted) = node.host.as_ref().filter(is_elsewhere) {
        let message = format!("its VM is on {host}, and the inventory says {wanted}");
        let hint = "migrate the VM, or change `host:`; talmox uses the VM where it is";
        builder
            .findings
            .push(Finding::warning(FindingCode::VmElsewhere, &node.name, message).hint(hint));
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
        let hint = "stop and start the VM to apply them";
        builder
            .findings
            .push(Finding::warning(FindingCode::ChangesPending, &node.name, message).hint(hint));
    }
    if fields.is_empty() {
        return;
    }
    fields.sort_by(|(_, a), (_, b)| a.path.cmp(&b.path));
    let class = fields.iter().map(|(class, _)| *class).max().unwrap_or(Class::Live);
    let fields = fields.into_iter().map(|(_, field)| field).collect();
    let change = Change::open(Object::Vm(node.name.clone()), class, fields);
    let notes: Vec<&str> = notes.into_iter().collect();
    builder.changes.push(if notes.is_empty() { change } else { change.note(notes.join("; ")) });
}

/// Whether a VM still has the volume with its config, which is detached once its node runs.
fn has_volume(node: &DesiredNode, config: &VmConfig) -> bool {
    let slot = node.vm.cidata.as_ref().filter(|_| node.is_talos);
    slot.is_some_and(|slot| config.drive(slot).is_some())
}

/// Disks that are larger than in the inventory: slot, observed and desired size.
fn shrunk(node: &DesiredNode, config: &VmConfig) -> Vec<(String, FieldValue, FieldValue)> {
    let disks = node.vm.disks.iter().filter_map(|wanted| {
        let found = config.drive(&wanted.slot)?;
        let size = found.size()?;
        // Storages round up.
        let is_larger = size / GIB > u64::from(wanted.gib);
        is_larger.then(|| (wanted.slot.to_string(), disk(&found), FieldValue::from(wanted)))
    });
    disks.collect()
}

/// Warnings about disks of user volumes without the serial by which the config selects the disk.
/// Such a VM was created before talmox set serials. This is not planned as a change: Talos finds an
/// existing user volume by the label of its partition, so the serial matters only when the volume
/// is created again.
fn without_serial(node: &DesiredNode, vmid: &str, config: &VmConfig) -> Vec<Finding> {
    let disks = node.vm.disks.iter().filter_map(|wanted| {
        let (serial, volume) = (wanted.options.get("serial")?, wanted.volume.as_ref()?);
        let mut found = config.drive(&wanted.slot)?;
        if found.options.get("serial").is_some() {
            return None;
        }
        let slot = &wanted.slot;
        let message = format!(
            "disk {slot} of its VM has no serial: Talos cannot find the disk of volume {volume} by its name"
        );
        found.options.set("serial", serial);
        let hint = format!("run `qm set {vmid} --{slot} {found}`, then stop and start the VM");
        Some(Finding::warning(FindingCode::DiskSerialMissing, &node.name, message).hint(hint))
    });
    disks.collect()
}

fn field(drift: &Drift) -> FieldChange {
    let old = drift.found.as_deref().map(|found| shown(&drift.key, found));
    FieldChange::of(&drift.key, old, Some(shown(&drift.key, &drift.wanted)))
}

fn shown(key: &str, text: &str) -> FieldValue {
    if HIDDEN.contains(&key) {
        return "******".into();
    }
    // Of a disk, storage, size and options are shown.
    let drive = Drive::parse(text);
    if key.parse::<DiskSlot>().is_ok() && drive.storage().is_some() && !drive.is_cdrom() {
        return disk(&drive);
    }
    option_number(key, text).map_or_else(|| text.into(), FieldValue::from)
}

fn disk(drive: &Drive) -> FieldValue {
    let mut options = drive.options.clone();
    let _size = options.remove("size");
    let disk = DiskValue {
        size_gib: drive.size().map(|bytes| bytes / GIB),
        storage: drive.storage().map(ToString::to_string).unwrap_or_default(),
        options: options.to_string(),
    };
    disk.into()
}

/// The class of a change that needs a stop. Kubernetes nodes are drained before.
fn with_a_stop(node: &DesiredNode) -> Class {
    if node.is_talos { Class::Drain } else { Class::Reboot }
}

/// Drift without tags that the user added. None if only added tags differ.
fn without_added_tags(drift: &Drift) -> Option<Drift> {
    let Some(found) = drift.found.as_deref().filter(|_| drift.key == "tags") else {
        return Some(drift.clone());
    };
    let (wanted, found) = (Tags::parse(&drift.wanted), Tags::parse(found));
    let all = Tags::of(wanted.iter().chain(found.iter()));
    (all != found).then(|| Drift { wanted: all.to_string(), ..drift.clone() })
}

/// Tags that Proxmox rejected when the VM was created. As a change they would be in every plan, and no run could set them.
fn tags_rejected(placed: &Placed<'_>, drift: &Drift) -> Finding {
    let vm = &placed.own.vm;
    let message = format!(
        "VM {} lacks the tags {}: the tag policy of the datacenter (user-tag-access, registered-tags) does not let the token \
         set them",
        vm.vmid, drift.wanted
    );
    let hint = format!(
        "everything works without them; to have them, as root on {}: qm set {} --tags '{}'
to let talmox set the tags of new VMs, allow them under Datacenter > Options > User Tag Access, and remove them from \
         Registered Tags",
        vm.node, vm.vmid, drift.wanted
    );
    Finding::warning(FindingCode::TagsRejected, &placed.node.name, message).hint(hint)
}

/// The class of an option change of a running VM, with a note for the user.
fn class(node: &DesiredNode, drift: &Drift, config: &VmConfig) -> (Class, Option<&'static str>) {
    let key = drift.key.as_str();
    let found = drift.found.as_deref();
    if let Some(change) = AddressChange::of_option(key, &drift.wanted, found) {
        return change.class(node);
    }
    if found.is_none() && node.vm.disks[0].slot.as_str() == key {
        return (Class::Replace, Some(OTHER_SLOT));
    }
    let plugged = |kind: &str| {
        if is_hotplugged(config, kind) { Class::Live } else { with_a_stop(node) }
    };
    let class = match (key.trim_end_matches(|c: char| c.is_ascii_digit()), found) {
        ("net", Some(found)) if !is_same_card(&drift.wanted, found) => with_a_stop(node),
        ("net", None) => plugged("network"),
        ("scsi" | "virtio" | "sata", Some(found)) => return of_disk(node, &drift.wanted, found),
        ("scsi" | "virtio", None) => plugged("disk"),
        (
            "description" | "tags" | "name" | "onboot" | "protection" | "hotplug" | "nameserver"
            | "searchdomain" | "net",
            _,
        ) => Class::Live,
        _ => with_a_stop(node),
    };
    (class, None)
}

/// The class of a disk change: larger, on another storage, or with other options.
fn of_disk(node: &DesiredNode, wanted: &str, found: &str) -> (Class, Option<&'static str>) {
    let (wanted, found) = (Drive::parse(wanted), Drive::parse(found));
    let is_larger = wanted.size().zip(found.size()).is_some_and(|(wanted, found)| wanted > found);
    // A missing serial is not drift.
    let has_serial = found.options.get("serial").is_some();
    let options = |drive: &Drive| {
        let mut options = drive.options.clone();
        let _size = options.remove("size");
        if !has_serial {
            let _serial = options.remove("serial");
        }
        options
    };
    if is_larger {
        (with_a_stop(node), Some(GROWS))
    } else if wanted.storage() != found.storage() && options(&wanted) == options(&found) {
        // Proxmox moves a disk while the VM runs.
        (Class::Live, None)
    } else {
        (with_a_stop(node), None)
    }
}

/// Whether model and MAC address stay the same, so that only bridge or VLAN change.
fn is_same_card(wanted: &str, found: &str) -> bool {
    let (wanted, found) = (Net::parse(wanted), Net::parse(found));
    wanted.model == found.model && wanted.mac == found.mac
}

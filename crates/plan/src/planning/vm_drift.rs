//! Drift of VMs, and the change that removes each difference.

use std::collections::BTreeSet;

use talmox_pve_types::config::{Drift, PendingOption, VmConfig, VmOptions, drift};
use talmox_pve_types::id::{DiskSlot, NodeName, PoolId};
use talmox_pve_types::property::GIB;

use super::builder::Builder;
use super::node_change::VmChange;
use super::placed::{ObservedVm, Placed};
use super::removed_option::removed_options;
use super::scope::Part;
use super::vm_host::{HostDrift, OFFLINE};
use super::vm_option::{OptionChange, is_deferred, with_a_stop};
use super::vm_value::{disk, shown};
use super::{gpu, ignored, pending_option, start_order, vm_notes, vm_tags};
use crate::desired::DesiredNode;
use crate::plan::{
    Change, Class, FieldChange, FieldValue, Finding, FindingCode, Left, Object, Severity,
};

const SHRINKS: &str = "no disk can shrink: keep its size in the inventory, or replace the node (`talmox node replace`)";
const FIRST_BOOT: &str = "systems other than Talos read their settings at their first boot";
const PENDING: &str = "options that Proxmox applies with the next start of the VM";
const REMOVED_DISK: &str = "the inventory no longer has this disk; talmox does not delete disks of a node that stays: detach and delete \
     it in Proxmox (Hardware), or replace the node";

/// Fields of a change, each with its class, and notes about the fields.
#[derive(Debug, Default)]
struct ClassedFields {
    all: Vec<(Class, FieldChange)>,
    notes: BTreeSet<String>,
}

impl ClassedFields {
    fn push(&mut self, class: Class, field: FieldChange, note: Option<&str>) {
        self.all.push((class, field));
        self.notes.extend(note.map(str::to_owned));
    }

    fn absorb(&mut self, other: Self) {
        self.all.extend(other.all);
        self.notes.extend(other.notes);
    }

    fn class(&self) -> Class {
        self.all.iter().map(|(class, _)| *class).max().unwrap_or(Class::Live)
    }

    /// The change of a VM. It is planned, or left for the given reason. None if there are no fields.
    fn change(self, node: &DesiredNode, left: Option<Left>) -> Option<Change> {
        if self.all.is_empty() {
            return None;
        }
        let class = self.class();
        let mut fields: Vec<FieldChange> = self.all.into_iter().map(|(_, field)| field).collect();
        fields.sort_by(|a, b| a.path.cmp(&b.path));
        let object = Object::Vm(node.name.clone());
        let change = match left {
            Some(why) => Change::left(object, class, fields, why),
            None => Change::planned(object, class, fields),
        };
        let notes: Vec<String> = self.notes.into_iter().collect();
        Some(if notes.is_empty() { change } else { change.note(notes.join("; ")) })
    }
}

/// The differences of a VM, grouped by how a run handles them.
#[derive(Debug, Default)]
struct Differences {
    planned: ClassedFields,
    /// Differences that a replacement of the VM removes.
    replace: ClassedFields,
    impossible: ClassedFields,
    /// Differences that are not planned because of a finding.
    blocked: ClassedFields,
    /// Whether the system disk belongs in another slot. If so, no option of this VM is changed.
    is_other_machine: bool,
    change: VmChange,
}

impl Differences {
    /// Adds an option whose value differs.
    fn option(&mut self, node: &DesiredNode, drift: &Drift, found: &ObservedVm<'_>) {
        let pending = &found.seen.pending;
        let is_drive = drift.key.parse::<DiskSlot>().is_ok();
        let is_pending =
            |option: &PendingOption| option.key == drift.key && option.pending.is_some();
        // A pending change of a drive takes effect with a stop of the VM. Setting the slot again would create another volume.
        let is_pending_drive = is_drive && pending.iter().any(is_pending);
        let at_once =
            !found.seen.is_running || (!is_drive && pending_option::is_reverted(drift, pending));
        let class = |class: Class| match class {
            _ if at_once => Class::Live,
            _ if is_pending_drive => with_a_stop(node),
            class => class,
        };
        let change = std::mem::take(&mut self.change);
        let (key, field) = (drift.key.as_str(), field(drift));
        self.change = match OptionChange::of(node, drift, found.config) {
            OptionChange::Set { value, class: own, note } => {
                let note = note.filter(|_| !at_once);
                self.planned.push(class(own), field, note);
                VmChange { set: change.set.set(key, value), ..change }
            }
            OptionChange::Grow { value, class: own, note } => {
                self.planned.push(class(own), field, Some(note).filter(|_| !at_once));
                let mut change = change;
                let disks = node.vm.disks.iter().filter(|disk| disk.slot.as_str() == key);
                change.grow.extend(disks.map(|disk| (disk.slot.clone(), disk.gib)));
                let set = change.set.clone();
                let set = value.iter().fold(set, |set, value| set.set(key, value));
                VmChange { set, ..change }
            }
            OptionChange::Replace(note) => {
                self.replace.push(Class::Replace, field, note);
                change
            }
            OptionChange::OtherSlot(note) => {
                self.is_other_machine = true;
                self.replace.push(Class::Replace, field, Some(note));
                change
            }
            OptionChange::Impossible(note) => {
                self.impossible.push(with_a_stop(node), field, Some(note));
                change
            }
        };
    }

    /// Adds the PCI device of the node. The device may need a new PCI mapping.
    fn device(
        &mut self,
        builder: &mut Builder<'_>,
        node: &DesiredNode,
        host: &NodeName,
        drift: &Drift,
        found: &ObservedVm<'_>,
    ) {
        match gpu::device(builder.desired, node, host, &builder.observed.pve) {
            Ok(Some(device)) => {
                let desired = device.hostpci.to_string();
                self.option(node, &Drift { desired, ..drift.clone() }, found);
                let is_selected = builder.scope.allows(&node.name, Part::Vms);
                let create = device.mapping.filter(|_| is_selected);
                self.change.after.extend(create.map(|create| gpu::create_mapping(builder, create)));
            }
            Ok(None) => self.option(node, drift, found),
            Err(finding) => {
                self.blocked.push(with_a_stop(node), field(drift), Some(finding.message.as_str()));
                builder.findings.push(Finding { severity: Severity::Warning, ..finding });
            }
        }
    }
}

impl Differences {
    /// Removes the differences that the inventory accepts, and reports them as ignored.
    fn leave_ignored(&mut self, builder: &mut Builder<'_>, object: &Object) {
        let node = object.node().unwrap_or_default();
        let mut paths: BTreeSet<String> = BTreeSet::new();
        for fields in
            [&mut self.planned, &mut self.replace, &mut self.impossible, &mut self.blocked]
        {
            fields.all.retain(|(class, field)| {
                let is_ignored = ignored::leave(builder, node, object, *class, field);
                if is_ignored {
                    paths.insert(field.path.clone());
                }
                !is_ignored
            });
        }
        let change = &mut self.change;
        let kept = change.set.iter().filter(|(key, _)| !paths.contains(*key));
        change.set = kept.fold(VmOptions::new(), |set, (key, value)| set.set(key, value));
        change.delete.retain(|key| !paths.contains(key));
        change.grow.retain(|(slot, _)| !paths.contains(slot.as_str()));
        change.pool = change.pool.take().filter(|_| !paths.contains("pool"));
        change.migrate = change.migrate.take().filter(|_| !paths.contains("host"));
    }
}

/// Compares a finished VM with the inventory.
pub(super) fn vm(builder: &mut Builder<'_>, placed: &Placed<'_>, found: &ObservedVm<'_>) {
    let node = placed.node.as_created(found.config);
    let node = &*node;
    let pve = &builder.observed.pve;
    let is_running = found.seen.is_running;
    let stop = if is_running { with_a_stop(node) } else { Class::Live };
    let mut differences = Differences::default();
    let vmid = placed.own.vm.vmid;
    let moved = HostDrift::of(builder.desired, node, vmid, found, pve);
    let mut host = &found.seen.host;
    match &moved {
        HostDrift::None => {}
        HostDrift::Stays(finding) => builder.findings.push(finding.clone()),
        HostDrift::Moves(migration) => {
            let needs_stop = is_running && !migration.is_online;
            let (class, note) =
                if needs_stop { (stop, Some(OFFLINE)) } else { (Class::Live, None) };
            let target = &migration.target;
            let field = FieldChange::new("host", Some(host.to_string()), Some(target.to_string()));
            differences.planned.push(class, field, note);
            differences.change.migrate = Some(migration.clone());
            host = target;
        }
    }
    let hostpci =
        node.vm.gpu.as_ref().and_then(|gpu| gpu::desired_hostpci(gpu, found.config, host, pve));
    let desired = node.vm.desired_options(hostpci.as_ref());
    let drifted = drift(&desired, found.config);
    let object = Object::Vm(node.name.clone());
    let own = |one: &Drift| vm_tags::without_tags_of_users(one, &found.marker);
    for one in drifted.iter().filter_map(own) {
        // Protection is set when the cidata volume is detached, because Proxmox does not remove a drive from a protected VM.
        if one.key == "protection" && has_volume(node, found.config) {
            continue;
        }
        if one.key == "tags" && found.marker.are_tags_rejected {
            builder.findings.push(vm_tags::missing(placed, found, &one));
            continue;
        }
        let is_accepted = ignored::reason(builder, &node.name, &object, &one.key).is_some();
        if one.key == "startup" && !is_accepted && !start_order::is_allowed(builder) {
            builder.findings.push(start_order::rejected(placed, &one.desired));
            continue;
        }
        if one.key == "hostpci0" && !is_accepted {
            differences.device(builder, node, host, &one, found);
        } else {
            differences.option(node, &one, found);
        }
    }
    let is_selected = builder.scope.allows(&node.name, Part::Vms);
    let left = |why: Left| if is_selected { why } else { Left::NotSelected };
    for removed in removed_options(node, &desired, found.config) {
        let old = Some(shown(&removed.key, &removed.found));
        if removed.class == Class::Destroy {
            let object = Object::Disk(format!("{}/{}", node.name, removed.key));
            let fields = vec![FieldChange::of("size", old, None)];
            let change = Change::left(object, Class::Destroy, fields, left(Left::Impossible));
            builder.changes.push(change.note(REMOVED_DISK));
        } else {
            let class = if is_running { removed.class } else { Class::Live };
            differences.planned.push(class, FieldChange::of(&removed.key, old, None), None);
            differences.change.delete.push(removed.key);
        }
    }
    for (slot, old, new) in shrunk(node, found.config) {
        let field = FieldChange::of(&slot, Some(old), Some(new));
        differences.impossible.push(with_a_stop(node), field, Some(SHRINKS));
    }
    if let Some(vmid) = node.vmid.filter(|vmid| *vmid != placed.own.vm.vmid) {
        let old = Some(placed.own.vm.vmid.into());
        let field = FieldChange::of("vmid", old, Some(vmid.into()));
        differences.replace.push(Class::Replace, field, None);
    }
    // Without this privilege, Proxmox does not report the pool of a VM.
    let sees_pool = |pool: &PoolId| pve.permissions.allows(&format!("/pool/{pool}"), "Pool.Audit");
    if let (Some(desired), Some(guest)) = (&node.pool, pve.guest(vmid))
        && guest.pool.as_ref() != Some(desired)
        && sees_pool(desired)
    {
        let old = guest.pool.as_ref().map(ToString::to_string);
        let field = FieldChange::new("pool", old, Some(desired.to_string()));
        differences.planned.push(Class::Live, field, None);
        differences.change.pool = Some(desired.clone());
    }
    let data = node.user_data_mark();
    if data.is_some() && found.marker.data != data {
        let field = FieldChange::new("user-data", found.marker.data.clone(), data);
        differences.replace.push(Class::Replace, field, Some(FIRST_BOOT));
    }
    builder.findings.extend(without_serial(node, &vmid.to_string(), found.config));
    if let Some(notes) = vm_notes::difference(node, found.config) {
        differences.planned.push(Class::Live, notes, None);
    }
    // For a stopped VM, the start applies the pending options.
    let mut deferred: Vec<&str> = vec![];
    if is_running {
        for option in pending_option::waiting(&found.seen.pending, &drifted) {
            if is_deferred(node, &option.key) {
                deferred.push(&option.key);
            } else {
                differences.planned.push(stop, pending_option::field(option), Some(PENDING));
            }
        }
    }
    let lost = pending_option::lost_with_stop(node, found);
    if differences.is_other_machine {
        differences.replace.absorb(std::mem::take(&mut differences.planned));
    }
    // Differences that `ignore:` accepts get no step.
    differences.leave_ignored(builder, &object);
    let Differences { planned, replace, impossible, blocked, mut change, .. } = differences;
    change.needs_stop = is_running && planned.class() > Class::Live;
    let changes_notes = planned.all.iter().any(|(_, field)| field.path == vm_notes::NOTES);
    change.set = vm_notes::described(node, found, change.set, changes_notes);
    if !change.needs_stop {
        builder.findings.extend(pending_option::deferred(&node.name, vmid, &deferred));
    }
    let needs_consent =
        change.needs_stop && lost.is_some() && !builder.scope.removal.covers(&node.name);
    builder.findings.extend(lost);
    let why = if is_selected {
        needs_consent.then_some(Left::NeedsConsent)
    } else {
        Some(Left::NotSelected)
    };
    let planned = planned.change(node, why);
    if planned.as_ref().is_some_and(|planned| planned.is_planned) {
        builder.node_changes.entry(node.name.clone()).or_default().vm = Some(change);
    }
    builder.changes.extend(planned);
    builder.changes.extend(blocked.change(node, Some(left(Left::Blocked))));
    builder.changes.extend(replace.change(node, Some(left(Left::NeedsConsent))));
    builder.changes.extend(impossible.change(node, Some(left(Left::Impossible))));
}

/// Whether a VM still has its cidata volume. The volume is detached after the node has started.
fn has_volume(node: &DesiredNode, config: &VmConfig) -> bool {
    let slot = node.vm.cidata.as_ref().filter(|_| node.is_talos);
    slot.is_some_and(|slot| config.drive(slot).is_some())
}

/// Disks that are larger than in the inventory, each with its slot, observed size and desired size.
fn shrunk(node: &DesiredNode, config: &VmConfig) -> Vec<(String, FieldValue, FieldValue)> {
    let disks = node.vm.disks.iter().filter_map(|desired| {
        let found = config.drive(&desired.slot)?;
        let size = found.size()?;
        // Storages round sizes up, so only whole GiB are compared.
        let is_larger = size / GIB > u64::from(desired.gib);
        is_larger.then(|| (desired.slot.to_string(), disk(&found), FieldValue::from(desired)))
    });
    disks.collect()
}

/// Warnings about disks with a user volume but without the serial by which the config selects the disk. Such a VM was created
/// before talmox set serials. The serial is not planned as a change, because Talos finds an existing user volume by its
/// partition label. The serial matters only when the user volume is created again.
fn without_serial(node: &DesiredNode, vmid: &str, config: &VmConfig) -> Vec<Finding> {
    let disks = node.vm.disks.iter().filter_map(|desired| {
        let (serial, volume) = (desired.options.get("serial")?, desired.volume.as_ref()?);
        let mut found = config.drive(&desired.slot)?;
        if found.options.get("serial").is_some() {
            return None;
        }
        let slot = &desired.slot;
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
    FieldChange::of(&drift.key, old, Some(shown(&drift.key, &drift.desired)))
}

//! Planning of VMs: create, resume, or compare with the inventory.

use talmox_pve_types::api::qemu;
use talmox_pve_types::config::{VmOptions, drift};
use talmox_pve_types::id::{DiskSlot, FileName, Upid, VolumeId};
use talmox_pve_types::property::HostPci;

use super::builder::Builder;
use super::clone_source::{Template, surplus_of_template, template};
use super::placed::{ObservedVm, Placed, VmPresence};
use super::vm_plan::VmPlan;
use super::{gpu, image, maintenance_mode, vm_drift};
use crate::desired::{Desired, DesiredNode, import_volume};
use crate::ownership::{FirstRole, Marker, Stage};
use crate::plan::{
    Action, Change, Class, CloneVm, CreateVm, DetachCidata, FieldChange, Finding, FindingCode,
    FinishVm, Object, ResizeDisk, ScrubCidata, StartVm, StepId, UploadCidata,
};

pub(super) fn plan(builder: &mut Builder<'_>, placed: &Placed<'_>) -> VmPlan {
    match &placed.state {
        VmPresence::Blocked => {
            tracing::info!(target: "talmox::plan", subject = placed.node.name, "skipped: a finding blocks its VM");
            VmPlan::default()
        }
        VmPresence::Absent => make(builder, placed, None),
        VmPresence::BeingMade(upid) => make(builder, placed, Some(upid.clone())),
        VmPresence::Owned(found) if found.marker.stage == Stage::Made => {
            made(builder, placed, found)
        }
        VmPresence::Owned(found) => go_on(builder, placed, found),
    }
}

/// Creates a VM, or waits for the task that is creating it.
fn make(builder: &mut Builder<'_>, placed: &Placed<'_>, running: Option<Upid>) -> VmPlan {
    let (node, own) = (placed.node, &placed.own);
    let device = match gpu::device(builder.desired, node, &own.vm.node, &builder.observed.pve) {
        Ok(device) => device,
        // The plan is not executed, but further errors are found as well.
        Err(finding) => {
            builder.findings.push(finding);
            None
        }
    };
    let mut after = vec![];
    if let Some(create) = device.as_ref().and_then(|device| device.mapping.clone()) {
        let object = Object::Mapping(create.id.to_string());
        let devices = create.mapped.devices.iter();
        let fields = devices.map(|device| FieldChange::set("map", device)).collect();
        let id = format!("mapping/{}", create.id);
        let is_new = !builder.steps.has(&StepId::new(id.clone()));
        if is_new {
            builder.changes.push(Change::planned(object, Class::Create, fields));
        }
        after.push(builder.steps.add(id, None, [], Action::CreateMapping(create)));
    }
    let hostpci = device.map(|device| device.hostpci);
    let cidata = node.vm.cidata.as_ref().map(|_| cidata_volume(builder, node));
    let made_from = match &node.image {
        Some(image) => {
            let (volume, step) = image::fetch(builder, image, &own.vm.node);
            after.push(step);
            Source::Image(volume)
        }
        None => match template(builder, node, placed) {
            Ok(mut template) => {
                builder.findings.extend(template.finding.take());
                Source::Template(template)
            }
            Err(finding) => {
                builder.findings.push(finding);
                return VmPlan::default();
            }
        },
    };
    if running.is_none()
        && let (Some(volume), Some(network)) = (&cidata, &node.first_network)
    {
        let action = Action::UploadCidata(UploadCidata {
            host: own.vm.node.clone(),
            volume: volume.clone(),
            user_data: node.config.clone().into(),
            instance_id: node.instance_id(),
            network: network.clone(),
            deadline: builder.desired.timeouts.task,
        });
        let id = format!("vm/{}/upload-config", node.name);
        after.push(builder.steps.add(id, Some(&node.name), [], action));
    }
    let is_created = running.is_none();
    let note = running.as_ref().map(|_| "a task of an earlier run is creating it");
    builder.changes.push(created(node, placed, hostpci.as_ref(), note));
    let deadline = builder.desired.timeouts.image;
    let (step, set, delete) = match made_from {
        Source::Image(image) => {
            let description = description(builder, node, Stage::Create);
            let options = node.vm.create(&image, cidata.as_ref(), hostpci.as_ref(), &description);
            let pool = node.pool.clone();
            let create = CreateVm { own: own.clone(), pool, options, running, deadline };
            let id = format!("vm/{}/create", node.name);
            let step = builder.steps.add(id, Some(&node.name), after, Action::CreateVm(create));
            (step, node.vm.after_create(), vec![])
        }
        Source::Template(template) => {
            let set = node.vm.after_clone(hostpci.as_ref(), template.has_cloudinit);
            let clone = CloneVm {
                own: own.clone(),
                template: template.vm,
                clone: qemu::CloneVm {
                    newid: own.vm.vmid,
                    name: node.name.clone(),
                    description: description(builder, node, Stage::Clone),
                    pool: node.pool.clone(),
                    full: true,
                    storage: Some(node.vm.storage.clone()),
                    target: None,
                },
                running,
                deadline,
            };
            let id = format!("vm/{}/clone", node.name);
            let step = builder.steps.add(id, Some(&node.name), after, Action::CloneVm(clone));
            (step, set, template.surplus)
        }
    };
    let start = finish(builder, placed, Some(step), set, delete);
    VmPlan { runs_after: Some(start), is_fresh: true, is_created, is_sound: true }
}

enum Source {
    Image(VolumeId),
    Template(Template),
}

/// Resumes a VM that was created and never started.
fn go_on(builder: &mut Builder<'_>, placed: &Placed<'_>, found: &ObservedVm<'_>) -> VmPlan {
    let node = placed.node;
    if maintenance_mode::lacks_volume(placed) {
        builder.findings.push(maintenance_mode::unfinished(placed));
        return VmPlan::default();
    }
    let device = gpu::device(builder.desired, node, &placed.own.vm.node, &builder.observed.pve);
    let hostpci = match device {
        Ok(device) => device.map(|device| device.hostpci),
        Err(finding) => {
            builder.findings.push(finding);
            return VmPlan::default();
        }
    };
    let note = format!("resumes where an earlier run stopped ({})", found.marker.stage.as_str());
    builder.changes.push(created(node, placed, hostpci.as_ref(), Some(&note)));
    let (set, delete) = match found.marker.stage {
        Stage::Clone => {
            let has_cloudinit = found.config.cloudinit().is_some();
            let set = node.vm.after_clone(hostpci.as_ref(), has_cloudinit);
            (set, surplus_of_template(node, found.config))
        }
        _ => (changed_since(node, hostpci.as_ref(), found), vec![]),
    };
    let start = finish(builder, placed, None, set, delete);
    VmPlan { runs_after: Some(start), is_fresh: true, is_created: false, is_sound: true }
}

/// The options of an unfinished VM that the inventory has changed since. Drives are kept.
fn changed_since(
    node: &DesiredNode,
    hostpci: Option<&HostPci>,
    found: &ObservedVm<'_>,
) -> VmOptions {
    let drifted = drift(&node.vm.wanted(hostpci), found.config);
    let waits = |key: &str| key == "protection" && node.vm.loses_volume();
    let plain =
        drifted.iter().filter(|one| one.key.parse::<DiskSlot>().is_err() && !waits(&one.key));
    plain.fold(VmOptions::new(), |set, one| set.set(&one.key, &one.wanted))
}

/// The steps from a created VM to its first start.
fn finish(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    made: Option<StepId>,
    set: VmOptions,
    delete: Vec<String>,
) -> StepId {
    let (node, own) = (placed.node, &placed.own);
    let timeouts = builder.desired.timeouts;
    let system = &node.vm.disks[0];
    let resize = Action::ResizeDisk(ResizeDisk {
        own: own.clone(),
        slot: system.slot.clone(),
        gib: system.gib,
        deadline: timeouts.task,
    });
    let id = |what: &str| format!("vm/{}/{what}", node.name);
    let name = Some(node.name.as_str());
    let resized = builder.steps.add(id("resize"), name, made.clone(), resize);
    let description = description(builder, node, Stage::Made);
    let finish = Action::FinishVm(FinishVm {
        own: own.clone(),
        set: set.tags(&node.vm.tags).description(&description),
        delete,
        deadline: timeouts.task,
    });
    let mut before = vec![resized];
    if node.vm.cidata.is_some() {
        let volume = cidata_volume(builder, node);
        let path = format!("/storage/{}", volume.storage());
        let delete = builder.observed.pve.permissions.allows(&path, "Datastore.Allocate");
        let host = own.vm.node.clone();
        let scrub = ScrubCidata { host, volume, delete, deadline: timeouts.task };
        let scrub = Action::ScrubCidata(scrub);
        before.push(builder.steps.add(id("scrub-config"), name, made, scrub));
    }
    let last = builder.steps.add(id("finish"), name, before, finish);
    let start = Action::StartVm(StartVm { own: own.clone(), deadline: timeouts.task });
    builder.steps.add(id("start"), name, [last], start)
}

/// A finished VM: compares it with the inventory, and starts it if it is stopped.
fn made(builder: &mut Builder<'_>, placed: &Placed<'_>, found: &ObservedVm<'_>) -> VmPlan {
    let node = placed.node;
    let before = builder.changes.len();
    vm_drift::vm(builder, placed, found);
    let is_changed = builder.changes.len() > before;
    let mut plan = VmPlan { runs_after: None, is_fresh: false, is_created: false, is_sound: true };
    if !found.seen.is_running {
        // Nothing in Proxmox shows whether it has ever run: its disks may hold data, so no hint deletes it.
        if is_changed && !builder.was_there(&node.name) {
            let message = "the inventory changed since its VM was created, and the VM does not run";
            let hint = format!(
                "VM {} is started as it is; undo the change in the inventory, or change the VM by hand on {}: qm set {}",
                placed.own.vm.vmid, placed.own.vm.node, placed.own.vm.vmid
            );
            builder
                .findings
                .push(Finding::warning(FindingCode::VmOutdated, &node.name, message).hint(hint));
        }
        let fields =
            vec![FieldChange::new("status", Some("stopped".into()), Some("running".into()))];
        builder.changes.push(Change::planned(Object::Vm(node.name.clone()), Class::Live, fields));
        let deadline = builder.desired.timeouts.task;
        let start = Action::StartVm(StartVm { own: placed.own.clone(), deadline });
        let id = format!("vm/{}/start", node.name);
        plan.runs_after = Some(builder.steps.add(id, Some(&node.name), [], start));
    } else if !is_changed {
        tracing::info!(target: "talmox::plan", subject = node.name, "skipped: its VM {} is as desired", placed.own.vm.vmid);
    }
    plan
}

/// Detaches the volume with the config from a node that has read it. Other operating systems keep theirs: cloud-init reads it
/// at every boot.
pub(super) fn detach(builder: &mut Builder<'_>, placed: &Placed<'_>, after: Option<StepId>) {
    let node = placed.node;
    let Some(slot) = &node.vm.cidata else { return };
    let is_attached = match &placed.state {
        VmPresence::Owned(found) if found.marker.stage == Stage::Made => {
            found.config.get(slot.as_str()).is_some()
        }
        _ => true,
    };
    if !node.is_talos || !is_attached {
        return;
    }
    if after.is_none() {
        let fields = vec![FieldChange::new(slot.as_str(), Some("its config".into()), None)];
        builder.changes.push(Change::planned(Object::Vm(node.name.clone()), Class::Live, fields));
    }
    let deadline = builder.desired.timeouts.task;
    let protect = node.vm.is_protected();
    let detach = DetachCidata { own: placed.own.clone(), slot: slot.clone(), protect, deadline };
    let id = format!("vm/{}/detach-config", node.name);
    builder.steps.add(id, Some(&node.name), after, Action::DetachCidata(detach));
}

fn description(builder: &Builder<'_>, node: &DesiredNode, stage: Stage) -> String {
    let marker = Marker {
        cluster: builder.desired.mark.clone(),
        node: node.name.clone(),
        stage,
        data: node.user_data_mark(),
        are_tags_rejected: false,
        first_role: first_role(node),
    };
    marker.description(&builder.desired.cluster)
}

/// The role that the marker of a new VM notes.
fn first_role(node: &DesiredNode) -> Option<FirstRole> {
    let role = if node.is_control_plane { FirstRole::ControlPlane } else { FirstRole::Worker };
    node.is_talos.then_some(role)
}

/// The volume to which a node's config is uploaded. Its name is unique across clusters.
fn cidata_volume(builder: &Builder<'_>, node: &DesiredNode) -> VolumeId {
    let file: FileName = format!("{}{}.raw", upload_prefix(builder.desired), node.name)
        .parse()
        .expect("invariant: node names are host names");
    import_volume(&builder.desired.image_storage, &file)
}

fn upload_prefix(desired: &Desired) -> String {
    format!("talmox-{}-", desired.mark)
}

/// Whether a file is an upload of this cluster, of a node that it has or had.
pub(super) fn is_upload_of(desired: &Desired, file: &str) -> bool {
    let rest = file.strip_prefix(&upload_prefix(desired));
    rest.is_some_and(|rest| rest.strip_suffix(".raw").is_some())
}

fn created(
    node: &DesiredNode,
    placed: &Placed<'_>,
    hostpci: Option<&HostPci>,
    note: Option<&str>,
) -> Change {
    let vm = &node.vm;
    let mut fields = vec![
        FieldChange::set_value("vmid", placed.own.vm.vmid),
        FieldChange::set("host", &placed.own.vm.node),
        FieldChange::set_value("cores", vm.cores),
        FieldChange::set_value("memory", vm.memory_mib),
    ];
    for disk in &vm.disks {
        fields.push(FieldChange::set_value(disk.slot.as_str(), disk));
    }
    let keys = vm.options.iter().filter(|(key, _)| is_shown(key));
    fields.extend(keys.map(|(key, value)| FieldChange::set(key, value)));
    fields.extend(hostpci.map(|device| FieldChange::set("hostpci0", device)));
    if let Some(template) = &node.template {
        fields.push(FieldChange::set("template", template));
    }
    let change = Change::planned(Object::Vm(node.name.clone()), Class::Create, fields);
    match note {
        Some(note) => change.note(note),
        None => change,
    }
}

/// Options that differ between VMs; all others are the same for all of them.
fn is_shown(key: &str) -> bool {
    ["net", "ipconfig"].iter().any(|start| key.starts_with(start))
}

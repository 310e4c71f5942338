//! Creation of VMs: the steps from an image or template to the first start.

use talmox_pve_types::api::qemu;
use talmox_pve_types::config::VmOptions;
use talmox_pve_types::id::{FileName, NodeName, Upid, VolumeId};
use talmox_pve_types::property::{Drive, HostPci, Tags};

use super::builder::Builder;
use super::clone_source::{Template, template};
use super::placed::{Placed, VmPresence};
use super::vm_plan::VmPlan;
use super::{gpu, image, start_order};
use crate::desired::{Desired, DesiredNode, import_volume};
use crate::ownership::{FirstRole, Marker, Stage, inventory_notes};
use crate::plan::{
    Action, Change, ChangeVm, Class, CloneVm, CreateVm, DetachCidata, FieldChange, FinishVm,
    Object, ResizeDisk, ScrubCidata, StartVm, StepId, UploadCidata,
};

/// Plans to create a VM, or to wait for the task that is creating it. If the node is replaced, `after` contains the step that
/// destroys the old VM.
pub(super) fn make(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    running: Option<Upid>,
    mut after: Vec<StepId>,
) -> VmPlan {
    let (node, own) = (placed.node, &placed.own);
    let device = match gpu::device(builder.desired, node, &own.vm.node, &builder.observed.pve) {
        Ok(device) => device,
        // The plan is not executed, but the other checks still report their errors.
        Err(finding) => {
            builder.findings.push(finding);
            None
        }
    };
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
            (step, set, template.removed)
        }
    };
    let start = finish(builder, placed, Some(step), set, delete);
    VmPlan { runs_after: Some(start), is_fresh: true, is_created, is_sound: true }
}

enum Source {
    Image(VolumeId),
    Template(Template),
}

/// Plans the steps from a created VM to its first start.
pub(super) fn finish(
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
    let mut set = set.tags(&node.vm.tags).description(&description);
    if let Some(startup) = &node.vm.startup {
        if start_order::is_allowed(builder) {
            set = set.startup(startup);
        } else {
            builder.findings.push(start_order::rejected(placed, startup));
        }
    }
    let finish =
        Action::FinishVm(FinishVm { own: own.clone(), set, delete, deadline: timeouts.task });
    let mut before = vec![resized];
    if node.vm.cidata.is_some() {
        let scrub = scrub(builder, node, own.vm.node.clone());
        before.push(builder.steps.add(id("scrub-config"), name, made, scrub));
    }
    let last = builder.steps.add(id("finish"), name, before, finish);
    let start = Action::StartVm(StartVm { own: own.clone(), deadline: timeouts.task });
    builder.steps.add(id("start"), name, [last], start)
}

/// Plans to detach the cidata volume of a Talos node that has read it. Other operating systems keep the volume, because
/// cloud-init reads it at every boot.
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

/// Plans to attach a new cidata volume to the VM of a node that exists. Returns the step that attaches it. None if the node has no
/// cidata volume.
pub(super) fn renew(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    after: &[StepId],
) -> Option<StepId> {
    let (node, own) = (placed.node, &placed.own);
    let (slot, network) = (node.vm.cidata.clone()?, node.first_network.clone()?);
    let volume = cidata_volume(builder, node);
    let set = VmOptions::new().drive(&slot, &Drive::import(&node.vm.storage, &volume));
    let deadline = builder.desired.timeouts.task;
    let upload = Action::UploadCidata(UploadCidata {
        host: own.vm.node.clone(),
        volume,
        user_data: node.config.clone().into(),
        instance_id: node.instance_id(),
        network,
        deadline,
    });
    let name = Some(node.name.as_str());
    let id = format!("vm/{}/upload-config", node.name);
    let uploaded = builder.steps.add(id, name, after.to_vec(), upload);
    let own = own.clone();
    let attach = Action::ChangeVm(ChangeVm { own, set, delete: vec![], pool: None, deadline });
    Some(builder.steps.add(format!("vm/{}/attach-config", node.name), name, [uploaded], attach))
}

/// Plans to remove the new cidata volume of a node: the uploaded file after the step `attached`, and the drive after the step `read`.
pub(super) fn remove_renewed(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    attached: StepId,
    read: StepId,
) {
    let (node, own) = (placed.node, &placed.own);
    let Some(slot) = node.vm.cidata.clone() else { return };
    let name = Some(node.name.as_str());
    let scrub = scrub(builder, node, own.vm.node.clone());
    builder.steps.add(format!("vm/{}/scrub-config", node.name), name, [attached], scrub);
    let (own, deadline) = (own.clone(), builder.desired.timeouts.task);
    let protect = node.vm.is_protected();
    let detach = Action::DetachCidata(DetachCidata { own, slot, protect, deadline });
    builder.steps.add(format!("vm/{}/detach-renewed", node.name), name, [read], detach);
}

/// The step that overwrites the uploaded volume of a node.
fn scrub(builder: &Builder<'_>, node: &DesiredNode, host: NodeName) -> Action {
    let volume = cidata_volume(builder, node);
    let path = format!("/storage/{}", volume.storage());
    let delete = builder.observed.pve.permissions.allows(&path, "Datastore.Allocate");
    let deadline = builder.desired.timeouts.task;
    Action::ScrubCidata(ScrubCidata { host, volume, delete, deadline })
}

fn description(builder: &Builder<'_>, node: &DesiredNode, stage: Stage) -> String {
    let marker = Marker {
        cluster: builder.desired.mark.clone(),
        node: node.name.clone(),
        stage,
        data: node.user_data_mark(),
        are_tags_rejected: false,
        first_role: first_role(node),
        own_tags: Tags::default(),
        notes: None,
    };
    let mut text = marker.description(&builder.desired.cluster);
    if let Some(adoption) = builder.desired.adoption_of(node) {
        text = format!("{text} {adoption}");
    }
    if stage != Stage::Made {
        return text;
    }
    // The last step of the creation sets the tags.
    let notes = node.vm.notes.as_deref();
    inventory_notes::put(&text, notes, &node.vm.tags).unwrap_or(text)
}

/// The role in the marker of a new VM. None for operating systems other than Talos.
fn first_role(node: &DesiredNode) -> Option<FirstRole> {
    let role = if node.is_control_plane { FirstRole::ControlPlane } else { FirstRole::Worker };
    node.is_talos.then_some(role)
}

/// The volume to which the config of a node is uploaded. The name of the volume is unique across clusters.
pub(super) fn cidata_volume(builder: &Builder<'_>, node: &DesiredNode) -> VolumeId {
    let file: FileName = format!("{}{}.raw", upload_prefix(builder.desired), node.name)
        .parse()
        .expect("invariant: node names are host names");
    import_volume(&builder.desired.image_storage, &file)
}

fn upload_prefix(desired: &Desired) -> String {
    format!("talmox-{}-", desired.mark)
}

/// Whether a file is an upload with the config of a node of this cluster. The inventory may no longer contain the node.
pub fn is_upload_of(desired: &Desired, file: &str) -> bool {
    let rest = file.strip_prefix(&upload_prefix(desired));
    rest.is_some_and(|rest| rest.strip_suffix(".raw").is_some())
}

pub(super) fn created(
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
    ];
    if vm.sockets > 1 {
        fields.push(FieldChange::set_value("sockets", vm.sockets));
    }
    fields.push(FieldChange::set_value("memory", vm.memory_mib));
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

/// Whether the plan shows this option of a new VM. The other options are the same for all VMs.
fn is_shown(key: &str) -> bool {
    ["net", "ipconfig"].iter().any(|start| key.starts_with(start))
}

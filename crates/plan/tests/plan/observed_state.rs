//! Observed states for tests, and the effect of steps on them, so that tests can execute plans without a lab.

use std::collections::BTreeMap;

use talmox_plan::desired::Desired;
use talmox_plan::observed::{
    Configured, CordonedBy, EtcdSeen, IdSeen, KubernetesSeen, Observed, Pve, Registered, TalosSeen,
    VmSeen,
};
use talmox_plan::plan::{Action, OwnVm, Plan, Step};
use talmox_pve_types::api::access::Permissions;
use talmox_pve_types::api::cluster::{Guest, HostResource, Resources, StorageResource, Version};
use talmox_pve_types::api::qemu::Vm;
use talmox_pve_types::api::storage::Volume;
use talmox_pve_types::config::{VmConfig, VmOptions};
use talmox_pve_types::id::{DiskSlot, NodeName, VmId};
use talmox_pve_types::property::{Drive, DriveSource};

use crate::support::plan;

const GIB: u64 = 1 << 30;

pub(crate) fn host(name: &str) -> NodeName {
    name.parse().unwrap()
}

pub(crate) fn vmid(number: u32) -> VmId {
    VmId::new(number).unwrap()
}

/// All privileges on `/`.
fn all_rights() -> Permissions {
    let rights = [
        "Datastore.Allocate",
        "Datastore.AllocateSpace",
        "Datastore.AllocateTemplate",
        "Datastore.Audit",
        "Mapping.Modify",
        "Mapping.Use",
        "Pool.Allocate",
        "Pool.Audit",
        "SDN.Use",
        "Sys.AccessNetwork",
        "VM.Allocate",
        "VM.Audit",
        "VM.Clone",
        "VM.Config.CDROM",
        "VM.Config.CPU",
        "VM.Config.Cloudinit",
        "VM.Config.Disk",
        "VM.Config.HWType",
        "VM.Config.Memory",
        "VM.Config.Network",
        "VM.Config.Options",
        "VM.Migrate",
        "VM.PowerMgmt",
    ];
    let rights = rights.map(|right| (right.to_owned(), true)).into();
    Permissions(BTreeMap::from([("/".to_owned(), rights)]))
}

/// Two hosts without VMs.
pub(crate) fn empty() -> Observed {
    let storage = |node: &str, name: &str, content: &[&str]| StorageResource {
        storage: name.parse().unwrap(),
        node: host(node),
        status: "available".to_owned(),
        shared: false,
        kind: None,
        content: content.iter().map(|one| (*one).to_owned()).collect(),
        total: Some(900 * GIB),
        used: Some(100 * GIB),
    };
    let pools = vec!["talos".parse().unwrap()];
    let mut resources = Resources { pools, ..Resources::default() };
    for node in ["pve1", "pve2"] {
        resources.hosts.push(HostResource {
            node: host(node),
            status: "online".to_owned(),
            cpu: Some(0.1),
            max_cpu: Some(16),
            memory: Some(8 * GIB),
            max_memory: Some(64 * GIB),
        });
        resources.storages.push(storage(node, "local", &["iso", "import"]));
        resources.storages.push(storage(node, "local-lvm", &["images"]));
    }
    let version = Version { version: "9.2.6".to_owned(), release: "9.2".to_owned() };
    let pve =
        Pve { version: Some(version), permissions: all_rights(), resources, ..Pve::default() };
    Observed { pve, ..Observed::default() }
}

/// The observed state after all steps of the plan of a new cluster.
pub(crate) fn settled(desired: &Desired) -> Observed {
    let mut observed = empty();
    let plan = plan(desired, &observed);
    assert_eq!(plan.errors().count(), 0, "{:#?}", plan.findings);
    carry_out(desired, &plan, &mut observed, usize::MAX);
    observed
}

/// Applies the effect of the first `count` steps of a plan to the observed state.
pub(crate) fn carry_out(desired: &Desired, plan: &Plan, observed: &mut Observed, count: usize) {
    for step in plan.steps.iter().take(count) {
        carry_out_step(desired, step, observed);
    }
}

fn carry_out_step(desired: &Desired, step: &Step, observed: &mut Observed) {
    let pve = &mut observed.pve;
    match &step.action {
        Action::FetchImage(fetch) => {
            let volume = Volume {
                volid: fetch.volume.clone(),
                format: None,
                size: Some(1 << 28),
                created: None,
                vmid: None,
            };
            let place = (fetch.host.clone(), fetch.volume.storage().clone());
            pve.contents.entry(place).or_insert_with(|| Ok(vec![])).as_mut().unwrap().push(volume);
        }
        Action::CreateVm(create) => {
            let config = stored(create.own.vm.vmid, &VmConfig::default(), &create.options);
            appear(pve, &create.own.vm, config);
        }
        Action::CloneVm(clone) => {
            let template = pve.vms[&clone.template.vmid].config.clone().unwrap();
            let options = template.iter().filter(|(key, _)| *key != "template");
            let options = options.fold(VmOptions::new(), |set, (key, value)| set.set(key, value));
            let options = options
                .set("smbios1", "uuid=11111111-2222-4333-8444-555555555555")
                .name(&clone.clone.name)
                .description(&clone.clone.description);
            let config = stored(clone.own.vm.vmid, &VmConfig::default(), &options);
            appear(pve, &clone.own.vm, config);
        }
        Action::ResizeDisk(resize) => {
            let config = config_of(pve, resize.own.vm.vmid);
            let mut drive = config.drive(&resize.slot).unwrap();
            drive.options.set("size", format!("{}G", resize.gib));
            let options = VmOptions::new().drive(&resize.slot, &drive);
            put(pve, resize.own.vm.vmid, &options, &[]);
        }
        Action::FinishVm(finish) => {
            put(pve, finish.own.vm.vmid, &finish.set, &finish.delete);
            let pool = desired.node(&finish.own.identity.node).and_then(|node| node.pool.clone());
            guest(pve, finish.own.vm.vmid).pool = pool;
        }
        Action::StartVm(start) => {
            pve.vms.get_mut(&start.own.vm.vmid).unwrap().is_running = true;
        }
        Action::ChangeVm(change) => {
            put(pve, change.own.vm.vmid, &change.set, &change.delete);
            if let Some(pool) = &change.pool {
                guest(pve, change.own.vm.vmid).pool = Some(pool.clone());
            }
        }
        Action::RestoreMarker(restore) => {
            let OwnVm { vm, identity } = &restore.own;
            let notes = config_of(pve, vm.vmid).description().to_owned();
            let notes = identity.lost_marker().restore(&notes, &restore.cluster);
            put(pve, vm.vmid, &VmOptions::new().description(&notes), &[]);
        }
        Action::MigrateVm(migrate) => {
            let vmid = migrate.own.vm.vmid;
            guest(pve, vmid).node = migrate.target.clone();
            pve.vms.get_mut(&vmid).unwrap().host = migrate.target.clone();
        }
        Action::ShutdownNode(shutdown) => {
            let seen = pve.vms.get_mut(&shutdown.own.vm.vmid).unwrap();
            seen.is_running = false;
            seen.pending.clear();
        }
        Action::DrainNode(drain) => {
            if let Some(registered) = registered(observed) {
                registered.cordoned.insert(drain.node.clone(), CordonedBy::Talmox);
            }
        }
        Action::UncordonNode(uncordon) => {
            if let Some(registered) = registered(observed) {
                registered.cordoned.remove(&uncordon.node);
            }
        }
        Action::ChangeConfig(change) => {
            let Some(TalosSeen::OwnNode(found)) = observed.nodes.get_mut(&change.node.name) else {
                panic!("{}", change.node.name)
            };
            found.config = change.config.text().cloned();
            (found.saved, found.dry_run) = (None, None);
        }
        Action::DetachCidata(detach) => {
            let set = VmOptions::new();
            let set = if detach.protect { set.protection(true) } else { set };
            put(pve, detach.own.vm.vmid, &set, &[detach.slot.to_string()]);
        }
        Action::StopVm(stop) => pve.vms.get_mut(&stop.own.vm.vmid).unwrap().is_running = false,
        Action::DestroyVm(destroy) => {
            let vmid = destroy.own.vm.vmid;
            pve.vms.remove(&vmid).unwrap();
            pve.resources.guests.retain(|guest| guest.vmid != vmid);
            observed.nodes.remove(&destroy.own.identity.node);
        }
        Action::ApplyConfig(apply) => {
            let node = desired.node(&apply.node.name).unwrap();
            let configured = Configured {
                address: node.addresses.first().copied(),
                version: desired.talos_version.clone(),
                schematic: node.schematic.clone(),
                config: apply.config.text().cloned(),
                etcd: if node.is_control_plane { EtcdSeen::Waiting } else { EtcdSeen::Unknown },
                ..Configured::default()
            };
            observed.nodes.insert(node.name.clone(), TalosSeen::OwnNode(Box::new(configured)));
        }
        Action::RemoveMember(remove) => leave(observed, &remove.member),
        Action::ResetNode(reset) => {
            pve.vms.get_mut(&reset.node.own.vm.vmid).unwrap().is_running = false;
        }
        Action::DeleteNode(delete) => {
            if let talmox_plan::observed::KubernetesSeen::Answers(found) = &mut observed.kubernetes
            {
                found.nodes.remove(&delete.node);
                found.cordoned.remove(&delete.node);
            }
        }
        Action::RestartKubelet(restart) => {
            if let Some(registered) = registered(observed) {
                registered.nodes.insert(restart.node.name.clone());
            }
        }
        Action::BootstrapEtcd(bootstrap) => join(observed, &bootstrap.node.name, true),
        Action::AwaitMember(member) => {
            join(observed, &member.node.name, member.node.is_control_plane);
            if let Some(registered) = registered(observed) {
                registered.nodes.insert(member.node.name.clone());
            }
        }
        _ => {}
    }
}

fn guest(pve: &mut Pve, vmid: VmId) -> &mut Guest {
    pve.resources.guests.iter_mut().find(|guest| guest.vmid == vmid).unwrap()
}

/// The nodes in Kubernetes. None if Kubernetes does not answer.
pub(crate) fn registered(observed: &mut Observed) -> Option<&mut Registered> {
    match &mut observed.kubernetes {
        KubernetesSeen::Answers(registered) => Some(registered),
        KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => None,
    }
}

fn join(observed: &mut Observed, name: &str, is_control_plane: bool) {
    let Some(TalosSeen::OwnNode(found)) = observed.nodes.get_mut(name) else { panic!("{name}") };
    found.has_kubelet = true;
    if !is_control_plane {
        return;
    }
    found.etcd = EtcdSeen::Member { names: vec![] };
    // Every member lists all members.
    let lists = observed.nodes.iter_mut().filter_map(|(name, seen)| match seen {
        TalosSeen::OwnNode(found) => match &mut found.etcd {
            EtcdSeen::Member { names } => Some((name.clone(), names)),
            _ => None,
        },
        _ => None,
    });
    let (all, lists): (Vec<String>, Vec<&mut Vec<String>>) = lists.unzip();
    for names in lists {
        names.clone_from(&all);
    }
}

/// Removes a member from the lists of all members.
fn leave(observed: &mut Observed, member: &str) {
    for seen in observed.nodes.values_mut() {
        let TalosSeen::OwnNode(found) = seen else { continue };
        if let EtcdSeen::Member { names } = &mut found.etcd {
            names.retain(|name| name != member);
        }
    }
}

pub(crate) fn config_of(pve: &Pve, vmid: VmId) -> VmConfig {
    pve.vms[&vmid].config.clone().unwrap()
}

/// Adds a VM to the observed state.
pub(crate) fn appear(pve: &mut Pve, vm: &Vm, config: VmConfig) {
    pve.ids.remove(&vm.vmid);
    pve.resources.guests.push(Guest {
        vmid: vm.vmid,
        node: vm.node.clone(),
        is_vm: true,
        name: config.name().map(str::to_owned),
        status: "stopped".to_owned(),
        template: config.is_template(),
        tags: vec![],
        lock: config.lock().map(str::to_owned),
        pool: None,
        ha_state: None,
        max_memory: None,
        max_cpu: None,
        uptime: None,
    });
    let host = vm.node.clone();
    let seen = VmSeen { host, is_running: false, config: Ok(config), pending: vec![] };
    pve.vms.insert(vm.vmid, seen);
}

/// Changes the options of a VM as a PUT request does. Existing drives are kept.
pub(crate) fn put(pve: &mut Pve, vmid: VmId, set: &VmOptions, delete: &[String]) {
    let old = config_of(pve, vmid);
    let is_new = |key: &str, value: &str| {
        key.parse::<DiskSlot>().is_err()
            || old.get(key).is_none()
            || Drive::parse(value).volume_id().is_some()
    };
    let set = set.iter().filter(|(key, value)| is_new(key, value));
    let set = set.fold(VmOptions::new(), |all, (key, value)| all.set(key, value));
    let config = stored(vmid, &old, &set);
    let kept = config.iter().filter(|(key, _)| !delete.iter().any(|gone| gone == key));
    let kept = kept.map(|(key, value)| (key.to_owned(), value.to_owned()));
    pve.vms.get_mut(&vmid).unwrap().config = Ok(VmConfig::new(kept));
}

/// The config as Proxmox stores it, in its own spelling.
fn stored(vmid: VmId, old: &VmConfig, set: &VmOptions) -> VmConfig {
    let mut all: BTreeMap<String, String> =
        old.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let mut number = 0;
    for (key, value) in set.iter() {
        let value = match key {
            "tags" => value.replace(';', "; ").to_uppercase(),
            "agent" => "1".to_owned(),
            "machine" => format!("type={value}"),
            _ if key.parse::<DiskSlot>().is_ok() => drive(vmid, value, &mut number),
            _ if key.starts_with("net") && !value.contains("firewall=") => {
                format!("{},firewall=0", value.to_lowercase())
            }
            _ => value.trim_end().to_owned(),
        };
        all.insert(key.to_owned(), value);
    }
    all.insert("vmgenid".to_owned(), "b3e6e2b0-0000-4000-8000-000000000000".to_owned());
    all.insert("digest".to_owned(), "0123456789abcdef0123456789abcdef01234567".to_owned());
    VmConfig::new(all)
}

fn drive(vmid: VmId, text: &str, number: &mut u32) -> String {
    let drive = Drive::parse(text);
    let volume = |name: String| format!("{}:{name}", drive.storage().unwrap());
    let size = match &drive.source {
        DriveSource::New { gib, .. } => format!("{gib}G"),
        DriveSource::Import { .. } => "4M".to_owned(),
        DriveSource::Cloudinit { .. } => {
            return format!("{},media=cdrom", volume(format!("vm-{vmid}-cloudinit")));
        }
        _ => return text.to_owned(),
    };
    let name = volume(format!("vm-{vmid}-disk-{number}"));
    *number += 1;
    let options = drive.options.to_string();
    let comma = if options.is_empty() { "" } else { "," };
    format!("{name}{comma}{options},size={size}")
}

/// Marks a vmid as used by a VM that this login did not create.
pub(crate) fn taken(observed: &mut Observed, number: u32) {
    let seen = IdSeen::Taken { making: None, made_by_login: false, lock: None };
    observed.pve.ids.insert(vmid(number), seen);
}

/// Adds a foreign VM on pve1.
pub(crate) fn foreign(observed: &mut Observed, number: u32, name: &str, description: &str) {
    let options = VmOptions::new().name(name).description(description);
    let config = stored(vmid(number), &VmConfig::default(), &options);
    appear(&mut observed.pve, &Vm::new(&host("pve1"), vmid(number)), config);
    taken(observed, number);
}

/// Adds a template without notes on pve1, as a user creates it by hand.
pub(crate) fn template(observed: &mut Observed, number: u32, name: &str) {
    described_template(observed, number, name, "");
}

/// Adds a template with these notes on pve1.
pub(crate) fn described_template(observed: &mut Observed, number: u32, name: &str, notes: &str) {
    let options = VmOptions::new()
        .name(name)
        .description(notes)
        .set("template", 1)
        .set("scsi0", "local-lvm:base-9000-disk-1,size=10G")
        .set("efidisk0", "local-lvm:base-9000-disk-0,efitype=4m,pre-enrolled-keys=0,size=4M")
        .set("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0")
        .set("net1", "virtio=BC:24:11:00:00:02,bridge=vmbr0");
    let config = stored(vmid(number), &VmConfig::default(), &options);
    appear(&mut observed.pve, &Vm::new(&host("pve1"), vmid(number)), config);
}

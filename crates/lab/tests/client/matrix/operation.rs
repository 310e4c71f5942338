//! All operations of the client that change something. Each is one step in the test scenario.

use std::time::Duration;

use talmox_pve::api::storage::{Content, Download, Upload};
use talmox_pve::api::{ha, mapping, pool, qemu, storage};
use talmox_pve::client::{Client, FileSource};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::id::{StorageId, Upid, VolumeId};
use talmox_pve::property::{Drive, Net, Smbios, Tags};
use talmox_pve::{PveError, Request};

use super::reading::Reading;
use crate::rig::{TIMEOUT, id, vm, vmid};

/// Request of a step. The variants differ in how the client detects the end of the request.
pub(super) enum Step {
    Task(Request<Upid>),
    Call(Request<()>),
    Volume(Request<VolumeId>),
    File(Upload),
    Read(Reading),
}

pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) step: Step,
    /// Step that is run before the operation.
    pub(super) before: Option<Step>,
    /// Storage on which the operation needs free space.
    pub(super) room: Option<&'static str>,
    /// Text that stays in the VM config if the task fails halfway. On a real host it stays as well.
    pub(super) stuck_at: Option<&'static str>,
}

/// Content of an uploaded image. It has the minimum size that qemu-img accepts.
pub(super) const IMAGE: &[u8] = &[7; 64 * 1024];

impl Step {
    pub(super) async fn take(&self, client: &Client) -> Result<(), PveError> {
        match self {
            Self::Task(request) => client.run(request, TIMEOUT).await.map(|_| ()),
            Self::Call(request) => client.send(request).await,
            Self::Volume(request) => client.send(request).await.map(|_| ()),
            Self::File(upload) => {
                let file = FileSource::new(IMAGE, IMAGE.len() as u64);
                let running = client.upload(upload, file).await?;
                client.finish(running, TIMEOUT).await.map(|_| ())
            }
            Self::Read(reading) => reading.ask(client).await,
        }
    }

    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Task(request) => request.method().as_str(),
            Self::Call(request) => request.method().as_str(),
            Self::Volume(request) => request.method().as_str(),
            Self::File(_) => "POST",
            Self::Read(_) => "GET",
        }
    }

    pub(super) fn is_task(&self) -> bool {
        matches!(self, Self::Task(_) | Self::File(_))
    }

    pub(super) fn is_read(&self) -> bool {
        matches!(self, Self::Read(_))
    }

    /// Whether another host forwards the request, because the path contains a host.
    pub(super) fn is_proxied(&self) -> bool {
        match self {
            Self::Task(request) => request.path().starts_with("/nodes/"),
            Self::Call(request) => request.path().starts_with("/nodes/"),
            Self::Volume(_) => true,
            Self::File(_) => false,
            Self::Read(reading) => reading.path.starts_with("/nodes/"),
        }
    }
}

pub(super) fn operation(name: &'static str, step: Step) -> Operation {
    Operation { name, step, before: None, room: None, stuck_at: None }
}

fn task(name: &'static str, request: Request<Upid>) -> Operation {
    operation(name, Step::Task(request))
}

fn call(name: &'static str, request: Request<()>) -> Operation {
    operation(name, Step::Call(request))
}

impl Operation {
    fn needs(self, storage: &'static str) -> Self {
        Self { room: Some(storage), ..self }
    }

    fn leaves(self, mark: &'static str) -> Self {
        Self { stuck_at: Some(mark), ..self }
    }

    fn after(self, step: Step) -> Self {
        Self { before: Some(step), ..self }
    }
}

/// Operations that exist in every release.
pub(super) fn common() -> Vec<Operation> {
    [machines(), disks(), power(), cluster()].into_iter().flatten().collect()
}

/// Operations that exist only in this release.
pub(super) fn own(release: &str) -> Vec<Operation> {
    if release == "8.4" { groups() } else { rules() }
}

fn options() -> VmOptions {
    let mac = id("BC:24:11:AA:01:2C");
    VmOptions::new()
        .name("new")
        .cores(2)
        .memory_mib(2048)
        .net(0, &Net::virtio(mac, &id("vmbr0")))
        .smbios1(&Smbios::with_uuid("aaaaaaaa-0000-4000-8000-000000000300"))
}

fn change(set: VmOptions) -> VmChange {
    VmChange { set, ..VmChange::default() }
}

fn clone(full: bool) -> Request<Upid> {
    let wanted = qemu::CloneVm {
        newid: vmid(301),
        name: "copy".to_owned(),
        description: "a copy".to_owned(),
        pool: Some(id("talos")),
        full,
        storage: full.then(|| id("tank")),
        target: None,
    };
    qemu::clone(&vm(100), &wanted)
}

fn machines() -> Vec<Operation> {
    let lvm = id("local-lvm");
    let scsi0 = id("scsi0");
    let pool = id("talos");
    let empty = options().drive(&scsi0, &Drive::new(&id("thick"), 4));
    let imported = options()
        .drive(&scsi0, &Drive::import(&lvm, &id("local:import/talos.qcow2")))
        .drive(&id("ide2"), &Drive::cloudinit(&lvm));
    let migrate = |local: bool| qemu::Migrate {
        target: id("pve1"),
        online: false,
        local_disks_to: local.then(|| id("tank")),
    };
    let small = change(VmOptions::new().cores(3).tags(&Tags::of(["b", "a"])));
    vec![
        task("create", qemu::create(&vm(300), Some(&pool), &empty)).needs("thick"),
        task("import", qemu::create(&vm(300), Some(&pool), &imported)).needs("local-lvm"),
        task("clone", clone(true)).needs("tank"),
        task("linked clone", clone(false)),
        task("template", qemu::make_template(&vm(101))).leaves("template"),
        task("delete", qemu::delete(&vm(101), true)),
        task("migrate", qemu::migrate(&vm(104), &migrate(false))),
        task("migrate disks", qemu::migrate(&vm(101), &migrate(true))).needs("tank"),
        call("set config", qemu::set_config(&vm(101), &small)),
        call("set config of a running VM", qemu::set_config(&vm(102), &small)),
        task("start config", qemu::start_config(&vm(101), &small)),
    ]
}

fn disks() -> Vec<Operation> {
    let lvm: StorageId = id("local-lvm");
    let scsi1 = id("scsi1");
    let add = change(VmOptions::new().drive(&id("scsi2"), &Drive::new(&id("thick"), 2)));
    let detach = VmChange { delete: vec!["scsi1".to_owned()], ..VmChange::default() };
    let moved = qemu::MoveDisk {
        slot: id("scsi0"),
        from: lvm.clone(),
        to: id("tank"),
        delete: true,
        digest: None,
    };
    let name = id("again");
    vec![
        call("add disk", qemu::set_config(&vm(101), &add)).needs("thick"),
        task("add disk by task", qemu::start_config(&vm(101), &add)).needs("thick"),
        call("detach disk", qemu::set_config(&vm(101), &detach)),
        call("unlink disk", qemu::unlink(&vm(101), &[scsi1], true)),
        task("resize", qemu::resize(&vm(101), &id("scsi0"), 40, None)),
        task("move disk", qemu::move_disk(&vm(101), &moved)).needs("tank"),
        call("cloudinit", qemu::regenerate_cloudinit(&vm(101))),
        task("snapshot", qemu::create_snapshot(&vm(101), &name, Some("x"), false)),
        task("snapshot with memory", qemu::create_snapshot(&vm(102), &name, None, true))
            .needs("local-lvm"),
        task("delete snapshot", qemu::delete_snapshot(&vm(103), &id("before")))
            .leaves("snapshot-delete"),
        task("rollback", qemu::rollback(&vm(103), &id("before"), false)).leaves("rollback"),
    ]
}

fn power() -> Vec<Operation> {
    let minute = Duration::from_mins(1);
    vec![
        task("start", qemu::start(&vm(101))),
        task("stop", qemu::stop(&vm(102), false)),
        task("shutdown", qemu::shutdown(&vm(102), minute, true)),
        task("reboot", qemu::reboot(&vm(102), minute)),
        task("reset", qemu::reset(&vm(102))),
        task("suspend", qemu::suspend(&vm(102), false)),
        task("hibernate", qemu::suspend(&vm(102), true)).needs("local-lvm"),
        task("resume", qemu::resume(&vm(102))).after(Step::Task(qemu::suspend(&vm(102), false))),
    ]
}

/// URL from which the operations download a file. A test that uses it must start a server.
pub(super) const URL: &str = "http://factory.example/talos.raw";

fn cluster() -> Vec<Operation> {
    let (local, thick) = (id("local"), id("thick"));
    let node = id("pve2");
    let upload = Upload {
        node: id("pve1"),
        storage: id("local"),
        content: Content::Import,
        name: id("up.raw"),
        checksum: None,
    };
    let download = Download {
        url: URL.to_owned(),
        content: Content::Import,
        name: id("down.raw"),
        checksum: None,
        compression: None,
        verify_certificates: true,
    };
    let disk = storage::allocate(&node, &thick, vmid(309), &id("vm-309-disk-0"), 1 << 20);
    let device = mapping::MappedDevice {
        node: id("pve2"),
        path: "0000:01:00.0".to_owned(),
        id: "10de:2204".to_owned(),
        iommu_group: Some(1),
        subsystem_id: None,
    };
    let described = Some("for the models".to_owned());
    let mapped = mapping::Mapped {
        devices: vec![device],
        description: described,
        ..mapping::Mapped::default()
    };
    let members = |number| pool::Members { guests: vec![vmid(number)], storages: vec![] };
    let care = |state: &str| ha::HaSettings {
        state: Some(state.to_owned()),
        max_restart: Some(2),
        ..ha::HaSettings::default()
    };
    vec![
        operation("upload", Step::File(upload)).needs("local"),
        task("download", storage::download(&node, &local, &download)).needs("local"),
        operation("allocate", Step::Volume(disk)).needs("thick"),
        task("delete file", storage::delete(&node, &id("local:import/old.raw"))),
        call("create pool", pool::create(&id("fresh"), Some("x"))),
        call("fill pool", pool::add(&id("talos"), &members(102), false)),
        call("clear pool", pool::remove(&id("spare"), &members(101))),
        call("delete pool", pool::delete(&id("empty"))),
        call("create mapping", mapping::create(&id("gpu2"), &mapped)),
        call("update mapping", mapping::update(&id("gpu"), &mapped)),
        call("delete mapping", mapping::delete(&id("gpu"))),
        call("add to HA", ha::add_resource(vmid(104), &care("ignored"))),
        call("change in HA", ha::update_resource(vmid(103), &care("ignored"))),
        call("take from HA", ha::delete_resource(vmid(103))),
    ]
}

fn groups() -> Vec<Operation> {
    let group = ha::Group {
        group: id("here"),
        nodes: vec![(id("pve1"), Some(2)), (id("pve2"), None)],
        restricted: true,
        comment: None,
    };
    let create = ha::create_group(&group);
    vec![
        call("create group", create.clone()),
        call("delete group", ha::delete_group(&group.group)).after(Step::Call(create)),
    ]
}

fn rules() -> Vec<Operation> {
    let rule = |strict| ha::Rule {
        rule: id("near"),
        kind: ha::RuleKind::NodeAffinity { nodes: vec![(id("pve1"), Some(2))], strict },
        resources: vec!["vm:103".to_owned()],
        disabled: false,
        comment: None,
        digest: None,
    };
    let create = || ha::create_rule(&rule(false));
    vec![
        call("create rule", create()),
        call("update rule", ha::update_rule(&rule(true))).after(Step::Call(create())),
        call("delete rule", ha::delete_rule(&id("near"))).after(Step::Call(create())),
    ]
}

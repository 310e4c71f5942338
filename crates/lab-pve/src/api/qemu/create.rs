//! Making a new VM.
//!
//! As long as its disks are being made nobody can tell whose it is: its configuration is a lock and
//! nothing else, and it is in no pool.

use talmox_lab_environment::Work;

use super::vmid;
use crate::call::{Call, Outcome, Reply};
use crate::lock::WORKER_PATIENCE;
use crate::schema::{self, FormatName};
use crate::task::TaskHandle;
use crate::vm::disks::{self, Maker, Worker};
use crate::vm::rights::Change;
use crate::vm::{boot, config, identity, machine, tags};
use crate::world::{Caller, Config, Vm, World};
use crate::{Refusal, Release};

/// Parameters of the call that are no options of the VM.
const OWN_PARAMETERS: &[&str] = &[
    "node",
    "vmid",
    "archive",
    "bwlimit",
    "force",
    "pool",
    "start",
    "ha-managed",
    "storage",
    "unique",
    "live-restore",
    "import-working-storage",
];

/// A VM to be made.
#[derive(Debug)]
struct NewVm {
    caller: Caller,
    node: String,
    vmid: u32,
    options: Config,
    pool: Option<String>,
    storage: Option<String>,
    start: bool,
    ha_managed: bool,
}

pub(super) async fn create(call: &Call) -> Outcome {
    let mut new = NewVm::read(call);
    {
        let mut chance = call.site.chance(&format!("vm/{}", new.vmid));
        let world = call.world();
        new.check(call, &world)?;
        identity::complete_nets(&world, &mut chance, &mut new.options);
    }
    let lock = call.site.locks.vm(new.vmid, WORKER_PATIENCE * 5).await;
    let guard = lock.map_err(|timeout| new.failed(timeout))?;
    call.site.wait(Work::Call, &format!("vm/{}", new.vmid)).await;
    new.reserve(&mut call.world())?;
    drop(guard);
    let id = new.vmid.to_string();
    let upid = call.site.start(&call.node, "qmcreate", &id, &call.caller, |task| async move {
        let made = new.make(&task).await;
        if made.is_err() {
            task.site.world().vms.remove(&new.vmid);
        }
        made.map_err(|refusal| refusal.to_string())?;
        new.afterwards(&task);
        Ok(())
    });
    Ok(Reply::upid(upid))
}

impl NewVm {
    fn read(call: &Call) -> Self {
        let params = &call.params;
        let text = |name: &str| params.text(name).map(str::to_owned);
        let options = params
            .iter()
            .filter(|(key, _)| !OWN_PARAMETERS.contains(key))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Self {
            caller: call.caller.clone(),
            node: call.node.clone(),
            vmid: vmid(call),
            options,
            pool: text("pool"),
            storage: text("storage"),
            start: params.flag("start").unwrap_or_default(),
            ha_managed: params.flag("ha-managed").unwrap_or_default(),
        }
    }

    /// Everything that can be refused before the VM is there.
    fn check(&mut self, call: &Call, world: &World) -> Result<(), Refusal> {
        if let Some(pool) = &self.pool {
            world.check_pool_exists(pool)?;
        }
        if let Some(storage) = &self.storage {
            let path = format!("/storage/{storage}");
            world.check(&self.caller, &path, &["Datastore.AllocateSpace"])?;
        }
        if self.ha_managed {
            world.check(&self.caller, "/", &["Sys.Console"])?;
        }
        let pool = self.pool.as_deref();
        if self.start && world.release == Release::V9 {
            world.check_vm(&self.caller, self.vmid, pool, &["VM.PowerMgmt"])?;
        }
        let change = Change { world, caller: &self.caller, vmid: self.vmid, pool };
        change.check_create()?;
        if let Some(archive) = call.params.text("archive") {
            return self.check_archive(&change, archive);
        }
        disks::resolve_cdrom(&mut self.options);
        change.check_storages(&self.options, self.storage.as_deref())?;
        change.check_names(self.options.keys())?;
        change.check_devices(&self.options)?;
        change.check_bridges(&self.options)?;
        change.check_cpu_model(&self.options, None)?;
        disks::check_drives(world, &mut self.options)
    }

    /// Restoring a backup: the lab has none, so this ends in a refusal, the one that fits.
    fn check_archive(&self, change: &Change<'_>, archive: &str) -> Result<(), Refusal> {
        if let Some(key) = self.options.keys().find(|key| crate::vm::drive::is_slot(key)) {
            return Err(Refusal::parameter(key, "option conflicts with option 'archive'"));
        }
        if archive == "-" {
            return Err(Refusal::failed("pipe requires cli environment"));
        }
        if let Some(volume) = crate::world::VolumeId::parse(archive) {
            change.check_volume(&volume, Some(crate::world::ContentType::Backup))?;
        } else {
            change.check_path()?;
        }
        Err(Refusal::failed(format!("volume '{archive}' does not exist")))
    }

    fn failed(&self, why: impl std::fmt::Display) -> Refusal {
        Refusal::failed(format!("unable to create VM {} - {why}", self.vmid))
    }

    /// Takes the number: from now on it exists, as a lock.
    fn reserve(&self, world: &mut World) -> Result<(), Refusal> {
        let vmid = self.vmid;
        if let Some(other) = world.vms.get(&vmid) {
            let node = &other.node;
            return Err(self.failed(format!("VM {vmid} already exists on node '{node}'")));
        }
        let locked = Config::from([("lock".to_owned(), "create".to_owned())]);
        let vm = Vm { node: self.node.clone(), config: locked, ..Vm::default() };
        world.vms.insert(vmid, vm);
        Ok(())
    }

    async fn make(&self, task: &TaskHandle) -> Result<(), Refusal> {
        let site = &task.site;
        let lock = site.locks.vm(self.vmid, WORKER_PATIENCE).await;
        let _guard = lock.map_err(|timeout| Refusal::failed(timeout.to_string()))?;
        let worker = Worker::Task(task.clone());
        let maker = Maker {
            worker: &worker,
            caller: &self.caller,
            node: &self.node,
            vmid: self.vmid,
            existing: &Config::new(),
            default_storage: self.storage.as_deref(),
        };
        let made = maker.make(&self.options).await.map_err(|refusal| self.failed(refusal))?;
        let mut options = self.options.clone();
        options.extend(made.options);
        let finished = self.finish(task, options);
        if let Err(refusal) = finished {
            maker.take_back(&made.volumes);
            return Err(self.failed(refusal));
        }
        if let Some(pool) = &self.pool {
            let mut world = site.world();
            world.pools.entry(pool.clone()).or_default().vms.insert(self.vmid);
        }
        Ok(())
    }

    /// Fills in what Proxmox adds, and writes the configuration.
    fn finish(&self, task: &TaskHandle, mut options: Config) -> Result<(), Refusal> {
        let site = &task.site;
        let mut chance = site.chance(&format!("vm/{}", self.vmid));
        let mut world = site.world();
        let qemu = world.release.qemu();
        options.insert("meta".to_owned(), format!("creation-qemu={qemu},ctime={}", site.now()));
        if !options.contains_key("boot") {
            options.insert("boot".to_owned(), boot::default(&options));
        }
        check_clipboard(&world, &options)?;
        if !options.contains_key("smbios1") {
            options.insert("smbios1".to_owned(), format!("uuid={}", identity::uuid(&mut chance)));
        }
        if options.get("vmgenid").is_none_or(|id| id == "1") {
            options.insert("vmgenid".to_owned(), identity::uuid(&mut chance));
        }
        let ostype = options.get("ostype").cloned().unwrap_or_default();
        if let Some(machine) = machine::pinned(&world, options.get("machine"), &ostype)? {
            options.insert("machine".to_owned(), machine);
        }
        if let Some(given) = options.get("tags") {
            tags::check_new(&world, &self.caller, self.vmid, given)?;
            if world.release == Release::V9 {
                let normal = tags::normal(&world, given);
                options.insert("tags".to_owned(), normal);
            }
        }
        config::tidy(&mut options);
        world.vm_mut(&self.node, self.vmid)?.config = options;
        Ok(())
    }

    /// What is asked of Proxmox once the VM is there. If it fails the VM stays.
    fn afterwards(&self, task: &TaskHandle) {
        if self.ha_managed {
            task.log("Add as HA resource");
            let state = if self.start { "started" } else { "stopped" };
            let options = Config::from([("state".to_owned(), state.to_owned())]);
            task.site.world().ha.resources.insert(format!("vm:{}", self.vmid), options);
        }
        if self.start {
            task.log("Execute autostart");
            super::status::autostart(task, &self.caller, &self.node, self.vmid);
        }
    }
}

/// A clipboard for VNC needs a display that can have one.
fn check_clipboard(world: &World, options: &Config) -> Result<(), Refusal> {
    let Some(vga) = options.get("vga") else { return Ok(()) };
    let fields = schema::format(world.release, FormatName::Vga).parse(vga).unwrap_or_default();
    let kind = fields.get("type").unwrap_or("std");
    if fields.get("clipboard").is_some()
        && matches!(kind, "none" | "serial0" | "serial1" | "serial2" | "serial3")
    {
        return Err(Refusal::failed(format!(
            "vga type {kind} is not compatible with VNC clipboard"
        )));
    }
    Ok(())
}

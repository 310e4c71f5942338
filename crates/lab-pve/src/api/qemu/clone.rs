//! Making a VM from another one.
//!
//! Nobody can tell whose the new VM is before its first disk is there; it is in its pool last of all.

use super::vmid;
use crate::call::{Call, Outcome, Reply};
use crate::lock::WORKER_PATIENCE;
use crate::storage::{self, Feature};
use crate::task::TaskHandle;
use crate::vm::clone_disk::{DiskClone, take_back};
use crate::vm::clone_rights::CloneRights;
use crate::vm::config;
use crate::vm::drive::{self, Drive};
use crate::vm::identity::{self, is_net};
use crate::vm::power::is_running;
use crate::vm::volumes::volume_of;
use crate::world::{Caller, Config, ContentType, Vm, VolumeId, World};
use crate::{Refusal, Release};

/// What the new VM is called until it has a configuration.
const PLACEHOLDER: &str = " qmclone temporary file";

/// Options that tell of the source's past.
const NOT_COPIED: &[&str] = &[
    "parent",
    "snaptime",
    "vmstate",
    "snapstate",
    "runningcpu",
    "runningmachine",
    "running-nets-host-mtu",
    "lock",
    "template",
];

/// A VM to be cloned.
#[derive(Debug)]
struct Clone {
    caller: Caller,
    node: String,
    vmid: u32,
    newid: u32,
    name: Option<String>,
    description: Option<String>,
    pool: Option<String>,
    snapshot: Option<String>,
    storage: Option<String>,
    format: Option<String>,
    full: Option<bool>,
    /// Another host that the new VM is for.
    target: Option<String>,
    running: bool,
}

/// What is to be done, once everything was found to be possible.
#[derive(Debug)]
struct Plan {
    /// The new VM's options, drives that are to be made left out.
    config: Config,
    disks: Vec<PlannedDisk>,
    /// Options of the source whose changes wait for its next start.
    discarded: Vec<String>,
}

#[derive(Debug)]
struct PlannedDisk {
    drive: Drive,
    full: bool,
}

pub(super) fn clone(call: &Call) -> Outcome {
    let clone = Clone::read(call)?;
    clone.plan(&call.world())?;
    let id = clone.vmid.to_string();
    let upid = call.site.start(&call.node, "qmclone", &id, &call.caller, |task| async move {
        clone.run(&task).await.map_err(|refusal| refusal.to_string())
    });
    Ok(Reply::upid(upid))
}

impl Clone {
    fn read(call: &Call) -> Result<Self, Refusal> {
        let params = &call.params;
        let text = |name: &str| params.text(name).map(str::to_owned);
        let given = |name: &str| text(name).filter(|text| !text.is_empty());
        let number = |name: &str| params.number(name).and_then(|id| u32::try_from(id).ok());
        let vmid = vmid(call);
        Ok(Self {
            caller: call.caller.clone(),
            node: call.node.clone(),
            vmid,
            newid: number("newid").unwrap_or_default(),
            name: given("name"),
            description: given("description"),
            pool: text("pool"),
            snapshot: given("snapname"),
            storage: text("storage"),
            format: text("format"),
            full: params.flag("full"),
            target: given("target").filter(|target| *target != call.node && target != "localhost"),
            running: is_running(&call.world(), &call.node, vmid)?,
        })
    }

    /// Looks whether all this can be done.
    fn plan(&self, world: &World) -> Result<Plan, Refusal> {
        self.check_targets(world)?;
        let vm = world.vm(&self.node, self.vmid)?;
        config::check_lock(vm)?;
        if vm.is_running() != self.running {
            return Err(Refusal::failed("unexpected state change"));
        }
        let source = self.source(vm)?;
        let full = self.full.unwrap_or_else(|| !vm.is_template());
        for (name, given) in [("storage", &self.storage), ("format", &self.format)] {
            if given.is_some() && !full {
                return Err(Refusal::failed(format!(
                    "parameter '{name}' not allowed for linked clones"
                )));
            }
        }
        let rights = CloneRights { world, caller: &self.caller, vmid: self.newid };
        let shared = rights.check(source, self.storage.as_deref())?;
        if let Some(target) = self.target.as_ref().filter(|_| !shared) {
            return Err(Refusal::failed(format!(
                "can't clone VM to node '{target}' (VM uses local storage)"
            )));
        }
        if world.vms.get(&self.newid).is_some_and(|other| other.node == self.node) {
            return Err(Refusal::failed(format!(
                "unable to create VM {}: config file already exists",
                self.newid
            )));
        }
        let mut plan = self.plan_options(world, source, full)?;
        if self.snapshot.is_none() {
            plan.discarded = vm.pending.keys().cloned().collect();
        }
        Ok(plan)
    }

    fn check_targets(&self, world: &World) -> Result<(), Refusal> {
        if let Some(pool) = &self.pool {
            world.check_pool_exists(pool)?;
        }
        if let Some(target) = self.target.as_ref().filter(|it| !world.hosts.contains_key(*it)) {
            return Err(Refusal::failed(format!("no such cluster node '{target}'")));
        }
        let Some(id) = self.storage.as_deref().filter(|id| !id.is_empty()) else { return Ok(()) };
        let storage = world.storage_on(id, &self.node)?;
        if !storage.content.contains(&ContentType::Images) {
            let text = format!("storage '{id}' does not support vm images");
            return Err(Refusal::parameter("storage", text));
        }
        if let Some(target) = &self.target {
            world.storage_on(id, target)?;
            if !storage.shared {
                return Err(Refusal::failed(format!("can't clone to non-shared storage '{id}'")));
            }
        }
        Ok(())
    }

    /// The configuration that is cloned: that of now, or that of a snapshot.
    fn source<'v>(&self, vm: &'v Vm) -> Result<&'v Config, Refusal> {
        let Some(name) = &self.snapshot else { return Ok(&vm.config) };
        let missing = || Refusal::failed(format!("snapshot '{name}' does not exist"));
        vm.snapshots.get(name).map(|snapshot| &snapshot.config).ok_or_else(missing)
    }

    fn plan_options(&self, world: &World, source: &Config, full: bool) -> Result<Plan, Refusal> {
        let mut plan = Plan { config: Config::new(), disks: vec![], discarded: vec![] };
        for (key, value) in source {
            if NOT_COPIED.contains(&key.as_str()) || drive::is_unused(key) {
                continue;
            }
            if key == "tpmstate0" && full && self.running && self.snapshot.is_none() {
                return Err(Refusal::failed("cannot clone TPM state while VM is running"));
            }
            if !drive::is_slot(key) {
                plan.config.insert(key.clone(), value.clone());
                continue;
            }
            let drive = Drive::parse(key, value).ok_or_else(|| {
                Refusal::failed(format!("unable to parse drive options for '{key}'"))
            })?;
            if drive.is_cdrom() && !drive.is_cloudinit() {
                plan.config.insert(key.clone(), value.clone());
                continue;
            }
            let full = full || drive.is_cloudinit() || key == "tpmstate0";
            self.check_feature(world, &drive, full)?;
            plan.disks.push(PlannedDisk { drive, full });
        }
        Ok(plan)
    }

    fn check_feature(&self, world: &World, drive: &Drive, full: bool) -> Result<(), Refusal> {
        let (feature, kind) =
            if full { (Feature::Copy, "Full") } else { (Feature::Clone, "Linked") };
        if storage::can(world, &volume_of(drive)?, feature, self.snapshot.as_deref())? {
            return Ok(());
        }
        let of = if self.snapshot.is_some() { " a snapshot of" } else { "" };
        Err(Refusal::failed(format!(
            "{kind} clone feature is not supported for{of} '{}' ({})",
            drive.file(),
            drive.key
        )))
    }

    async fn run(&self, task: &TaskHandle) -> Result<(), Refusal> {
        let locks = &task.site.locks;
        let source = if self.running {
            locks.vm(self.vmid, WORKER_PATIENCE).await
        } else {
            locks.vm_shared(self.vmid, WORKER_PATIENCE).await
        };
        let _source = source?;
        let _target = locks.vm(self.newid, WORKER_PATIENCE).await?;
        let plan = self.plan(&task.site.world())?;
        if task.site.world().release == Release::V9 {
            task.log(format!("creating a clone of VM {} with ID {}", self.vmid, self.newid));
        }
        self.reserve(&mut task.site.world())?;
        let mut made = vec![];
        let done = self.make(task, plan, &mut made).await;
        done.map_err(|refusal| {
            take_back(task, &self.node, &made);
            task.site.world().vms.remove(&self.newid);
            Refusal::failed(format!("clone failed: {refusal}"))
        })
    }

    /// Takes the number: from now on it exists, as a placeholder.
    fn reserve(&self, world: &mut World) -> Result<(), Refusal> {
        let (node, newid) = (&self.node, self.newid);
        if world.vms.contains_key(&newid) {
            return Err(Refusal::failed(format!(
                "close (rename) atomic file '/etc/pve/nodes/{node}/qemu-server/{newid}.conf' \
                 failed: File exists"
            )));
        }
        let placeholder = [("description", PLACEHOLDER), ("lock", "clone")];
        let config = placeholder.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        world.vms.insert(newid, Vm { node: node.clone(), config, ..Vm::default() });
        Ok(())
    }

    async fn make(
        &self,
        task: &TaskHandle,
        plan: Plan,
        made: &mut Vec<VolumeId>,
    ) -> Result<(), Refusal> {
        let mut config = plan.config;
        self.renew(task, &mut config);
        for PlannedDisk { drive, .. } in plan.disks.iter().filter(|it| !it.drive.is_cloudinit()) {
            storage::activate(&task.site.world(), &self.node, &volume_of(drive)?)?;
        }
        for PlannedDisk { drive, full } in plan.disks {
            let disk = DiskClone {
                task,
                node: &self.node,
                vmid: self.newid,
                drive: &drive,
                snapshot: self.snapshot.as_deref().filter(|_| !drive.is_cloudinit()),
                full,
                storage: self.storage.as_deref(),
                format: self.format.as_deref(),
                running: self.running,
            };
            let new = disk.make(made).await?;
            config.insert(new.key.clone(), new.print());
            self.write(task, config.clone())?;
        }
        config.remove("lock");
        if !plan.discarded.is_empty() {
            let options = plan.discarded.join(",");
            task.log(format!("found pending changes for '{options}', discarding for clone"));
        }
        self.write(task, config)?;
        let mut world = task.site.world();
        if let Some(target) = &self.target {
            world.vm_mut(&self.node, self.newid)?.node.clone_from(target);
        }
        if let Some(pool) = &self.pool {
            world.pools.entry(pool.clone()).or_default().vms.insert(self.newid);
        }
        Ok(())
    }

    fn write(&self, task: &TaskHandle, config: Config) -> Result<(), Refusal> {
        task.site.world().vm_mut(&self.node, self.newid)?.config = config;
        Ok(())
    }

    /// What a clone does not share with its source.
    fn renew(&self, task: &TaskHandle, config: &mut Config) {
        let mut chance = task.site.chance(&format!("vm/{}", self.newid));
        let world = task.site.world();
        for (_, net) in config.iter_mut().filter(|(key, _)| is_net(key)) {
            *net = identity::net_with_new_mac(&world, &mut chance, net);
        }
        let smbios = identity::smbios_with_new_uuid(&world, &mut chance, config.get("smbios1"));
        config.insert("smbios1".to_owned(), smbios);
        if let Some(id) = config.get_mut("vmgenid") {
            *id = identity::uuid(&mut chance);
        }
        let source = config.get("name").cloned().unwrap_or_else(|| self.vmid.to_string());
        let name = self.name.clone().unwrap_or_else(|| format!("Copy-of-VM-{source}"));
        config.insert("name".to_owned(), name);
        if let Some(description) = &self.description {
            config.insert("description".to_owned(), description.clone());
        }
        config.insert("lock".to_owned(), "clone".to_owned());
        config::tidy(config);
    }
}

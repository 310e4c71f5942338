//! `POST /nodes/{node}/qemu`: creation of a VM.
//!
//! As in Proxmox, the config contains only `lock: create` until all disks exist. Until then, the config does not show which
//! cluster or user the VM belongs to. The VM joins its pool at the end of the task.

use talmox_lab_environment::Work;

use super::vmid;
use crate::call::{Call, Outcome, Reply};
use crate::lock::WORKER_LOCK_TIMEOUT;
use crate::pve_state::{Caller, Config, PveState, Vm};
use crate::schema::{self, FormatName};
use crate::task::TaskHandle;
use crate::vm::disk_creation::{self, DiskCreator, Worker};
use crate::vm::option_permissions::ConfigChange;
use crate::vm::{boot, config, identity, machine, tags};
use crate::{ApiError, Release};

/// Parameters of the call that are not VM options.
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

/// Parsed request to create a VM.
#[derive(Debug)]
struct CreateRequest {
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
    let mut new = CreateRequest::read(call);
    {
        let mut chance = call.site.chance(&format!("vm/{}", new.vmid));
        let pve_state = call.pve_state();
        new.check(call, &pve_state)?;
        identity::complete_nets(&pve_state, &mut chance, &mut new.options);
    }
    let lock = call.site.locks.vm(new.vmid, WORKER_LOCK_TIMEOUT * 5).await;
    let guard = lock.map_err(|timeout| new.failed(timeout))?;
    call.site.wait(Work::Call, &format!("vm/{}", new.vmid)).await;
    new.reserve(&mut call.pve_state())?;
    drop(guard);
    let id = new.vmid.to_string();
    let upid = call.site.start(&call.node, "qmcreate", &id, &call.caller, |task| async move {
        let made = new.make(&task).await;
        if made.is_err() {
            task.site.pve_state().vms.remove(&new.vmid);
        }
        made.map_err(|error| error.to_string())?;
        new.add_to_ha_and_start(&task);
        Ok(())
    });
    Ok(Reply::upid(upid))
}

impl CreateRequest {
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

    /// Checks that Proxmox makes before it reserves the vmid.
    fn check(&mut self, call: &Call, pve_state: &PveState) -> Result<(), ApiError> {
        if let Some(pool) = &self.pool {
            pve_state.check_pool_exists(pool)?;
        }
        if let Some(storage) = &self.storage {
            let path = format!("/storage/{storage}");
            pve_state.check(&self.caller, &path, &["Datastore.AllocateSpace"])?;
        }
        if self.ha_managed {
            pve_state.check(&self.caller, "/", &["Sys.Console"])?;
        }
        let pool = self.pool.as_deref();
        if self.start && pve_state.release == Release::V9 {
            pve_state.check_vm(&self.caller, self.vmid, pool, &["VM.PowerMgmt"])?;
        }
        let change = ConfigChange { pve_state, caller: &self.caller, vmid: self.vmid, pool };
        change.check_create()?;
        if let Some(archive) = call.params.text("archive") {
            return self.check_archive(&change, archive);
        }
        disk_creation::resolve_cdrom(&mut self.options);
        change.check_storages(&self.options, self.storage.as_deref())?;
        change.check_names(self.options.keys())?;
        change.check_devices(&self.options)?;
        change.check_bridges(&self.options)?;
        change.check_cpu_model(&self.options, None)?;
        disk_creation::check_drives(pve_state, &mut self.options)
    }

    /// Rejects the restore of a backup, with the error that Proxmox returns for a missing archive. The lab has no backups, so
    /// every restore is rejected.
    fn check_archive(&self, change: &ConfigChange<'_>, archive: &str) -> Result<(), ApiError> {
        if let Some(key) = self.options.keys().find(|key| crate::vm::drive::is_slot(key)) {
            return Err(ApiError::parameter(key, "option conflicts with option 'archive'"));
        }
        if archive == "-" {
            return Err(ApiError::failed("pipe requires cli environment"));
        }
        if let Some(volume) = crate::pve_state::VolumeId::parse(archive) {
            change.check_volume(&volume, Some(crate::pve_state::ContentType::Backup))?;
        } else {
            change.check_path()?;
        }
        Err(ApiError::failed(format!("volume '{archive}' does not exist")))
    }

    fn failed(&self, why: impl std::fmt::Display) -> ApiError {
        ApiError::failed(format!("unable to create VM {} - {why}", self.vmid))
    }

    /// Reserves the vmid with a config that contains only a lock.
    fn reserve(&self, pve_state: &mut PveState) -> Result<(), ApiError> {
        let vmid = self.vmid;
        if let Some(other) = pve_state.vms.get(&vmid) {
            let node = &other.node;
            return Err(self.failed(format!("VM {vmid} already exists on node '{node}'")));
        }
        let locked = Config::from([("lock".to_owned(), "create".to_owned())]);
        let vm = Vm { node: self.node.clone(), config: locked, ..Vm::default() };
        pve_state.vms.insert(vmid, vm);
        Ok(())
    }

    async fn make(&self, task: &TaskHandle) -> Result<(), ApiError> {
        let site = &task.site;
        let lock = site.locks.vm(self.vmid, WORKER_LOCK_TIMEOUT).await;
        let _guard = lock.map_err(|timeout| ApiError::failed(timeout.to_string()))?;
        let worker = Worker::Task(task.clone());
        let maker = DiskCreator {
            worker: &worker,
            caller: &self.caller,
            node: &self.node,
            vmid: self.vmid,
            existing: &Config::new(),
            default_storage: self.storage.as_deref(),
        };
        let made = maker.make(&self.options).await.map_err(|error| self.failed(error))?;
        let mut options = self.options.clone();
        options.extend(made.options);
        let finished = self.finish(task, options);
        if let Err(error) = finished {
            maker.remove_created(&made.volumes);
            return Err(self.failed(error));
        }
        if let Some(pool) = &self.pool {
            let mut pve_state = site.pve_state();
            pve_state.pools.entry(pool.clone()).or_default().vms.insert(self.vmid);
        }
        Ok(())
    }

    /// Adds the options that Proxmox generates (`meta`, `boot`, `smbios1`, `vmgenid`, `machine`), and writes the config.
    fn finish(&self, task: &TaskHandle, mut options: Config) -> Result<(), ApiError> {
        let site = &task.site;
        let mut chance = site.chance(&format!("vm/{}", self.vmid));
        let mut pve_state = site.pve_state();
        let qemu = pve_state.release.qemu();
        options.insert("meta".to_owned(), format!("creation-qemu={qemu},ctime={}", site.now()));
        if !options.contains_key("boot") {
            options.insert("boot".to_owned(), boot::default(&options));
        }
        check_clipboard(&pve_state, &options)?;
        if !options.contains_key("smbios1") {
            options.insert("smbios1".to_owned(), format!("uuid={}", identity::uuid(&mut chance)));
        }
        if options.get("vmgenid").is_none_or(|id| id == "1") {
            options.insert("vmgenid".to_owned(), identity::uuid(&mut chance));
        }
        let ostype = options.get("ostype").cloned().unwrap_or_default();
        if let Some(machine) = machine::pinned(&pve_state, options.get("machine"), &ostype)? {
            options.insert("machine".to_owned(), machine);
        }
        if let Some(given) = options.get("tags") {
            tags::check_new(&pve_state, &self.caller, self.vmid, given)?;
            if pve_state.release == Release::V9 {
                let normalized = tags::normalized(&pve_state, given);
                options.insert("tags".to_owned(), normalized);
            }
        }
        config::normalize(&mut options);
        pve_state.vm_mut(&self.node, self.vmid)?.config = options;
        Ok(())
    }

    /// Adds the VM to HA and starts it, if the request contains these options. If this fails, the VM is not removed.
    fn add_to_ha_and_start(&self, task: &TaskHandle) {
        if self.ha_managed {
            task.log("Add as HA resource");
            let state = if self.start { "started" } else { "stopped" };
            let options = Config::from([("state".to_owned(), state.to_owned())]);
            task.site.pve_state().ha.resources.insert(format!("vm:{}", self.vmid), options);
        }
        if self.start {
            task.log("Execute autostart");
            super::power::autostart(task, &self.caller, &self.node, self.vmid);
        }
    }
}

/// Rejects the VNC clipboard for a display type that does not support it.
fn check_clipboard(pve_state: &PveState, options: &Config) -> Result<(), ApiError> {
    let Some(vga) = options.get("vga") else { return Ok(()) };
    let fields = schema::format(pve_state.release, FormatName::Vga).parse(vga).unwrap_or_default();
    let kind = fields.get("type").unwrap_or("std");
    if fields.get("clipboard").is_some()
        && matches!(kind, "none" | "serial0" | "serial1" | "serial2" | "serial3")
    {
        return Err(ApiError::failed(format!(
            "vga type {kind} is not compatible with VNC clipboard"
        )));
    }
    Ok(())
}

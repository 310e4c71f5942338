//! `POST /nodes/{node}/qemu/{vmid}/clone`: full and linked clones of a VM.
//!
//! As in Proxmox, the new VM has only a placeholder config until its first disk exists. Until then, the config does not show
//! which cluster or user the VM belongs to. The VM joins its pool at the end of the task.

use super::vmid;
use crate::call::{Call, Outcome, Reply};
use crate::lock::WORKER_LOCK_TIMEOUT;
use crate::pve_state::{Caller, Config, ContentType, PveState, Vm, VolumeId};
use crate::storage::{self, Feature};
use crate::task::TaskHandle;
use crate::vm::clone_disk::{DiskClone, remove_created};
use crate::vm::clone_permissions::ClonePermissions;
use crate::vm::config;
use crate::vm::drive::{self, Drive};
use crate::vm::identity::{self, is_net};
use crate::vm::power::is_running;
use crate::vm::volume_references::volume_of;
use crate::{ApiError, Release};

/// Description of the new VM until its config is written.
const PLACEHOLDER: &str = " qmclone temporary file";

/// Options about the snapshots and the runs of the source VM. They are not copied to the new VM.
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

/// Parsed request to clone a VM.
#[derive(Debug)]
struct CloneRequest {
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
    /// Host of the new VM, if it is not the host of the source VM.
    target: Option<String>,
    running: bool,
}

/// Config and disks of the new VM, created after all checks of the request.
#[derive(Debug)]
struct ClonePlan {
    /// Options of the new VM, without the drives that the clone must create.
    config: Config,
    disks: Vec<PlannedDisk>,
    /// Options of the source VM that have pending changes. The clone ignores the pending changes.
    discarded: Vec<String>,
}

/// Disk that a clone creates.
#[derive(Debug)]
struct PlannedDisk {
    drive: Drive,
    full: bool,
}

pub(super) fn clone(call: &Call) -> Outcome {
    let clone = CloneRequest::read(call)?;
    clone.plan(&call.pve_state())?;
    let id = clone.vmid.to_string();
    let upid = call.site.start(&call.node, "qmclone", &id, &call.caller, |task| async move {
        clone.run(&task).await.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

impl CloneRequest {
    fn read(call: &Call) -> Result<Self, ApiError> {
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
            running: is_running(&call.pve_state(), &call.node, vmid)?,
        })
    }

    /// Checks the request and derives the config and disks of the new VM.
    fn plan(&self, pve_state: &PveState) -> Result<ClonePlan, ApiError> {
        self.check_targets(pve_state)?;
        let vm = pve_state.vm(&self.node, self.vmid)?;
        config::check_lock(vm)?;
        if vm.is_running() != self.running {
            return Err(ApiError::failed("unexpected state change"));
        }
        let source = self.source(vm)?;
        let full = self.full.unwrap_or_else(|| !vm.is_template());
        for (name, given) in [("storage", &self.storage), ("format", &self.format)] {
            if given.is_some() && !full {
                return Err(ApiError::failed(format!(
                    "parameter '{name}' not allowed for linked clones"
                )));
            }
        }
        let rights = ClonePermissions { pve_state, caller: &self.caller, vmid: self.newid };
        let shared = rights.check(source, self.storage.as_deref())?;
        if let Some(target) = self.target.as_ref().filter(|_| !shared) {
            return Err(ApiError::failed(format!(
                "can't clone VM to node '{target}' (VM uses local storage)"
            )));
        }
        if pve_state.vms.get(&self.newid).is_some_and(|other| other.node == self.node) {
            return Err(ApiError::failed(format!(
                "unable to create VM {}: config file already exists",
                self.newid
            )));
        }
        let mut plan = self.plan_options(pve_state, source, full)?;
        if self.snapshot.is_none() {
            plan.discarded = vm.pending.keys().cloned().collect();
        }
        Ok(plan)
    }

    fn check_targets(&self, pve_state: &PveState) -> Result<(), ApiError> {
        if let Some(pool) = &self.pool {
            pve_state.check_pool_exists(pool)?;
        }
        if let Some(target) = self.target.as_ref().filter(|it| !pve_state.hosts.contains_key(*it)) {
            return Err(ApiError::failed(format!("no such cluster node '{target}'")));
        }
        let Some(id) = self.storage.as_deref().filter(|id| !id.is_empty()) else { return Ok(()) };
        let storage = pve_state.storage_on(id, &self.node)?;
        if !storage.content.contains(&ContentType::Images) {
            let text = format!("storage '{id}' does not support vm images");
            return Err(ApiError::parameter("storage", text));
        }
        if let Some(target) = &self.target {
            pve_state.storage_on(id, target)?;
            if !storage.shared {
                return Err(ApiError::failed(format!("can't clone to non-shared storage '{id}'")));
            }
        }
        Ok(())
    }

    /// Source config of the clone: the current config or that of a snapshot.
    fn source<'v>(&self, vm: &'v Vm) -> Result<&'v Config, ApiError> {
        let Some(name) = &self.snapshot else { return Ok(&vm.config) };
        let missing = || ApiError::failed(format!("snapshot '{name}' does not exist"));
        vm.snapshots.get(name).map(|snapshot| &snapshot.config).ok_or_else(missing)
    }

    fn plan_options(
        &self,
        pve_state: &PveState,
        source: &Config,
        full: bool,
    ) -> Result<ClonePlan, ApiError> {
        let mut plan = ClonePlan { config: Config::new(), disks: vec![], discarded: vec![] };
        for (key, value) in source {
            if NOT_COPIED.contains(&key.as_str()) || drive::is_unused(key) {
                continue;
            }
            if key == "tpmstate0" && full && self.running && self.snapshot.is_none() {
                return Err(ApiError::failed("cannot clone TPM state while VM is running"));
            }
            if !drive::is_slot(key) {
                plan.config.insert(key.clone(), value.clone());
                continue;
            }
            let drive = Drive::parse(key, value).ok_or_else(|| {
                ApiError::failed(format!("unable to parse drive options for '{key}'"))
            })?;
            if drive.is_cdrom() && !drive.is_cloudinit() {
                plan.config.insert(key.clone(), value.clone());
                continue;
            }
            let full = full || drive.is_cloudinit() || key == "tpmstate0";
            self.check_feature(pve_state, &drive, full)?;
            plan.disks.push(PlannedDisk { drive, full });
        }
        Ok(plan)
    }

    fn check_feature(
        &self,
        pve_state: &PveState,
        drive: &Drive,
        full: bool,
    ) -> Result<(), ApiError> {
        let (feature, kind) =
            if full { (Feature::Copy, "Full") } else { (Feature::Clone, "Linked") };
        if storage::can(pve_state, &volume_of(drive)?, feature, self.snapshot.as_deref())? {
            return Ok(());
        }
        let of = if self.snapshot.is_some() { " a snapshot of" } else { "" };
        Err(ApiError::failed(format!(
            "{kind} clone feature is not supported for{of} '{}' ({})",
            drive.file(),
            drive.key
        )))
    }

    async fn run(&self, task: &TaskHandle) -> Result<(), ApiError> {
        let locks = &task.site.locks;
        let source = if self.running {
            locks.vm(self.vmid, WORKER_LOCK_TIMEOUT).await
        } else {
            locks.vm_shared(self.vmid, WORKER_LOCK_TIMEOUT).await
        };
        let _source = source?;
        let _target = locks.vm(self.newid, WORKER_LOCK_TIMEOUT).await?;
        let plan = self.plan(&task.site.pve_state())?;
        if task.site.pve_state().release == Release::V9 {
            task.log(format!("creating a clone of VM {} with ID {}", self.vmid, self.newid));
        }
        self.reserve(&mut task.site.pve_state())?;
        let mut made = vec![];
        let done = self.make(task, plan, &mut made).await;
        done.map_err(|error| {
            remove_created(task, &self.node, &made);
            task.site.pve_state().vms.remove(&self.newid);
            ApiError::failed(format!("clone failed: {error}"))
        })
    }

    /// Reserves the vmid with a placeholder config.
    fn reserve(&self, pve_state: &mut PveState) -> Result<(), ApiError> {
        let (node, newid) = (&self.node, self.newid);
        if pve_state.vms.contains_key(&newid) {
            return Err(ApiError::failed(format!(
                "close (rename) atomic file '/etc/pve/nodes/{node}/qemu-server/{newid}.conf' \
                 failed: File exists"
            )));
        }
        let placeholder = [("description", PLACEHOLDER), ("lock", "clone")];
        let config = placeholder.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        pve_state.vms.insert(newid, Vm { node: node.clone(), config, ..Vm::default() });
        Ok(())
    }

    async fn make(
        &self,
        task: &TaskHandle,
        plan: ClonePlan,
        made: &mut Vec<VolumeId>,
    ) -> Result<(), ApiError> {
        let mut config = plan.config;
        self.set_identity(task, &mut config);
        for PlannedDisk { drive, .. } in plan.disks.iter().filter(|it| !it.drive.is_cloudinit()) {
            storage::activate(&task.site.pve_state(), &self.node, &volume_of(drive)?)?;
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
        let mut pve_state = task.site.pve_state();
        if let Some(target) = &self.target {
            pve_state.vm_mut(&self.node, self.newid)?.node.clone_from(target);
        }
        if let Some(pool) = &self.pool {
            pve_state.pools.entry(pool.clone()).or_default().vms.insert(self.newid);
        }
        Ok(())
    }

    fn write(&self, task: &TaskHandle, config: Config) -> Result<(), ApiError> {
        task.site.pve_state().vm_mut(&self.node, self.newid)?.config = config;
        Ok(())
    }

    /// Sets the options in which a clone differs from its source: UUID, MAC addresses, name and description.
    fn set_identity(&self, task: &TaskHandle, config: &mut Config) {
        let mut chance = task.site.chance(&format!("vm/{}", self.newid));
        let pve_state = task.site.pve_state();
        for (_, net) in config.iter_mut().filter(|(key, _)| is_net(key)) {
            *net = identity::net_with_new_mac(&pve_state, &mut chance, net);
        }
        let smbios = identity::smbios_with_new_uuid(&pve_state, &mut chance, config.get("smbios1"));
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
        config::normalize(config);
    }
}

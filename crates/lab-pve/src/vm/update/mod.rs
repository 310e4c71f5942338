//! Changes of the config of an existing VM: `PUT` and `POST` on `config`.
//!
//! An invalid request is rejected before any change. Then each option is processed separately and stored as pending. So after
//! an error, the options before it stay changed.

mod value;

use std::collections::BTreeSet;

use value::check_tpm_version;

use super::disk_creation::{self, DiskCreator, Worker};
use super::drive::{self, Drive};
use super::identity::{self, is_net};
use super::option_permissions::ConfigChange;
use super::{boot, config, hookscript, memory, pending_changes, tags};
use crate::ApiError;
use crate::call::Call;
use crate::guest::GuestEventKind;
use crate::lock::CALL_LOCK_TIMEOUT;
use crate::pve_state::{Caller, Config, PendingDelete, PveState};
use crate::schema::{self, split_list};

/// Parsed request to change a config.
#[derive(Debug)]
pub(crate) struct ConfigUpdate {
    caller: Caller,
    node: String,
    vmid: u32,
    set: Config,
    delete: Vec<String>,
    revert: BTreeSet<String>,
    /// Destroy the volumes of removed drives instead of keeping them as `unusedN`.
    force: bool,
    digest: Option<String>,
    skip_lock: bool,
}

/// Parameters of the call that are not VM options.
const OWN_PARAMETERS: &[&str] = &[
    "node",
    "vmid",
    "digest",
    "background_delay",
    "skip_cloud_init",
    "import-working-storage",
    "skiplock",
    "delete",
    "revert",
    "force",
];

impl ConfigUpdate {
    /// Parses the call. Rejects requests that are invalid for every VM.
    pub(crate) fn new(call: &Call, vmid: u32) -> Result<Self, ApiError> {
        let params = &call.params;
        let skip_lock = params.flag("skiplock").unwrap_or_default();
        if skip_lock && !call.caller.is_root() {
            return Err(ApiError::parameter("skiplock", "Only root may use this option."));
        }
        let mut set: Config = params
            .iter()
            .filter(|(key, _)| !OWN_PARAMETERS.contains(key))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let list = |name: &str| -> Vec<String> {
            params
                .text(name)
                .map(split_list)
                .unwrap_or_default()
                .into_iter()
                .map(str::to_owned)
                .collect()
        };
        let given = |name: &str| params.text(name).is_some_and(|text| !text.is_empty());
        if set.is_empty() && !given("delete") && !given("revert") {
            return Err(ApiError::failed("no options specified"));
        }
        disk_creation::resolve_cdrom(&mut set);
        let (delete, revert) = (list("delete"), list("revert"));
        let (delete, revert) = check_lists(call, &set, delete, revert)?;
        Ok(Self {
            caller: call.caller.clone(),
            node: call.node.clone(),
            vmid,
            set,
            delete,
            revert,
            force: params.flag("force").unwrap_or_default(),
            digest: params.text("digest").map(str::to_owned),
            skip_lock,
        })
    }

    /// Makes the checks that need no lock of the VM.
    pub(crate) fn check(&mut self, call: &Call) -> Result<(), ApiError> {
        let mut chance = call.site.chance(&format!("vm/{}", self.vmid));
        let pve_state = call.pve_state();
        disk_creation::check_drives(&pve_state, &mut self.set)?;
        for (key, value) in &mut self.set {
            if is_net(key) {
                *value = identity::net(&pve_state, &mut chance, value);
            } else if key == "vmgenid" && value == "1" {
                *value = identity::uuid(&mut chance);
            } else if key == "hookscript" {
                hookscript::check(&pve_state, &self.node, value)
                    .map_err(|error| ApiError::parameter("hookscript", format!("{error}\n")))?;
            }
        }
        let change = self.change(&pve_state);
        change.check_names(&self.delete)?;
        change.check_names(self.set.keys())?;
        change.check_storages(&self.set, None)?;
        change.check_bridges(&self.set)?;
        self.resolve(&pve_state).map(drop)
    }

    fn change<'w>(&'w self, pve_state: &'w PveState) -> ConfigChange<'w> {
        ConfigChange { pve_state, caller: &self.caller, vmid: self.vmid, pool: None }
    }

    /// Checks digest, lock and memory. Returns the options to set and the options to delete, after the parameter `revert` was
    /// applied.
    fn resolve(&self, pve_state: &PveState) -> Result<(Config, Vec<String>), ApiError> {
        let vm = pve_state.vm(&self.node, self.vmid)?;
        config::check_digest(vm, self.digest.as_deref())?;
        self.change(pve_state).check_cpu_model(&self.set, Some(&vm.config))?;
        let frees_suspended =
            vm.lock() == Some("suspended") && self.delete.iter().any(|key| key == "vmstate");
        if !self.skip_lock && !frees_suspended {
            config::check_lock(vm)?;
        }
        let (mut set, mut delete) = (self.set.clone(), self.delete.clone());
        if frees_suspended {
            delete.push("lock".to_owned());
        }
        for key in &self.revert {
            if let Some(current) = vm.config.get(key) {
                set.insert(key.clone(), current.clone());
            } else if vm.pending.contains_key(key) {
                delete.push(key.clone());
            }
        }
        memory::check_balloon(pve_state, vm, &set)?;
        Ok((set, delete))
    }

    /// Applies the changes. `worker` is the call itself or its task.
    pub(crate) async fn apply(&self, worker: &Worker) -> Result<(), ApiError> {
        let site = worker.site();
        let lock = site.locks.vm(self.vmid, CALL_LOCK_TIMEOUT).await;
        let _guard = lock.map_err(|timeout| ApiError::failed(timeout.to_string()))?;
        let (set, delete) = self.resolve(&site.pve_state())?;
        worker.begin().await?;
        worker.log(format!("update VM {}: {}", self.vmid, self.shown()));
        let mut modified = BTreeSet::new();
        let mut order = boot::order(site.pve_state().vm(&self.node, self.vmid)?.config.get("boot"));
        for key in &delete {
            self.delete_one(worker, key, &mut order, &mut modified)?;
        }
        for (key, value) in &set {
            self.set_one(worker, key, value, &set, &delete, &mut order, &mut modified).await?;
        }
        let mut pve_state = site.pve_state();
        pending_changes::clean_up(pve_state.vm_mut(&self.node, self.vmid)?);
        let vm = pve_state.vm(&self.node, self.vmid)?;
        if vm.pending.is_empty() && vm.pending_delete.is_empty() {
            return Ok(());
        }
        let done = if vm.is_running() {
            let is_modified = |key: &str| modified.contains(key);
            let done =
                pending_changes::hotplug(&mut pve_state, self.vmid, &self.caller, &is_modified);
            if modified.iter().any(|key| is_net(key)) {
                site.guests.emit(&self.node, self.vmid, GuestEventKind::Replugged);
            }
            done
        } else {
            pending_changes::apply(&mut pve_state, self.vmid, &self.caller)
        };
        done.map_err(ApiError::parameters)
    }

    /// Parameters in the form of the task log.
    fn shown(&self) -> String {
        let mut parts: Vec<String> = self
            .set
            .iter()
            .map(|(key, value)| match key.as_str() {
                "cipassword" => "-cipassword <hidden>".to_owned(),
                _ => format!("-{key} {value}"),
            })
            .collect();
        if !self.delete.is_empty() {
            parts.push(format!("-delete {}", self.delete.join(",")));
        }
        parts.sort();
        parts.join(" ")
    }

    fn delete_one(
        &self,
        worker: &Worker,
        key: &String,
        order: &mut Vec<String>,
        modified: &mut BTreeSet<String>,
    ) -> Result<(), ApiError> {
        let mut pve_state = worker.site().pve_state();
        let vm = pve_state.vm(&self.node, self.vmid)?;
        let Some(value) = vm.config.get(key).or_else(|| vm.pending.get(key)).cloned() else {
            drop(pve_state);
            worker.warn(&format!("cannot delete '{key}' - not set in current configuration!"));
            return Ok(());
        };
        modified.insert(key.clone());
        let was_pending = vm.pending.contains_key(key);
        // The checks use a copy of the VM. The copy is stored only if all checks pass.
        let mut changed = vm.clone();
        changed.pending.remove(key);
        if order.contains(key) {
            order.retain(|device| device != key);
            changed.pending.insert("boot".to_owned(), boot::print(order));
            modified.insert("boot".to_owned());
        }
        let change = self.change(&pve_state);
        let bare = key.trim_end_matches(|c: char| c.is_ascii_digit());
        if drive::is_unused(key) || key == "vmstate" {
            let what = if key == "vmstate" { "vmstate" } else { "unused disk" };
            let drive = Drive::parse(key, &value).or_else(|| Drive::parse("unused0", &value));
            let file = drive.as_ref().map(|drive| drive.file().to_owned()).unwrap_or_default();
            config::check_protection(&changed, &format!("can't remove {what} '{file}'"))?;
            if key != "vmstate" {
                pve_state.check(
                    &self.caller,
                    &format!("/vms/{}", self.vmid),
                    &["VM.Config.Disk"],
                )?;
            }
            if let Some(drive) = drive {
                pending_changes::destroy(&mut pve_state, self.vmid, &self.caller, key, &drive)?;
            }
            pve_state.vm_mut(&self.node, self.vmid)?.config.remove(key);
            return Ok(());
        }
        if drive::is_slot(key) {
            config::check_protection(&changed, &format!("can't remove drive '{key}'"))?;
            change.check_drive(key, &value)?;
        } else if bare == "serial" && bare != key {
            change.check_serial("delete", key, &value, true)?;
        } else if key == "tags" {
            tags::check(&pve_state, &self.caller, self.vmid, &value, "")?;
        } else if is_net(key) {
            let current = vm.config.get(key).map(|net| (key.clone(), net.clone()));
            change.check_bridges(&current.into_iter().collect())?;
        } else {
            change.check_device(key, &value)?;
        }
        if key == "tags" {
            changed.config.remove(key);
        } else {
            let how = if self.force { PendingDelete::Destroy } else { PendingDelete::Detach };
            changed.pending_delete.insert(key.clone(), how);
        }
        config::normalize_empty(&mut changed.pending);
        *pve_state.vm_mut(&self.node, self.vmid)? = changed;
        if was_pending && let Some(drive) = Drive::parse(key, &value) {
            pending_changes::keep_as_unused(&mut pve_state, self.vmid, &drive);
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "state of one iteration over the options")]
    async fn set_one(
        &self,
        worker: &Worker,
        key: &String,
        value: &String,
        set: &Config,
        delete: &[String],
        order: &mut Vec<String>,
        modified: &mut BTreeSet<String>,
    ) -> Result<(), ApiError> {
        modified.insert(key.clone());
        if worker.site().pve_state().vm(&self.node, self.vmid)?.pending.get(key) == Some(value) {
            return Ok(());
        }
        let mut add = Config::new();
        if drive::is_slot(key) {
            let option = self.set_drive(worker, key, value).await?;
            add.insert(key.clone(), option);
            let is_cd = Drive::parse(key, value)
                .is_some_and(|drive| drive.is_cdrom() && !drive.is_cloudinit());
            if is_cd && !order.is_empty() && !order.contains(key) {
                order.push(key.clone());
                add.insert("boot".to_owned(), boot::print(order));
                modified.insert("boot".to_owned());
            }
        } else {
            let pve_state = worker.site().pve_state();
            self.check_value(&pve_state, key, value)?;
            add.extend(self.written(&pve_state, key, value, set, delete)?);
        }
        let mut pve_state = worker.site().pve_state();
        let vm = pve_state.vm_mut(&self.node, self.vmid)?;
        if key == "cipassword" {
            vm.config.insert(key.clone(), value.clone());
            add.clear();
        }
        if key == "boot"
            && vm.config.contains_key("bootdisk")
            && !boot::order(Some(value)).is_empty()
        {
            vm.pending_delete.insert("bootdisk".to_owned(), PendingDelete::Detach);
            modified.insert("bootdisk".to_owned());
        }
        vm.pending.extend(add);
        vm.pending_delete.remove(key);
        config::normalize_empty(&mut vm.pending);
        Ok(())
    }

    async fn set_drive(&self, worker: &Worker, key: &str, value: &str) -> Result<String, ApiError> {
        let existing = {
            let mut pve_state = worker.site().pve_state();
            let vm = pve_state.vm(&self.node, self.vmid)?;
            let change = self.change(&pve_state);
            if let Some(old) = vm.config.get(key) {
                change.check_drive(key, old)?;
                if key == "tpmstate0" {
                    check_tpm_version(old, value)?;
                }
            }
            change.check_drive(key, value)?;
            let replaced = vm.pending.get(key).and_then(|pending| Drive::parse(key, pending));
            let mut existing = vm.config.clone();
            existing.extend(vm.pending.clone());
            if let Some(replaced) = replaced {
                pending_changes::keep_as_unused(&mut pve_state, self.vmid, &replaced);
            }
            existing
        };
        let maker = DiskCreator {
            worker,
            caller: &self.caller,
            node: &self.node,
            vmid: self.vmid,
            existing: &existing,
            default_storage: None,
        };
        let made = maker.make(&Config::from([(key.to_owned(), value.to_owned())])).await?;
        Ok(made.options.get(key).cloned().unwrap_or_default())
    }
}

fn check_lists(
    call: &Call,
    set: &Config,
    delete: Vec<String>,
    revert: Vec<String>,
) -> Result<(Vec<String>, BTreeSet<String>), ApiError> {
    let exists = |key: &str| schema::vm_option(call.release, key).is_some();
    for key in &revert {
        if !exists(key) {
            return Err(ApiError::parameter("revert", format!("unknown option '{key}'")));
        }
        if set.contains_key(key) {
            let text = format!("you can't use '-{key}' and -revert {key}' at the same time");
            return Err(ApiError::parameter("delete", text));
        }
    }
    let revert: BTreeSet<String> = revert.into_iter().collect();
    let mut deleted = vec![];
    for key in delete {
        let key = if key == "cdrom" { "ide2".to_owned() } else { key };
        if set.contains_key(&key) {
            let text = format!("you can't use '-{key}' and -delete {key}' at the same time");
            return Err(ApiError::parameter("delete", text));
        }
        if revert.contains(&key) {
            let text = format!("you can't use '-delete {key}' and -revert {key}' at the same time");
            return Err(ApiError::parameter("revert", text));
        }
        if !exists(&key) {
            return Err(ApiError::parameter("delete", format!("unknown option '{key}'")));
        }
        deleted.push(key);
    }
    Ok((deleted, revert))
}

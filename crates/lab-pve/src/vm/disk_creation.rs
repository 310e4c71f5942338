//! Creation of the volumes that a VM config requests.

use std::sync::Arc;

use talmox_lab_environment::Work;

use super::drive::{self, Drive, DriveSource};
use super::option_permissions::{ConfigChange, no_storage};
use crate::ApiError;
use crate::pve_state::{Caller, Config, ContentType, PveState, VolumeId};
use crate::site::Site;
use crate::storage::{self, Allocation};
use crate::task::TaskHandle;

const CLOUDINIT_KIB: u64 = 4 << 10;
const TPM_STATE_KIB: u64 = 4 << 10;
/// Size in bytes of the template of the EFI variables with `efitype=4m`.
const EFI_VARS_4M: u64 = 540_672;
const EFI_VARS_2M: u64 = 131_072;

/// Context in which an operation runs: a call, or a task with a log.
#[derive(Clone, Debug)]
pub(crate) enum Worker {
    Call(Arc<Site>),
    Task(TaskHandle),
}

impl Worker {
    pub(crate) fn site(&self) -> &Arc<Site> {
        match self {
            Self::Call(site) => site,
            Self::Task(task) => &task.site,
        }
    }

    pub(crate) async fn wait(&self, work: Work, object: &str) -> Result<(), ApiError> {
        match self {
            Self::Call(site) => site.wait(work, object).await,
            Self::Task(task) => task.wait(work).await.map_err(ApiError::failed)?,
        }
        Ok(())
    }

    /// Applies the fault of the task, before the task changes anything.
    pub(crate) async fn begin(&self) -> Result<(), ApiError> {
        match self {
            Self::Call(_) => Ok(()),
            Self::Task(task) => task.wait(Work::Call).await.map_err(ApiError::failed),
        }
    }

    pub(crate) fn log(&self, line: impl Into<String>) {
        if let Self::Task(task) = self {
            task.log(line);
        }
    }

    pub(crate) fn warn(&self, text: &str) {
        if let Self::Task(task) = self {
            task.warn(text);
        }
    }
}

/// Creates the volumes for the drives of a VM, on behalf of a caller.
#[derive(Debug)]
pub(crate) struct DiskCreator<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) caller: &'a Caller,
    pub(crate) node: &'a str,
    pub(crate) vmid: u32,
    /// Current and pending options of the VM. They show whether the VM already has a cloud-init drive, because only one is
    /// allowed.
    pub(crate) existing: &'a Config,
    pub(crate) default_storage: Option<&'a str>,
}

/// Options with the ids of their volumes, and the volumes that were created.
#[derive(Debug, Default)]
pub(crate) struct CreatedDisks {
    pub(crate) options: Config,
    pub(crate) volumes: Vec<VolumeId>,
}

impl DiskCreator<'_> {
    /// Creates the volumes that the drives in `settings` request, in the order of the option names. If a creation fails, the
    /// volumes created before are removed.
    pub(crate) async fn make(&self, settings: &Config) -> Result<CreatedDisks, ApiError> {
        let mut made = CreatedDisks::default();
        for (key, value) in settings.iter().filter(|(key, _)| drive::is_slot(key)) {
            let Some(drive) = Drive::parse(key, value) else { continue };
            if let Err(error) = self.make_one(drive, &mut made).await {
                self.remove_created(&made.volumes);
                return Err(error);
            }
        }
        Ok(made)
    }

    pub(crate) fn remove_created(&self, volumes: &[VolumeId]) {
        let mut pve_state = self.worker.site().pve_state();
        for volume in volumes {
            // A volume that cannot be removed stays, as in Proxmox.
            if let Err(error) = storage::free(&mut pve_state, self.node, volume) {
                drop(pve_state);
                self.worker.warn(&error.to_string());
                pve_state = self.worker.site().pve_state();
            }
        }
    }

    async fn make_one(&self, mut drive: Drive, made: &mut CreatedDisks) -> Result<(), ApiError> {
        let key = drive.key.clone();
        let is_new = match drive.source() {
            DriveSource::None | DriveSource::HostCdrom => {
                drive.remove("size");
                false
            }
            DriveSource::NewCloudinit { storage } => {
                self.check_only_cloudinit(&key, &made.options)?;
                let storage = self.or_default(storage)?;
                let volume = self.new_cloudinit(&mut drive, &storage).await?;
                made.volumes.push(volume);
                true
            }
            DriveSource::New { storage, size } => {
                let storage = self.or_default(storage)?;
                let (volume, bytes) = match drive.remove("import-from") {
                    Some(source) => self.import(&drive, &storage, &source).await?,
                    None => self.new_volume(&drive, &storage, &size).await?,
                };
                made.volumes.push(volume.clone());
                drive.set("file", volume.to_string());
                drive.set_size(bytes);
                drive.remove("format");
                true
            }
            DriveSource::Volume(volume) => {
                let bytes = self.existing_volume(&drive, &volume, &made.options)?;
                drive.set_size(bytes);
                false
            }
            DriveSource::Path(path) => {
                self.change(&self.worker.site().pve_state()).check_path()?;
                return Err(ApiError::failed(format!(
                    "unable to open file '{path}' - no such device"
                )));
            }
        };
        let value = drive.print();
        if is_new {
            self.worker.log(format!("{key}: successfully created disk '{value}'"));
        }
        made.options.insert(key, value);
        Ok(())
    }

    fn change<'w>(&'w self, pve_state: &'w PveState) -> ConfigChange<'w> {
        ConfigChange { pve_state, caller: self.caller, vmid: self.vmid, pool: None }
    }

    fn or_default(&self, storage: Option<String>) -> Result<String, ApiError> {
        storage.or_else(|| self.default_storage.map(str::to_owned)).ok_or_else(no_storage)
    }

    fn check_only_cloudinit(&self, key: &str, made: &Config) -> Result<(), ApiError> {
        let other =
            [self.existing, made].into_iter().find_map(|config| drive::cloudinit_slot(config, key));
        match other {
            Some(other) => Err(ApiError::failed(format!(
                "{key} - cloud-init drive is already attached at '{other}'"
            ))),
            None => Ok(()),
        }
    }

    async fn new_cloudinit(&self, drive: &mut Drive, storage: &str) -> Result<VolumeId, ApiError> {
        let has_files = self.worker.site().pve_state().storage(storage)?.kind.has_files();
        let default = if has_files { "qcow2" } else { "raw" };
        let format = drive.remove("format").unwrap_or_else(|| default.to_owned());
        let mut name = format!("vm-{}-cloudinit", self.vmid);
        if has_files {
            name.push_str(&format!(".{format}"));
        }
        let volume = self.alloc(storage, Some(&format), Some(&name), CLOUDINIT_KIB).await?;
        drive.set("file", volume.to_string());
        drive.set("media", "cdrom");
        Ok(volume)
    }

    async fn new_volume(
        &self,
        drive: &Drive,
        storage: &str,
        size: &str,
    ) -> Result<(VolumeId, u64), ApiError> {
        let format = drive.get("format");
        let made = match drive.key.as_str() {
            "efidisk0" => {
                let kib = efi_vars(drive).div_ceil(1024);
                let volume = self.alloc(storage, format, None, kib).await?;
                let bytes = self.size_of(&volume)?;
                (volume, bytes)
            }
            "tpmstate0" => {
                (self.alloc(storage, format, None, TPM_STATE_KIB).await?, TPM_STATE_KIB << 10)
            }
            _ => {
                let kib = gib_to_kib(size);
                (self.alloc(storage, format, None, kib).await?, kib << 10)
            }
        };
        Ok((self.as_base(made.0)?, made.1))
    }

    async fn alloc(
        &self,
        storage: &str,
        format: Option<&str>,
        name: Option<&str>,
        kib: u64,
    ) -> Result<VolumeId, ApiError> {
        let site = self.worker.site();
        let shared = site.pve_state().storage_on(storage, self.node)?.shared;
        let _guard = lock_storage(self.worker, self.node, storage, shared).await?;
        self.worker.wait(Work::Allocate, storage).await?;
        let now = site.now();
        let new = Allocation { node: self.node, storage, vmid: self.vmid, format, name, kib, now };
        storage::alloc(&mut site.pve_state(), &new)
    }

    /// Converts a new disk to a base volume if the VM is a template.
    fn as_base(&self, volume: VolumeId) -> Result<VolumeId, ApiError> {
        if self.existing.get("template").is_none_or(|value| value != "1") {
            return Ok(volume);
        }
        storage::create_base(&mut self.worker.site().pve_state(), self.node, &volume)
    }

    async fn import(
        &self,
        drive: &Drive,
        storage: &str,
        source: &str,
    ) -> Result<(VolumeId, u64), ApiError> {
        let site = self.worker.site();
        let Some(source) = VolumeId::parse(source).filter(|_| !source.starts_with('/')) else {
            return Err(ApiError::failed(format!("failed to stat '{source}'")));
        };
        let (info, format) = {
            let pve_state = site.pve_state();
            let name = storage::name_of(&pve_state, &source)?;
            if name.content == ContentType::Import {
                storage::check_untrusted(&pve_state, self.node, &source)?;
            }
            let target = pve_state.storage(storage)?;
            // Without a requested format, the image keeps its format if the storage supports it.
            let requested = drive.get("format").or(Some(name.format));
            let format = storage::format_or_default(target, requested).to_owned();
            let info = storage::size_info(&pve_state, self.node, &source);
            let missing = || ApiError::failed(format!("could not get size of {source}"));
            let info = info.and_then(|info| info.ok_or_else(missing));
            (info.map_err(|error| cannot_import(&source, &error))?, format)
        };
        let kib = match drive.key.as_str() {
            "efidisk0" => efi_vars(drive).div_ceil(1024),
            "tpmstate0" => TPM_STATE_KIB,
            _ => info.size.div_ceil(1024),
        };
        let volume = self
            .alloc(storage, Some(&format), None, kib)
            .await
            .map_err(|error| cannot_import(&source, &error))?;
        match self
            .fill(&source, &volume, info.used)
            .await
            .and_then(|()| self.as_base(volume.clone()))
        {
            Ok(volume) => {
                let size = self.size_of(&volume)?;
                Ok((volume, size))
            }
            Err(error) => {
                self.remove_created(std::slice::from_ref(&volume));
                Err(error)
            }
        }
    }

    async fn fill(&self, source: &VolumeId, volume: &VolumeId, bytes: u64) -> Result<(), ApiError> {
        self.worker.wait(Work::Copy { bytes }, &volume.storage).await?;
        let mut pve_state = self.worker.site().pve_state();
        storage::copy(&mut pve_state, (self.node, source), None, (self.node, volume))
            .map_err(|error| cannot_import(source, &error))
    }

    fn size_of(&self, volume: &VolumeId) -> Result<u64, ApiError> {
        let pve_state = self.worker.site().pve_state();
        let info = storage::size_info(&pve_state, self.node, volume)?;
        let missing = || ApiError::failed(format!("volume {volume} does not exist"));
        info.map(|info| info.size).filter(|size| *size > 0).ok_or_else(missing)
    }

    /// Size in bytes of an existing volume.
    fn existing_volume(
        &self,
        drive: &Drive,
        volume: &VolumeId,
        made: &Config,
    ) -> Result<u64, ApiError> {
        let key = &drive.key;
        let pve_state = self.worker.site().pve_state();
        let kind = self.change(&pve_state).check_volume(volume, None)?;
        let name = storage::name_of(&pve_state, volume)?;
        if !matches!(kind, ContentType::Images | ContentType::Iso) {
            return Err(ApiError::failed(format!(
                "cannot use volume {volume} - content type needs to be 'images' or 'iso'"
            )));
        }
        if let Some(configured) =
            drive.get("format").filter(|configured| *configured != name.format)
        {
            let real = name.format;
            return Err(ApiError::failed(format!(
                "drive '{key}' - volume '{volume}' - 'format={configured}' option different from storage format '{real}'"
            )));
        }
        if drive.is_cloudinit() {
            self.check_only_cloudinit(key, made)?;
        }
        storage::activate(&pve_state, self.node, volume)?;
        drop(pve_state);
        self.size_of(volume)
    }
}

/// Acquires the lock of a storage. The lock is held only during an allocation, and not during slow operations such as the copy
/// of an image.
pub(crate) async fn lock_storage(
    worker: &Worker,
    host: &str,
    storage: &str,
    shared: bool,
) -> Result<crate::lock::LockGuard, ApiError> {
    if let Worker::Task(task) = worker {
        task.apply_fault(Work::Allocate).await.map_err(ApiError::failed)?;
    }
    let locks = &worker.site().locks;
    locks
        .storage(host, storage, shared)
        .await
        .map_err(|timeout| ApiError::failed(timeout.to_string()))
}

/// Size in bytes of the EFI variables of a new EFI disk.
fn efi_vars(drive: &Drive) -> u64 {
    if drive.get("efitype") == Some("4m") { EFI_VARS_4M } else { EFI_VARS_2M }
}

fn cannot_import(source: &VolumeId, error: &ApiError) -> ApiError {
    ApiError::failed(format!("cannot import from '{source}' - {error}"))
}

/// Converts a size in GiB, as written in an option, to whole KiB.
fn gib_to_kib(size: &str) -> u64 {
    if let Ok(gib) = size.parse::<u64>() {
        return gib.saturating_mul(1 << 20);
    }
    let kib = size.parse::<f64>().unwrap_or_default() * f64::from(1 << 20);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size of digits and a point is not negative, and no disk has 2^64 KiB"
    )]
    {
        kib.ceil() as u64
    }
}

/// Checks and normalizes drives before their volumes are created.
pub(crate) fn check_drives(pve_state: &PveState, config: &mut Config) -> Result<(), ApiError> {
    for (key, value) in config.iter_mut().filter(|(key, _)| drive::is_slot(key)) {
        let mut drive = Drive::parse(key, value)
            .ok_or_else(|| ApiError::parameter(key, "unable to parse drive options"))?;
        if drive.get("import-from").is_some() {
            check_import_form(&drive)?;
        }
        if matches!(drive.file(), "none" | "cdrom") && drive.get("media").is_none() {
            drive.set("media", "cdrom");
        }
        if let DriveSource::Path(path) = drive.source()
            && !path.starts_with("/dev/")
        {
            let text = format!("unable to associate path '{path}' to any storage");
            return Err(ApiError::parameter(key, text));
        }
        if let DriveSource::Volume(volume) = drive.source() {
            let kind = storage::name_of(pve_state, &volume)?.content;
            if kind == ContentType::Iso && !drive.is_cdrom() {
                let text = "explicit 'media=cdrom' is required for iso images";
                return Err(ApiError::parameter(key, text));
            }
        }
        *value = drive.print();
    }
    Ok(())
}

fn check_import_form(drive: &Drive) -> Result<(), ApiError> {
    let is_zero = |size: &str| size.parse::<f64>().is_ok_and(|size| size == 0.0);
    if !matches!(drive.source(), DriveSource::New { size, .. } if is_zero(&size)) {
        let text =
            "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>";
        return Err(ApiError::parameter(&drive.key, text));
    }
    let needed: &[&str] = match drive.key.as_str() {
        "efidisk0" => &["efitype", "pre-enrolled-keys"],
        "tpmstate0" => &["version"],
        _ => &[],
    };
    match needed.iter().find(|name| drive.get(name).is_none()) {
        Some(name) => {
            let text = format!("need to specify '{name}' when using 'import-from'");
            Err(ApiError::parameter(&drive.key, text))
        }
        None => Ok(()),
    }
}

/// Replaces the option `cdrom` by its synonym `ide2`.
pub(crate) fn resolve_cdrom(config: &mut Config) {
    if let Some(mut value) = config.remove("cdrom") {
        if !value.contains("media=") {
            value.push_str(",media=cdrom");
        }
        config.insert("ide2".to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_a_gib_are_rounded_up_to_kib() {
        assert_eq!(gib_to_kib("32"), 32 << 20);
        assert_eq!(gib_to_kib("0.001"), 1049);
        assert_eq!(gib_to_kib("1.5"), 3 << 19);
        assert_eq!(crate::schema::format_size(gib_to_kib("0.001") << 10), "1049K");
    }
}

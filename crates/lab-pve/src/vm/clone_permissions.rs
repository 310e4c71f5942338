//! Permissions for cloning a VM. The config is copied from the source, so privileges for single options are not required.
//! Privileges for storages, devices and bridges are required.

use super::drive;
use super::option_permissions::ConfigChange;
use super::volume_references::volume_of;
use crate::pve_state::{Caller, Config, PveState};
use crate::schema::{self, FormatName};
use crate::{ApiError, Release};

/// Permission checks of a clone request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClonePermissions<'a> {
    pub(crate) pve_state: &'a PveState,
    pub(crate) caller: &'a Caller,
    /// vmid of the new VM.
    pub(crate) vmid: u32,
}

impl ClonePermissions<'_> {
    /// Checks all permissions. Returns whether all volumes of the source are on shared storages.
    pub(crate) fn check(&self, source: &Config, storage: Option<&str>) -> Result<bool, ApiError> {
        let shared = self.check_storages(source, storage)?;
        self.check_mappings(source)?;
        let change = ConfigChange {
            pve_state: self.pve_state,
            caller: self.caller,
            vmid: self.vmid,
            pool: None,
        };
        change.check_bridges(source)?;
        if self.pve_state.release == Release::V9 {
            change.check_cpu_model(source, None)?;
        }
        Ok(shared)
    }

    fn check_storages(&self, source: &Config, target: Option<&str>) -> Result<bool, ApiError> {
        let mut all_shared = true;
        for drive in drive::drives(source) {
            if matches!(drive.file(), "" | "none") {
                continue;
            }
            if drive.is_cdrom() && drive.file() == "cdrom" {
                self.pve_state.check(self.caller, "/", &["Sys.Console"])?;
                continue;
            }
            let volume = volume_of(&drive)?;
            all_shared &= self.pve_state.storage(&volume.storage)?.shared;
            if !drive.is_cdrom() {
                self.allocate_on(target.unwrap_or(&volume.storage))?;
            }
        }
        if let Some(storage) = source.get("vmstatestorage") {
            self.allocate_on(storage)?;
        }
        Ok(all_shared)
    }

    fn allocate_on(&self, storage: &str) -> Result<(), ApiError> {
        let path = format!("/storage/{storage}");
        self.pve_state.check(self.caller, &path, &["Datastore.AllocateSpace"])
    }

    fn check_mappings(&self, source: &Config) -> Result<(), ApiError> {
        if self.caller.is_root() {
            return Ok(());
        }
        for (key, value) in source {
            let bare = key.trim_end_matches(|c: char| c.is_ascii_digit());
            if bare != key {
                self.check_mapping(key, bare, value)?;
            }
        }
        Ok(())
    }

    fn check_mapping(&self, key: &str, kind: &str, value: &str) -> Result<(), ApiError> {
        let fields = |format| {
            schema::format(self.pve_state.release, format).parse(value).unwrap_or_default()
        };
        let (fields, name, raw) = match kind {
            "usb" => (fields(FormatName::Usb), "usb", "real"),
            "hostpci" => (fields(FormatName::HostPci), "pci", "non-mapped"),
            "rng" if fields(FormatName::Rng).get("source") == Some("/dev/hwrng") => {
                return self.use_mapping("/mapping/hwrng");
            }
            "virtiofs" => {
                let fields = fields(FormatName::VirtioFs);
                let dir = fields.get("dirid").unwrap_or_default();
                return self.use_mapping(&format!("/mapping/dir/{dir}"));
            }
            _ => return Ok(()),
        };
        match (fields.get("host"), fields.get("mapping")) {
            (Some(host), _) if kind == "usb" && host.eq_ignore_ascii_case("spice") => Ok(()),
            (Some(_), _) => {
                Err(ApiError::failed(format!("only root can set '{key}' config for {raw} devices")))
            }
            (None, Some(id)) => self.use_mapping(&format!("/mapping/{name}/{id}")),
            (None, None) => Err(ApiError::failed("either 'host' or 'mapping' must be set.")),
        }
    }

    fn use_mapping(&self, path: &str) -> Result<(), ApiError> {
        self.pve_state.check(self.caller, path, &["Mapping.Use"])
    }
}

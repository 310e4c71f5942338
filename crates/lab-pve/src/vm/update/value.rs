//! New value of a single option: permission checks, and the form in which the value is stored.

use super::super::drive::Drive;
use super::super::identity::is_net;
use super::super::{boot, machine, tags};
use super::ConfigUpdate;
use crate::ApiError;
use crate::pve_state::{Config, PveState};
use crate::schema::{self, FormatName};

impl ConfigUpdate {
    /// Checks permissions that depend on the new value and on the current one.
    pub(super) fn check_value(
        &self,
        pve_state: &PveState,
        key: &str,
        value: &str,
    ) -> Result<(), ApiError> {
        let vm = pve_state.vm(&self.node, self.vmid)?;
        let old = vm.config.get(key).map(String::as_str);
        let change = self.change(pve_state);
        if key.starts_with("serial") {
            return change.check_serial(
                "modify",
                key,
                value,
                old.is_none_or(|old| old == "socket"),
            );
        }
        if key == "tags" {
            return tags::check(pve_state, &self.caller, self.vmid, old.unwrap_or_default(), value);
        }
        if is_net(key) {
            let old = old.map(|old| (key.to_owned(), old.to_owned()));
            return change.check_bridges(&old.into_iter().collect());
        }
        if let Some(old) = old {
            change.check_device(key, old)?;
        }
        change.check_device(key, value)
    }

    /// Value of an option in the form in which it is stored. The result includes other options that change with it.
    pub(super) fn written(
        &self,
        pve_state: &PveState,
        key: &str,
        value: &str,
        set: &Config,
        delete: &[String],
    ) -> Result<Config, ApiError> {
        let vm = pve_state.vm(&self.node, self.vmid)?;
        let mut written = Config::new();
        let mut text = value.to_owned();
        match key {
            "tags" => text = tags::normalized(pve_state, value),
            "machine" => {
                let format = schema::format(pve_state.release, FormatName::Machine);
                machine::check_options(&format.parse(value).unwrap_or_default())?;
            }
            "boot" => {
                let devices = boot::order(Some(&text));
                for device in &devices {
                    let exists =
                        [&vm.config, &vm.pending, set].iter().any(|c| c.contains_key(device));
                    if !exists || delete.contains(device) {
                        return Err(ApiError::failed(format!(
                            "invalid bootorder: device '{device}' does not exist'"
                        )));
                    }
                }
                if !devices.is_empty() {
                    text = boot::print(&devices);
                }
            }
            "ostype" => {
                let chosen = set.contains_key("machine")
                    || vm.pending.contains_key("machine")
                    || delete.iter().any(|key| key == "machine");
                if !chosen
                    && let Some(machine) =
                        machine::pinned(pve_state, vm.config.get("machine"), value)?
                {
                    written.insert("machine".to_owned(), machine);
                }
            }
            _ => {}
        }
        written.insert(key.to_owned(), text);
        Ok(written)
    }
}

/// Rejects a change of the TPM version, which is fixed at creation.
pub(super) fn check_tpm_version(old: &str, new: &str) -> Result<(), ApiError> {
    let (Some(old), Some(new)) = (Drive::parse("tpmstate0", old), Drive::parse("tpmstate0", new))
    else {
        return Ok(());
    };
    let version = |drive: &Drive| drive.get("version").unwrap_or("v1.2").to_owned();
    if old.file() == new.file() && version(&old) != version(&new) {
        return Err(ApiError::failed("cannot change TPM state version after creation"));
    }
    Ok(())
}

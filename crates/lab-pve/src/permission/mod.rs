//! Permissions: roles, privileges, access control lists and permission errors.

mod bridge;
mod declared_permission;
mod effective_privileges;
mod path;
mod privilege;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use path::{is_acl_path, normalize};
pub(crate) use privilege::built_in_role;
pub use privilege::built_in_roles;

use super::ApiError;
use super::pve_state::{Caller, PveState};

/// Privileges on a path. The value is true if the privilege also applies to the paths below.
pub(crate) type Privileges<'a> = BTreeMap<&'a str, bool>;

impl PveState {
    /// Checks that the caller has all of these privileges on a path.
    pub(crate) fn check(
        &self,
        caller: &Caller,
        path: &str,
        privileges: &[&str],
    ) -> Result<(), ApiError> {
        let held = self.permissions_of(caller, path);
        match privileges.iter().find(|privilege| !held.contains_key(*privilege)) {
            Some(missing) => Err(permission_denied(&format!("{path}, {missing}"))),
            None => Ok(()),
        }
    }

    /// Checks that the caller has at least one of these privileges on a path.
    pub(crate) fn check_any(
        &self,
        caller: &Caller,
        path: &str,
        privileges: &[&str],
    ) -> Result<(), ApiError> {
        if self.allowed_any(caller, path, privileges) {
            return Ok(());
        }
        Err(permission_denied(&format!("{path}, {}", privileges.join("|"))))
    }

    /// Whether the caller has all of these privileges on a path.
    pub(crate) fn allowed(&self, caller: &Caller, path: &str, privileges: &[&str]) -> bool {
        self.check(caller, path, privileges).is_ok()
    }

    /// Whether the caller has at least one of these privileges on a path.
    pub(crate) fn allowed_any(&self, caller: &Caller, path: &str, privileges: &[&str]) -> bool {
        let held = self.permissions_of(caller, path);
        privileges.iter().any(|privilege| held.contains_key(privilege))
    }

    /// Checks that the caller has all of these privileges on the VM or on the pool that the VM will be in.
    pub(crate) fn check_vm(
        &self,
        caller: &Caller,
        vmid: u32,
        pool: Option<&str>,
        privileges: &[&str],
    ) -> Result<(), ApiError> {
        let by_pool = |pool| self.allowed(caller, &format!("/pool/{pool}"), privileges);
        if pool.is_some_and(by_pool) {
            return Ok(());
        }
        self.check(caller, &format!("/vms/{vmid}"), privileges)
    }

    pub(crate) fn check_pool_exists(&self, pool: &str) -> Result<(), ApiError> {
        if self.pools.contains_key(pool) {
            return Ok(());
        }
        Err(permission_denied(&format!("pool '{pool}' does not exist")))
    }

    /// Checks that the caller has a privilege to change the access control list of a path.
    pub(crate) fn check_modify(&self, caller: &Caller, path: &str) -> Result<(), ApiError> {
        let owner = [
            ("/storage/", "Datastore.Allocate"),
            ("/vms/", "VM.Allocate"),
            ("/pool/", "Pool.Allocate"),
        ];
        let owner = owner.iter().find(|(prefix, _)| path.starts_with(prefix));
        let needed = std::iter::once("Permissions.Modify").chain(owner.map(|(_, name)| *name));
        self.check_any(caller, path, &needed.collect::<Vec<_>>())
    }
}

/// Error with status 403. `why` is empty if Proxmox does not report a reason.
pub(crate) fn permission_denied(why: &str) -> ApiError {
    match why {
        "" => ApiError::forbidden("Permission check failed"),
        why => ApiError::forbidden(format!("Permission check failed ({why})")),
    }
}

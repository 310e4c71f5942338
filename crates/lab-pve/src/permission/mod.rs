//! Who may do what: roles and their privileges, access lists, and the words of a refusal.

mod bridge;
mod declared;
mod path;
mod privilege;
mod resolve;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use path::{is_acl_path, normalize};
pub(crate) use privilege::built_in_role;
pub use privilege::built_in_roles;

use super::Refusal;
use super::world::{Caller, World};

/// Privileges on one path, and whether each also holds for what lies below.
pub(crate) type Privileges<'a> = BTreeMap<&'a str, bool>;

impl World {
    /// All of these privileges are needed.
    pub(crate) fn check(
        &self,
        caller: &Caller,
        path: &str,
        privileges: &[&str],
    ) -> Result<(), Refusal> {
        let held = self.permissions_of(caller, path);
        match privileges.iter().find(|privilege| !held.contains_key(*privilege)) {
            Some(missing) => Err(refused(&format!("{path}, {missing}"))),
            None => Ok(()),
        }
    }

    /// One of these privileges is enough.
    pub(crate) fn check_any(
        &self,
        caller: &Caller,
        path: &str,
        privileges: &[&str],
    ) -> Result<(), Refusal> {
        if self.allowed_any(caller, path, privileges) {
            return Ok(());
        }
        Err(refused(&format!("{path}, {}", privileges.join("|"))))
    }

    /// Whether the caller has all of these privileges.
    pub(crate) fn allowed(&self, caller: &Caller, path: &str, privileges: &[&str]) -> bool {
        self.check(caller, path, privileges).is_ok()
    }

    /// Whether the caller has one of these privileges.
    pub(crate) fn allowed_any(&self, caller: &Caller, path: &str, privileges: &[&str]) -> bool {
        let held = self.permissions_of(caller, path);
        privileges.iter().any(|privilege| held.contains_key(privilege))
    }

    /// On the VM, or on the pool that it is to be in.
    pub(crate) fn check_vm(
        &self,
        caller: &Caller,
        vmid: u32,
        pool: Option<&str>,
        privileges: &[&str],
    ) -> Result<(), Refusal> {
        let by_pool = |pool| self.allowed(caller, &format!("/pool/{pool}"), privileges);
        if pool.is_some_and(by_pool) {
            return Ok(());
        }
        self.check(caller, &format!("/vms/{vmid}"), privileges)
    }

    pub(crate) fn check_pool_exists(&self, pool: &str) -> Result<(), Refusal> {
        if self.pools.contains_key(pool) {
            return Ok(());
        }
        Err(refused(&format!("pool '{pool}' does not exist")))
    }

    /// Whether the caller may hand out rights on this path.
    pub(crate) fn check_modify(&self, caller: &Caller, path: &str) -> Result<(), Refusal> {
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

/// 403, and why: empty where Proxmox does not tell.
pub(crate) fn refused(why: &str) -> Refusal {
    match why {
        "" => Refusal::forbidden("Permission check failed"),
        why => Refusal::forbidden(format!("Permission check failed ({why})")),
    }
}

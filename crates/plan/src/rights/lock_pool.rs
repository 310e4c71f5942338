//! The pool that holds the locks of clusters, and the rights on it.

/// The parent pool of all locks. The privilege to create and delete locks is granted on this pool. When Proxmox
/// deletes a pool, it also deletes the ACL entries of that pool, so a privilege on the pool of a lock would be
/// lost after the first run.
pub const PARENT: &str = "talmox-lock";
/// The privileges that a token needs on the ACL path of [`PARENT`].
pub const RIGHTS: [&str; 2] = ["Pool.Allocate", "Pool.Audit"];

/// The ACL path of [`PARENT`].
pub fn access_path() -> String {
    format!("/pool/{PARENT}")
}

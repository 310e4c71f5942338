//! The pool that holds the locks of clusters, and the rights on it.

/// The pool that all locks are in. The right to create and delete locks is given on it: Proxmox removes the access
/// entries of a pool together with the pool, so a right on the lock itself would be gone after the first run.
pub const PARENT: &str = "talmox-lock";
/// The rights that a token needs on the path of [`PARENT`].
pub const RIGHTS: [&str; 2] = ["Pool.Allocate", "Pool.Audit"];

/// The access path of [`PARENT`].
pub fn access_path() -> String {
    format!("/pool/{PARENT}")
}

//! The parent pool of the cluster locks, and the privileges that are needed on it.

/// The parent pool of all cluster locks. The privilege to create and delete locks is granted on this parent pool. It cannot
/// be granted on the pool of a lock, because Proxmox deletes the ACL entries of a pool together with the pool.
pub const PARENT: &str = "talmox-lock";
/// The privileges that a token needs on the ACL path of [`PARENT`].
pub const RIGHTS: [&str; 2] = ["Pool.Allocate", "Pool.Audit"];

/// The ACL path of [`PARENT`].
pub fn access_path() -> String {
    format!("/pool/{PARENT}")
}

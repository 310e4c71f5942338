//! The privilege to let a host download files.

use talmox_pve_types::api::access::Permissions;
use talmox_pve_types::id::NodeName;

/// Whether the token may let a host download files from the Internet.
pub(crate) fn may_download(permissions: &Permissions, host: &NodeName) -> bool {
    let path = format!("/nodes/{host}");
    let has = |path: &str, right: &str| permissions.allows(path, right);
    has(&path, "Sys.AccessNetwork") || (has("/", "Sys.Audit") && has("/", "Sys.Modify"))
}

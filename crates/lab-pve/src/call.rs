//! API call after authentication and permission checks: caller, host and verified parameters.

use std::sync::Arc;

use serde_json::Value as Json;

use super::pve_state::Caller;
use super::pve_state_guard::PveStateGuard;
use super::schema::Parameters;
use super::site::Site;
use super::{ApiError, Release};
use crate::blob::BlobId;

/// API call after authentication and permission checks.
pub(crate) struct Call {
    pub(crate) site: Arc<Site>,
    pub(crate) caller: Caller,
    /// Host in the path of the call, or else the host that received the request.
    pub(crate) node: String,
    /// Verified parameters of path, query and body.
    pub(crate) params: Parameters,
    pub(crate) release: Release,
}

/// Successful answer (status 200) of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Data(Json),
    /// One page of a longer list, with the total number of entries.
    Page {
        data: Json,
        total: u64,
    },
}

/// Result of an API call.
pub(crate) type Outcome = Result<Reply, ApiError>;

impl Call {
    pub(crate) fn pve_state(&self) -> PveStateGuard<'_> {
        self.site.pve_state()
    }

    pub(crate) fn now(&self) -> u64 {
        self.site.now()
    }
}

impl Reply {
    pub(crate) const NULL: Self = Self::Data(Json::Null);

    pub(crate) fn upid(upid: String) -> Self {
        Self::Data(Json::String(upid))
    }
}

/// Uploaded file that a call received.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) blob: BlobId,
    pub(crate) length: u64,
    /// Path at which Proxmox stores the file temporarily: `/var/tmp/pveupload-…`.
    pub(crate) temporary: String,
    /// Host that received the request. The task runs on this host, even if the path names another host.
    pub(crate) contacted: String,
}

//! Authenticated and authorized API call: caller, host and verified parameters.

use std::sync::{Arc, MutexGuard};

use serde_json::Value as Json;

use super::schema::Parameters;
use super::site::Site;
use super::world::{Caller, World};
use super::{ApiError, Release};
use crate::blob::BlobId;

/// Authenticated and authorized API call.
pub(crate) struct Call {
    pub(crate) site: Arc<Site>,
    pub(crate) caller: Caller,
    /// Host in the path, otherwise the host that received the request.
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
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.site.world()
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
    /// Host that received the request. The task runs there, even if the path contains another host.
    pub(crate) contacted: String,
}

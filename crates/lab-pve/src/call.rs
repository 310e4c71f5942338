//! One call of the API, once it has passed the gates: who calls, for which host, with what.

use std::sync::{Arc, MutexGuard};

use serde_json::Value as Json;

use super::schema::Parameters;
use super::site::Site;
use super::world::{Caller, World};
use super::{Refusal, Release};
use crate::blob::BlobId;

pub(crate) struct Call {
    pub(crate) site: Arc<Site>,
    pub(crate) caller: Caller,
    /// The host that the path names, else the one that was contacted.
    pub(crate) node: String,
    /// The parameters of path, query and body, verified.
    pub(crate) params: Parameters,
    pub(crate) release: Release,
}

/// What a call gives back with 200.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Data(Json),
    /// Part of a longer list.
    Page {
        data: Json,
        total: u64,
    },
}

pub(crate) type Outcome = Result<Reply, Refusal>;

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

/// A file that came with a call.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) blob: BlobId,
    pub(crate) length: u64,
    /// Where the real thing would keep it for now: `/var/tmp/pveupload-…`.
    pub(crate) temporary: String,
    /// The host that was contacted. The task runs there, whatever host the path names.
    pub(crate) contacted: String,
}

//! Clients and deadlines of the requests for a status.

use std::time::Duration;

use talmox_clock::{Clock, Deadline};

use super::Known;
use crate::access::ClusterAccess;

/// Timeout of the nodes and of Kubernetes, in real time. A status must come within seconds; a node that is up answers in a
/// fraction of this.
const NODE_LIMIT: Duration = Duration::from_secs(4);

/// The clients of all APIs, and the timeout.
#[derive(Clone, Debug)]
pub struct StatusSources {
    pub pve: talmox_pve::Client,
    pub cluster: ClusterAccess,
    /// In real time, for all requests together: bytes cross a real network.
    pub limit: Duration,
}

/// The clients of all APIs, and the deadline of their requests.
pub(super) struct StatusRequests {
    pub(super) pve: talmox_pve::Client,
    pub(super) cluster: ClusterAccess,
    /// Deadline of all requests.
    pub(super) deadline: Deadline,
}

impl StatusRequests {
    pub(super) fn new(sources: &StatusSources) -> Self {
        Self {
            pve: sources.pve.clone(),
            cluster: sources.cluster.clone(),
            deadline: Clock::real().deadline(sources.limit),
        }
    }

    /// Deadline of a request that is sent to a node or to Kubernetes now. It is sooner than that of Proxmox, which may have to
    /// read a thousand VMs.
    pub(super) fn node_deadline(&self) -> Deadline {
        Clock::real().deadline(NODE_LIMIT.min(self.deadline.left()))
    }
}

/// The answer, if it comes before the deadline.
pub(super) async fn by_deadline<T>(
    deadline: Deadline,
    answer: impl Future<Output = Result<T, String>>,
) -> Known<T> {
    match Clock::real().timeout(deadline.left(), Box::pin(answer)).await {
        Ok(Ok(found)) => Known::Is(found),
        Ok(Err(why)) => Known::Unknown(why),
        Err(_) => Known::Unknown("no answer in time".to_owned()),
    }
}

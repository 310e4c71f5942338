//! Clients and deadlines of the requests for a status.

use std::time::Duration;

use talmox_clock::{Clock, Deadline};

use super::Known;
use crate::access::ClusterAccess;

/// Timeout of the nodes and of Kubernetes, in real time. The status must be complete within seconds, and a node that is up
/// answers in a fraction of this time.
const NODE_LIMIT: Duration = Duration::from_secs(4);

/// Timeout of the first answer of Proxmox, in real time. After its first answer, Proxmox may take longer for further
/// answers.
const FIRST_ANSWER: Duration = Duration::from_secs(4);

/// The clients of all APIs, and the timeout.
#[derive(Clone, Debug)]
pub struct StatusSources {
    pub pve: talmox_pve::Client,
    pub cluster: ClusterAccess,
    /// Timeout of all requests together, in real time, also in a lab.
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

    pub(super) fn first_answer_limit(&self) -> Duration {
        FIRST_ANSWER.min(self.deadline.left())
    }

    /// Deadline of a request that is sent to a node or to Kubernetes now. It is earlier than the deadline of Proxmox, because
    /// Proxmox may have to read a thousand VMs.
    pub(super) fn node_deadline(&self) -> Deadline {
        Clock::real().deadline(NODE_LIMIT.min(self.deadline.left()))
    }
}

/// The answer. If it is an error or does not arrive before the deadline, the reason.
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

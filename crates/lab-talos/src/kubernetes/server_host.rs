//! Node that an API server runs on, as the host of that server in the simulated Kubernetes API.

use std::io;
use std::sync::Arc;

use talmox_lab_environment::fault::EventSource;
use talmox_lab_kube::{Connections, Receiving, RequestFate, ServerHost};

use crate::connectivity::NodeConnection;
use crate::fault::InterruptedCall;
use crate::loopback_network::Incoming;
use crate::simulation::Simulation;

/// Node whose API server received a request.
#[derive(Clone, Debug)]
pub(super) struct ServerNode {
    pub(super) simulation: Arc<Simulation>,
    pub(super) vmid: u32,
}

impl ServerHost for ServerNode {
    fn receive<'r>(&'r self, method: &'r str, path: &'r str) -> Receiving<'r> {
        Box::pin(async move {
            match self.simulation.apply_faults(self.vmid, EventSource::Kube(path), method).await {
                Ok(remaining_faults) => {
                    let node = self.clone();
                    RequestFate::Answered(Box::new(move || {
                        !remaining_faults.apply(&node.simulation, node.vmid)
                    }))
                }
                Err(InterruptedCall::Rejected { status, message }) => {
                    RequestFate::Rejected { status, message }
                }
                Err(InterruptedCall::RejectedCall(_) | InterruptedCall::ConnectionBroken) => {
                    RequestFate::Cut
                }
            }
        })
    }
}

impl Connections for Incoming {
    type Stream = NodeConnection;

    async fn next(&mut self) -> Option<io::Result<NodeConnection>> {
        Self::next(self).await.map(Ok)
    }
}

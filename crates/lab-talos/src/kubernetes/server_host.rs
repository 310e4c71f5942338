//! The node that an API server runs on, as the Kubernetes API notices it.

use std::io;
use std::sync::Arc;

use talmox_lab_environment::fault::Place;
use talmox_lab_kube::{Connections, Receiving, RequestFate, ServerHost};

use crate::connectivity::NodeConnection;
use crate::fault::Fate;
use crate::simulation::Simulation;
use crate::wire::Incoming;

/// The node whose API server a request reached.
#[derive(Clone, Debug)]
pub(super) struct ServerNode {
    pub(super) simulation: Arc<Simulation>,
    pub(super) vmid: u32,
}

impl ServerHost for ServerNode {
    fn receive<'r>(&'r self, method: &'r str, path: &'r str) -> Receiving<'r> {
        Box::pin(async move {
            match self.simulation.apply_faults(self.vmid, Place::Kube(path), method).await {
                Ok(aftermath) => {
                    let node = self.clone();
                    RequestFate::Answered(Box::new(move || {
                        !aftermath.carry_out(&node.simulation, node.vmid)
                    }))
                }
                Err(Fate::Refused { status, message }) => RequestFate::Refused { status, message },
                Err(Fate::RefusedCall(_) | Fate::Cut) => RequestFate::Cut,
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

//! Start, stop and restart of services through the API.
//!
//! Only few services allow this. The kubelet can be restarted, but not stopped. Extension services can be stopped and
//! restarted. All other services reject these operations.

use talmox_talos_api::server::Status;

use super::super::service::{Service, ServiceState};
use super::super::simulation::Simulation;
use super::super::talos_state::Node;
use super::extension;

const KUBELET: &str = "kubelet";

/// Requested operation on a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceOperation {
    Start,
    Stop,
    Restart,
}

impl ServiceOperation {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
        }
    }

    fn is_allowed(self, service: &str) -> bool {
        service.starts_with("ext-") || service == KUBELET && self != Self::Stop
    }

    /// Operation that is needed in the current state of a service; `None` if the service already has the requested state.
    fn needed_operation(self, service: &str, known: &Service) -> Result<Option<Self>, Status> {
        let order = match (self, known.is_started()) {
            (Self::Start, true) | (Self::Stop, false) => return Ok(None),
            (Self::Restart, false) => Self::Start,
            (order, _) => order,
        };
        if !order.is_allowed(service) {
            let name = order.name();
            let rejected = format!("service {service:?} doesn't support {name} operation via API");
            return Err(Status::unknown(rejected));
        }
        Ok(Some(order))
    }
}

impl Simulation {
    /// Performs an operation. Completes when the service has stopped or begins to start. It does not wait until the service is
    /// healthy.
    pub(crate) async fn control_service(
        &self,
        vmid: u32,
        boot: u64,
        service: &str,
        order: ServiceOperation,
    ) -> Result<(), Status> {
        let gone = || Status::unavailable("error reading from server: EOF");
        let found = self.look(|talos| {
            let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot).ok_or_else(gone)?;
            let Some(known) = node.services.get(service) else {
                return Err(Status::unknown(format!("service {service:?} not defined")));
            };
            let order = order.needed_operation(service, known)?;
            Ok(order.map(|order| (order, known.starts)))
        })?;
        match found {
            None => {}
            Some((_, starts)) if service == KUBELET => {
                self.look(|talos| {
                    talos.nodes.get(&vmid).inspect(|node| node.kubelet_restart.notify_one());
                });
                self.until(|talos| {
                    let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot);
                    match node.and_then(|node| node.services.get(service)) {
                        None => Some(Err(gone())),
                        Some(known) => (known.starts > starts).then_some(Ok(())),
                    }
                })
                .await?;
            }
            Some((order, _)) => self.control_extension(vmid, boot, service, order),
        }
        Ok(())
    }

    fn control_extension(&self, vmid: u32, boot: u64, service: &str, order: ServiceOperation) {
        if order != ServiceOperation::Start {
            let is_running = |node: &Node| {
                let known = node.services.get(service);
                known.is_some_and(|known| known.state == ServiceState::Running)
            };
            if self.look(|talos| talos.nodes.get(&vmid).is_some_and(is_running)) {
                let pid = 3000 + vmid % 500;
                let signal =
                    format!("Sending SIGTERM to task {service} (PID {pid}, container {service})");
                self.enter(vmid, boot, service, ServiceState::Stopping, &signal);
            }
            if service == extension::AGENT {
                self.hypervisor.forget_agent(vmid);
            }
            let finished = "Service finished successfully";
            self.enter(vmid, boot, service, ServiceState::Finished, finished);
        }
        if order != ServiceOperation::Stop {
            self.enter(vmid, boot, service, ServiceState::Starting, "Starting service");
            let came = self.look(|talos| extension::outcome(talos.nodes.get(&vmid)?, service));
            if let Some((state, message)) = came {
                self.enter(vmid, boot, service, state, &message);
            }
            if service == extension::AGENT {
                self.start_guest_agent(vmid);
            }
        }
    }
}

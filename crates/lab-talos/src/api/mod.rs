//! Talos API of a node, as apid and machined answer it.
//!
//! Every call is routed first. If its metadata names other nodes, the call is forwarded to them. Then the roles of the caller
//! are compared with the roles that the method requires. Handlers read the simulated state and request sequences. Handlers keep
//! no state of their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use talmox_talos_api::proto::cluster::cluster_service_server::ClusterServiceServer;
use talmox_talos_api::proto::cosi::resource::state_server::StateServer;
use talmox_talos_api::proto::machine::image_service_server::ImageServiceServer;
use talmox_talos_api::proto::machine::lifecycle_service_server::LifecycleServiceServer;
use talmox_talos_api::proto::machine::machine_service_server::MachineServiceServer;
use talmox_talos_api::proto::storage::storage_service_server::StorageServiceServer;
use talmox_talos_api::server::{Services, Status};
use tokio::sync::Notify;

use super::simulation::Simulation;
use super::talos_state::{Node, TalosState};
use dispatch::Dispatcher;
pub(crate) use file::command_line;
pub use method::names as method_names;
pub(crate) use storage::LOOP_SIZE;

mod apply_lock;
mod client_config;
mod container;
mod deadline;
mod dispatch;
mod etcd;
mod event;
mod fan_out;
mod file;
mod forward;
mod frame;
mod health;
mod kubeconfig;
mod lifecycle;
mod log;
mod machine;
mod method;
mod state;
mod status;
mod storage;
mod stream;

/// Connection between a client and one boot of a node.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) simulation: Arc<Simulation>,
    pub(crate) vmid: u32,
    pub(crate) boot: u64,
    pub(crate) caller: Caller,
    /// Signal to break the connection.
    pub(crate) line: Arc<Notify>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Client without a certificate. Maintenance mode requires no certificate.
    Anonymous,
    /// Client with a certificate. Its roles are the organizations in the certificate.
    Roles(BTreeSet<String>),
}

/// gRPC services that answer on one connection.
pub(crate) fn services(session: Session) -> Services {
    let has_lifecycle = session.node(|node| node.version.is_at_least(13)).unwrap_or_default();
    let session = Arc::new(session);
    let services = Services::builder()
        .with(Dispatcher::<MachineServiceServer<NodeApi>>::new(&session))
        .with(Dispatcher::<ClusterServiceServer<NodeApi>>::new(&session))
        .with(Dispatcher::<StorageServiceServer<NodeApi>>::new(&session))
        .with(Dispatcher::<StateServer<NodeApi>>::new(&session));
    if !has_lifecycle {
        return services.build();
    }
    services
        .with(Dispatcher::<LifecycleServiceServer<NodeApi>>::new(&session))
        .with(Dispatcher::<ImageServiceServer<NodeApi>>::new(&session))
        .build()
}

/// Handlers of all services for one connection.
#[derive(Clone, Debug)]
struct NodeApi(Arc<Session>);

impl Session {
    /// Creates the session of a client that has presented no certificate.
    pub(crate) fn new(simulation: Arc<Simulation>, vmid: u32, boot: u64) -> Self {
        Self { simulation, vmid, boot, caller: Caller::Anonymous, line: Arc::default() }
    }

    /// Breaks the connection without an answer.
    async fn break_connection<T>(&self) -> T {
        self.line.notify_one();
        std::future::pending().await
    }

    fn is_anonymous(&self) -> bool {
        self.caller == Caller::Anonymous
    }

    fn has_role(&self, role: &str) -> bool {
        match &self.caller {
            // Since 1.13, an anonymous client in maintenance mode has the reader role. Older releases reject it before this
            // check.
            Caller::Anonymous => role == method::READER,
            Caller::Roles(roles) => roles.contains(role),
        }
    }

    /// Reads the node. Fails if the node has rebooted since the connection was opened.
    fn node<T>(&self, look: impl FnOnce(&Node) -> T) -> Result<T, Status> {
        self.look(|_, node| look(node))
    }

    fn look<T>(&self, look: impl FnOnce(&TalosState, &Node) -> T) -> Result<T, Status> {
        self.simulation.look(|talos| {
            let node = talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot);
            node.map(|node| look(talos, node)).ok_or_else(gone)
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Node) -> T) -> Result<T, Status> {
        self.simulation.change_node(self.vmid, self.boot, change).ok_or_else(gone)
    }

    /// Completes when this boot of the node ends.
    async fn until_boot_end(&self) {
        let is_over = |talos: &TalosState| {
            let node = talos.nodes.get(&self.vmid);
            node.is_none_or(|node| node.boot != self.boot).then_some(())
        };
        self.simulation.until(is_over).await;
    }
}

/// Status that a client gets if the node goes down during a call.
fn gone() -> Status {
    Status::unavailable("error reading from server: EOF")
}

//! The Talos API of a node: what apid and machined answer together.
//!
//! Every call passes the gate: it is sent on to other nodes where its metadata says so, and the
//! roles of the caller are held against what the method asks for. Handlers look at the state and ask
//! for sequences; they keep nothing.

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
pub(crate) use file::command_line;
use gate::Gate;
pub use method::names as method_names;
pub(crate) use storage::LOOP_SIZE;

mod applying;
mod client_config;
mod container;
mod deadline;
mod etcd;
mod event;
mod fan;
mod file;
mod forward;
mod frame;
mod gate;
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

/// Whom a connection is with, on either side.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) simulation: Arc<Simulation>,
    pub(crate) vmid: u32,
    pub(crate) boot: u64,
    pub(crate) caller: Caller,
    /// Told when the connection is to break.
    pub(crate) line: Arc<Notify>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// In maintenance nobody is asked for a certificate.
    Anonymous,
    /// The organizations of the client's certificate.
    Roles(BTreeSet<String>),
}

/// What answers on one connection.
pub(crate) fn services(session: Session) -> Services {
    let has_lifecycle = session.node(|node| node.version.is_at_least(13)).unwrap_or_default();
    let session = Arc::new(session);
    let services = Services::builder()
        .with(Gate::<MachineServiceServer<NodeApi>>::new(&session))
        .with(Gate::<ClusterServiceServer<NodeApi>>::new(&session))
        .with(Gate::<StorageServiceServer<NodeApi>>::new(&session))
        .with(Gate::<StateServer<NodeApi>>::new(&session));
    if !has_lifecycle {
        return services.build();
    }
    services
        .with(Gate::<LifecycleServiceServer<NodeApi>>::new(&session))
        .with(Gate::<ImageServiceServer<NodeApi>>::new(&session))
        .build()
}

/// The handlers of all services, for one caller.
#[derive(Clone, Debug)]
struct NodeApi(Arc<Session>);

impl Session {
    /// With somebody who has not shown a certificate.
    pub(crate) fn new(simulation: Arc<Simulation>, vmid: u32, boot: u64) -> Self {
        Self { simulation, vmid, boot, caller: Caller::Anonymous, line: Arc::default() }
    }

    /// Breaks the connection, and answers nothing more.
    async fn hang_up<T>(&self) -> T {
        self.line.notify_one();
        std::future::pending().await
    }

    fn is_anonymous(&self) -> bool {
        self.caller == Caller::Anonymous
    }

    fn has_role(&self, role: &str) -> bool {
        match &self.caller {
            // Since 1.13 maintenance is a reader; before, it never comes to this question.
            Caller::Anonymous => role == method::READER,
            Caller::Roles(roles) => roles.contains(role),
        }
    }

    /// Looks at the node, if it has not booted anew meanwhile.
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

    /// Done when this boot of the node is over.
    async fn ended(&self) {
        let is_over = |talos: &TalosState| {
            let node = talos.nodes.get(&self.vmid);
            node.is_none_or(|node| node.boot != self.boot).then_some(())
        };
        self.simulation.until(is_over).await;
    }
}

/// What a client sees of a node that goes away while it answers.
fn gone() -> Status {
    Status::unavailable("error reading from server: EOF")
}

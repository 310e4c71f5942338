//! Control-plane components of a node other than etcd: the API server, the controllers while the node is the leader, and the
//! bootstrap manifests.

use std::sync::Arc;
use std::time::Duration;

use talmox_lab_environment::Work;
use talmox_lab_kube::{KubeStore, Memory, control};
use tokio::sync::watch;

use super::api_server::{self, ApiBackend, StartParameters};
use super::component::API_SERVER;
use super::manifest;
use crate::config::AppliedConfig;
use crate::simulation::Simulation;
use crate::talos_state::{Membership, TalosState};
use crate::{etcd, real_kubernetes, vip};

/// Delay before the next attempt to start an API server that failed to start.
const RESTART_DELAY: Duration = Duration::from_secs(10);

/// Runs the components until the node stops.
pub(crate) async fn run_control_plane(simulation: Arc<Simulation>, vmid: u32, boot: u64) {
    // Server that the virtual IP forwards to, while the API server runs.
    let (serving, served) = watch::channel(None);
    let node = ControlPlane { simulation: &simulation, vmid, boot };
    tokio::join!(
        etcd::run(&simulation, vmid, boot),
        node.track_components(),
        node.serve(serving),
        node.run_controllers(),
        vip::run(&simulation, vmid, boot, served),
    );
}

struct ControlPlane<'r> {
    simulation: &'r Arc<Simulation>,
    vmid: u32,
    boot: u64,
}

/// State that determines whether and how the API server runs.
#[derive(Clone, Debug)]
struct ApiServerState {
    membership: Membership,
    config: Arc<AppliedConfig>,
    store: Arc<KubeStore>,
    start: StartParameters,
    memory: Memory,
}

impl ControlPlane<'_> {
    /// Updates the versions of the components, starting with the first config.
    async fn track_components(&self) {
        let mut known = None;
        loop {
            let next = self
                .simulation
                .until(|talos| {
                    let config = self.config(talos)?;
                    let before = talos.components.get(&self.vmid).cloned().unwrap_or_default();
                    let next = before.next(&config.facts);
                    (Some(&next) != known.as_ref() || before != next).then_some(next)
                })
                .await;
            self.simulation.change(|talos| talos.components.insert(self.vmid, next.clone()));
            known = Some(next);
        }
    }

    fn config<'l>(&self, talos: &'l TalosState) -> Option<&'l Arc<AppliedConfig>> {
        talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot)?.config.as_ref()
    }

    fn state(&self, talos: &TalosState) -> Option<ApiServerState> {
        let config = Arc::clone(self.config(talos)?);
        let node = talos.nodes.get(&self.vmid)?;
        let membership = node.etcd?;
        let cluster = talos.etcds.get(&membership.cluster)?;
        let own = cluster.members.get(&membership.member)?;
        // A learner answers no calls of an API server, and a stopped member cannot answer.
        if own.is_learner || !own.is_up {
            return None;
        }
        let component = talos.components.get(&self.vmid)?.0.get(API_SERVER)?.clone();
        let addresses: Vec<_> = node.network.addresses().collect();
        let names = api_server::names(&config.facts, node.hostname(), &addresses);
        let memory = match (talos.serves(membership), talos.accepts_writes(membership)) {
            (false, _) => Memory::Lost,
            (true, false) => Memory::Full,
            (true, true) => Memory::Good,
        };
        let store = Arc::clone(&cluster.store);
        let start = StartParameters {
            image: component.image,
            version: component.version,
            names,
            addresses,
        };
        Some(ApiServerState { membership, config, store, start, memory })
    }

    /// Runs the API server as long as etcd is available.
    async fn serve(&self, serving: watch::Sender<Option<ApiBackend>>) {
        let name = format!("api-server/{}", self.vmid);
        let mut wait = Work::Pull;
        loop {
            self.simulation
                .until(|talos| self.state(talos).filter(|state| state.memory != Memory::Lost))
                .await;
            self.simulation.environment.wait(wait, &name).await;
            self.simulation.environment.wait(Work::Service, &name).await;
            if let Some(state) = self.simulation.look(|talos| self.state(talos)) {
                self.serve_once(&state, &serving).await;
            }
            serving.send_replace(None);
            // From here on no pull is needed: the image is the same, or it was pulled in advance.
            wait = Work::Service;
        }
    }

    /// Runs the API server until it must restart.
    async fn serve_once(
        &self,
        state: &ApiServerState,
        serving: &watch::Sender<Option<ApiBackend>>,
    ) {
        let (memory_sender, memory) = watch::channel(state.memory);
        let member = (state.membership, self.vmid);
        let facts = &state.config.facts;
        let started =
            api_server::start(self.simulation, member, &state.start, facts, &state.store, memory);
        let running = match started {
            Ok(running) => running,
            Err(problem) => {
                self.log(&format!("kube-apiserver failed to start: {problem}"));
                self.simulation.clock().sleep(RESTART_DELAY).await;
                return;
            }
        };
        serving.send_replace(Some(running.backend.clone()));
        let follow = async {
            let mut memory = state.memory;
            loop {
                let next = self
                    .simulation
                    .until(|talos| match self.state(talos) {
                        Some(next) if next.start == state.start && next.memory == memory => None,
                        other => Some(other),
                    })
                    .await;
                match next {
                    Some(next) if next.start == state.start => {
                        memory = next.memory;
                        memory_sender.send_replace(memory);
                    }
                    _ => return,
                }
            }
        };
        tokio::select! {
            () = follow => {}
            () = self.apply_manifests(state) => {}
        }
    }

    /// Applies the manifests of the config to the cluster. This is repeated after each change of the manifests.
    async fn apply_manifests(&self, state: &ApiServerState) {
        let mut done: Option<Arc<AppliedConfig>> = None;
        loop {
            let config = self
                .simulation
                .until(|talos| {
                    let config = self.config(talos)?;
                    let is_done = done.as_ref().is_some_and(|done| Arc::ptr_eq(done, config));
                    let takes_it = talos.accepts_writes(state.membership);
                    (takes_it && !is_done).then(|| Arc::clone(config))
                })
                .await;
            manifest::apply(self.simulation, self.vmid, self.boot, &config, &state.store).await;
            done = Some(config);
        }
    }

    /// Runs the controllers of the cluster while the etcd member of this node is the leader.
    async fn run_controllers(&self) {
        loop {
            let (membership, store) = self
                .simulation
                .until(|talos| {
                    let state = self.state(talos)?;
                    self.is_leader(talos, state.membership)
                        .then_some((state.membership, state.store))
                })
                .await;
            let ends =
                self.simulation.until(|talos| (!self.is_leader(talos, membership)).then_some(()));
            if let Some(cluster) = self.simulation.real.get(membership.cluster) {
                tokio::select! {
                    () = ends => {}
                    () = real_kubernetes::synchronize(cluster, store, |line| self.log(line)) => {}
                }
            } else {
                let controllers = control(store);
                ends.await;
                controllers.stop().await;
            }
        }
    }

    fn is_leader(&self, talos: &TalosState, membership: Membership) -> bool {
        let cluster = talos.etcds.get(&membership.cluster);
        let has_server = cluster.is_some_and(|cluster| !cluster.api_servers.is_empty());
        has_server
            && talos.accepts_writes(membership)
            && talos.leader_of(membership) == Some(membership.member)
    }

    fn log(&self, line: &str) {
        let now = self.simulation.now();
        self.simulation.change_node(self.vmid, self.boot, |node| node.dmesg(now, line));
    }
}

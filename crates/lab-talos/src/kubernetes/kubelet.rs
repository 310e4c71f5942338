//! kubelet of a node. It registers the node, updates the Node object, and stops together with its machine.

use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_lab_environment::Work;
use talmox_lab_kube::{KubeStore, Machine};

use super::node_spec::{self, NodeSpec};
use super::{machine, reachable_server};
use crate::service::{self, ServiceState};
use crate::simulation::Simulation;
use crate::talos_state::TalosState;

const SERVICE: &str = "kubelet";
/// Time between two attempts to register, and between two updates of the status.
const INTERVAL: Duration = Duration::from_secs(3);
/// Minimum of [`INTERVAL`] in real time. It limits the load if lab time is fast.
const MIN_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the kubelet until the node stops.
pub(crate) async fn run_kubelet(simulation: Arc<Simulation>, vmid: u32, boot: u64) {
    let restart = simulation
        .look(|talos| talos.nodes.get(&vmid).map(|node| Arc::clone(&node.kubelet_restart)));
    let Some(restart) = restart else { return };
    let kubelet = NodeKubelet { simulation: &simulation, vmid, boot };
    let mut image = KubeletImage::NotPulled;
    loop {
        tokio::select! {
            () = kubelet.run(image) => {}
            () = restart.notified() => kubelet.stop().await,
        }
        image = KubeletImage::Present;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KubeletImage {
    NotPulled,
    Present,
}

struct NodeKubelet<'r> {
    simulation: &'r Arc<Simulation>,
    vmid: u32,
    boot: u64,
}

/// Registered node. Dropping this value stops the heartbeats of the kubelet.
struct RegisteredNode {
    store: Arc<KubeStore>,
    name: String,
    boot_id: String,
}

impl Drop for RegisteredNode {
    fn drop(&mut self) {
        self.store.stop_kubelet(&self.name, &self.boot_id);
    }
}

impl NodeKubelet<'_> {
    /// Message of the last event before the kubelet stops.
    fn signal(&self) -> String {
        let pid = service::pid(SERVICE, self.vmid);
        format!("Sending SIGTERM to task {SERVICE} (PID {pid}, container {SERVICE})")
    }

    async fn wait(&self, work: Work) {
        self.simulation.environment.wait(work, &format!("kubelet/{}", self.vmid)).await;
    }

    fn enter(&self, state: ServiceState, message: &str) {
        self.simulation.enter(self.vmid, self.boot, SERVICE, state, message);
    }

    /// Runs the kubelet from the start of its process. A restarted kubelet registers its node as if it had never registered it.
    async fn run(&self, image: KubeletImage) {
        self.start(image).await;
        let mut name = String::new();
        loop {
            let (store, machine, spec) = self.register(&name).await;
            name.clone_from(&machine.name);
            let registered = RegisteredNode {
                store,
                name: machine.name.clone(),
                boot_id: machine.boot_id.clone(),
            };
            self.keep_updated(&registered, machine, spec).await;
        }
    }

    /// Stops the process of the kubelet. Its pods continue to run.
    async fn stop(&self) {
        let is_running = self.simulation.look(|talos| {
            let service = talos.nodes.get(&self.vmid)?.services.get(SERVICE)?;
            Some(service.state == ServiceState::Running)
        });
        if is_running == Some(true) {
            self.enter(ServiceState::Stopping, &self.signal());
            self.wait(Work::Call).await;
        }
        self.enter(ServiceState::Finished, "Service finished successfully");
    }

    /// Starts the service. The service is healthy before the node is registered.
    async fn start(&self, image: KubeletImage) {
        let (simulation, vmid, boot) = (self.simulation, self.vmid, self.boot);
        self.enter(ServiceState::Starting, "Starting service");
        let condition = service::condition(SERVICE).unwrap_or_default();
        self.enter(ServiceState::Waiting, &format!("Waiting for {condition}"));
        simulation.until_time_synced(vmid, boot).await;
        simulation.enter(vmid, boot, SERVICE, ServiceState::Preparing, "Running pre state");
        if image == KubeletImage::NotPulled {
            simulation.until_pulled(vmid, boot, SERVICE).await;
            self.wait(Work::Pull).await;
        }
        simulation.enter(vmid, boot, SERVICE, ServiceState::Preparing, "Creating service runner");
        self.wait(Work::Service).await;
        let started = service::started(SERVICE, vmid);
        simulation.enter(vmid, boot, SERVICE, ServiceState::Running, &started);
        simulation.set_health(vmid, boot, SERVICE, true, "");
    }

    async fn wait_interval(&self) {
        let (clock, real) = (self.simulation.clock(), Clock::real());
        tokio::join!(clock.sleep(INTERVAL), real.sleep(MIN_INTERVAL));
    }

    /// Registers the node, and retries until an API server accepts it. `known` is the name under which the node was registered
    /// before. It is needed because a kubelet does not create a deleted Node object again. Failures are only logged, because
    /// the health of the service does not depend on the registration.
    async fn register(&self, known: &str) -> (Arc<KubeStore>, Machine, NodeSpec) {
        let (mut last_problem, mut logged_problem) = (String::new(), String::new());
        loop {
            match self.try_register(known) {
                Ok(done) => return done,
                // A failure is logged if it occurs twice in a row.
                Err(problem) if problem == last_problem && problem != logged_problem => {
                    let text =
                        format!("\"Unable to register node with API server\" err=\"{problem}\"");
                    self.simulation.log(self.vmid, self.boot, SERVICE, &text);
                    logged_problem = problem;
                }
                Err(problem) => last_problem = problem,
            }
            self.wait_interval().await;
        }
    }

    fn try_register(&self, known: &str) -> Result<(Arc<KubeStore>, Machine, NodeSpec), String> {
        let simulation = self.simulation;
        let (store, machine, spec, token, disk) = simulation.look(|talos| {
            let store =
                reachable_server::api_server(talos, &simulation.settings.gateways, self.vmid)?;
            let machine = self.machine(talos).ok_or("the node has no address")?;
            let node = talos.nodes.get(&self.vmid).ok_or("the node is gone")?;
            let config = node.config.as_ref().ok_or("the node has no config")?;
            let token = config.facts.bootstrap_token.clone();
            let spec = NodeSpec::of(&config.facts);
            Ok::<_, String>((store, machine, spec, token, node.system_disk.clone()))
        })?;
        if known == machine.name && store.get("nodes", "", known).is_none() {
            return Err(format!("node \"{known}\" not found"));
        }
        let is_known = disk.as_ref().is_some_and(|disk| {
            simulation
                .hypervisor
                .written(disk)
                .ephemeral
                .is_some_and(|ephemeral| ephemeral.has_kubelet)
        });
        if !is_known && !store.accepts_token(&token) {
            return Err("Unauthorized".to_owned());
        }
        if let Some(disk) = disk.filter(|_| !is_known) {
            // The kubelet now has a client certificate and no longer needs the bootstrap token.
            simulation.hypervisor.write_disk(&disk, |written| {
                written.ephemeral.get_or_insert_default().has_kubelet = true;
            });
        }
        store.start_kubelet(machine.clone());
        node_spec::apply(&store, &machine.name, &spec);
        Ok((store, machine, spec))
    }

    fn machine(&self, talos: &TalosState) -> Option<Machine> {
        let node = talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot)?;
        let serves = node.etcd.is_some_and(|membership| {
            let cluster = talos.etcds.get(&membership.cluster);
            cluster.is_some_and(|cluster| cluster.api_servers.contains_key(&self.vmid))
        });
        machine::of(talos, self.vmid, serves)
    }

    /// Updates the Node object. Ends when no API server is reachable, or when the name or the cluster of the node changes.
    async fn keep_updated(
        &self,
        registered: &RegisteredNode,
        mut machine: Machine,
        mut known: NodeSpec,
    ) {
        let store = &registered.store;
        let mut state_changes = self.simulation.state_changes();
        loop {
            state_changes.borrow_and_update();
            let (found, next, spec) = self.simulation.look(|talos| {
                let found = reachable_server::api_server(
                    talos,
                    &self.simulation.settings.gateways,
                    self.vmid,
                )
                .ok();
                let node = talos.nodes.get(&self.vmid);
                let config = node.and_then(|node| node.config.as_ref());
                (found, self.machine(talos), config.map(|config| NodeSpec::of(&config.facts)))
            });
            let is_same = found.is_some_and(|found| Arc::ptr_eq(&found, store));
            let Some(next) = next.filter(|_| is_same) else { return };
            if next.name != registered.name {
                return;
            }
            self.apply_changes(store, &machine, &next).await;
            if let Some(spec) = spec.filter(|spec| *spec != known) {
                node_spec::apply(store, &next.name, &spec);
                known = spec;
            }
            machine = next;
            tokio::select! {
                _ = state_changes.changed() => {}
                () = self.wait_interval() => {}
            }
            Clock::real().sleep(MIN_INTERVAL).await;
        }
    }

    /// Applies changed properties of the machine: restarts the kubelet, or updates its static pods.
    async fn apply_changes(&self, store: &Arc<KubeStore>, before: &Machine, next: &Machine) {
        if machine::needs_restart(before, next) {
            self.enter(ServiceState::Stopping, &self.signal());
            store.stop_kubelet(&before.name, &before.boot_id);
            self.start(KubeletImage::NotPulled).await;
            store.start_kubelet(next.clone());
        } else if before.static_pods != next.static_pods {
            self.wait(Work::Service).await;
            store.set_static_pods(&next.name, &next.boot_id, next.static_pods.clone());
        }
    }
}

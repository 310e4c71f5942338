//! The kubelet of a node: it registers, keeps its node as the config wants it, and falls silent
//! with its machine.

use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_lab_environment::Work;
use talmox_lab_kube::{KubeStore, Machine};

use super::node_spec::{self, NodeSpec};
use super::{machine, reach};
use crate::service::{self, ServiceState};
use crate::simulation::Simulation;
use crate::talos_state::TalosState;

const SERVICE: &str = "kubelet";
/// Between two attempts to register, or two looks at the machine.
const AGAIN: Duration = Duration::from_secs(3);
/// In real time: however fast the lab's time passes, looking takes some.
const SHORTEST: Duration = Duration::from_millis(20);

/// Runs for as long as the node does.
pub(crate) async fn run_kubelet(simulation: Arc<Simulation>, vmid: u32, boot: u64) {
    let order =
        simulation.look(|talos| talos.nodes.get(&vmid).map(|node| Arc::clone(&node.kubelet_order)));
    let Some(order) = order else { return };
    let kubelet = Kubelet { simulation: &simulation, vmid, boot };
    let mut image = Image::ToBePulled;
    loop {
        tokio::select! {
            () = kubelet.live(image) => {}
            () = order.notified() => kubelet.stop().await,
        }
        image = Image::There;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Image {
    ToBePulled,
    There,
}

struct Kubelet<'r> {
    simulation: &'r Arc<Simulation>,
    vmid: u32,
    boot: u64,
}

/// A node that is in the API. When this ends, nobody hears of it any more.
struct Registered {
    store: Arc<KubeStore>,
    name: String,
    boot_id: String,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.store.stop_kubelet(&self.name, &self.boot_id);
    }
}

impl Kubelet<'_> {
    /// Message of its last event when it is stopped.
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

    /// From its start on. Whoever begins anew knows nothing of what it registered before.
    async fn live(&self, image: Image) {
        self.start(image).await;
        let mut name = String::new();
        loop {
            let (store, machine, spec) = self.register(&name).await;
            name.clone_from(&machine.name);
            let registered =
                Registered { store, name: machine.name.clone(), boot_id: machine.boot_id.clone() };
            self.follow(&registered, machine, spec).await;
        }
    }

    /// Its process ends, and what it ran goes on without it.
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

    /// The service itself, which is well before any API server knows of it.
    async fn start(&self, image: Image) {
        let (simulation, vmid, boot) = (self.simulation, self.vmid, self.boot);
        self.enter(ServiceState::Starting, "Starting service");
        let condition = service::condition(SERVICE).unwrap_or_default();
        self.enter(ServiceState::Waiting, &format!("Waiting for {condition}"));
        simulation.until_in_time(vmid, boot).await;
        simulation.enter(vmid, boot, SERVICE, ServiceState::Preparing, "Running pre state");
        if image == Image::ToBePulled {
            simulation.until_pulled(vmid, boot, SERVICE).await;
            self.wait(Work::Pull).await;
        }
        simulation.enter(vmid, boot, SERVICE, ServiceState::Preparing, "Creating service runner");
        self.wait(Work::Service).await;
        let started = service::started(SERVICE, vmid);
        simulation.enter(vmid, boot, SERVICE, ServiceState::Running, &started);
        simulation.set_health(vmid, boot, SERVICE, true, "");
    }

    async fn again(&self) {
        let (clock, real) = (self.simulation.clock(), Clock::real());
        tokio::join!(clock.sleep(AGAIN), real.sleep(SHORTEST));
    }

    /// Tries until there is an API server that takes the node. `known` was registered before: a
    /// kubelet does not bring back what somebody deleted. What is in the way stands in its log: the service
    /// is well, whether anybody knows the node or not.
    async fn register(&self, known: &str) -> (Arc<KubeStore>, Machine, NodeSpec) {
        let (mut heard, mut said) = (String::new(), String::new());
        loop {
            match self.attempt(known) {
                Ok(done) => return done,
                // What lasts is worth being told.
                Err(problem) if problem == heard && problem != said => {
                    let text =
                        format!("\"Unable to register node with API server\" err=\"{problem}\"");
                    self.simulation.log(self.vmid, self.boot, SERVICE, &text);
                    said = problem;
                }
                Err(problem) => heard = problem,
            }
            self.again().await;
        }
    }

    fn attempt(&self, known: &str) -> Result<(Arc<KubeStore>, Machine, NodeSpec), String> {
        let simulation = self.simulation;
        let (store, machine, spec, token, disk) = simulation.look(|talos| {
            let store = reach::api_server(talos, &simulation.settings.gateways, self.vmid)?;
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
        if !is_known && !store.takes_token(&token) {
            return Err("Unauthorized".to_owned());
        }
        if let Some(disk) = disk.filter(|_| !is_known) {
            // Its own certificate, which outlives the token.
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

    /// Keeps the node up to date until its API servers are out of reach, or it is another's.
    async fn follow(&self, registered: &Registered, mut machine: Machine, mut known: NodeSpec) {
        let store = &registered.store;
        let mut news = self.simulation.news();
        loop {
            news.borrow_and_update();
            let (found, next, spec) = self.simulation.look(|talos| {
                let found =
                    reach::api_server(talos, &self.simulation.settings.gateways, self.vmid).ok();
                let node = talos.nodes.get(&self.vmid);
                let config = node.and_then(|node| node.config.as_ref());
                (found, self.machine(talos), config.map(|config| NodeSpec::of(&config.facts)))
            });
            let is_same = found.is_some_and(|found| Arc::ptr_eq(&found, store));
            let Some(next) = next.filter(|_| is_same) else { return };
            if next.name != registered.name {
                return;
            }
            self.take_over(store, &machine, &next).await;
            if let Some(spec) = spec.filter(|spec| *spec != known) {
                node_spec::apply(store, &next.name, &spec);
                known = spec;
            }
            machine = next;
            tokio::select! {
                _ = news.changed() => {}
                () = self.again() => {}
            }
            Clock::real().sleep(SHORTEST).await;
        }
    }

    /// Makes what changed about the machine known.
    async fn take_over(&self, store: &Arc<KubeStore>, before: &Machine, next: &Machine) {
        if machine::is_other_kubelet(before, next) {
            self.enter(ServiceState::Stopping, &self.signal());
            store.stop_kubelet(&before.name, &before.boot_id);
            self.start(Image::ToBePulled).await;
            store.start_kubelet(next.clone());
        } else if before.static_pods != next.static_pods {
            self.wait(Work::Service).await;
            store.set_static_pods(&next.name, &next.boot_id, next.static_pods.clone());
        }
    }
}

//! A control plane beside its etcd member: the API server, the controllers while it leads, and the
//! manifests that a cluster begins with.

use std::sync::Arc;
use std::time::Duration;

use talmox_lab_environment::Work;
use talmox_lab_kube::{KubeStore, Memory, control};
use tokio::sync::watch;

use super::api_server::{self, Behind, Start};
use super::component::API_SERVER;
use super::manifest;
use crate::config::Applied;
use crate::simulation::Simulation;
use crate::talos_state::{Membership, TalosState};
use crate::{etcd, real, vip};

/// How long it is before an API server that cannot start is started again.
const BACK_OFF: Duration = Duration::from_secs(10);

/// Runs all of it, for as long as the node does.
pub(crate) async fn run_control_plane(simulation: Arc<Simulation>, vmid: u32, boot: u64) {
    // What the shared address leads to, while there is an API server.
    let (serving, served) = watch::channel(None);
    let node = ControlPlane { simulation: &simulation, vmid, boot };
    tokio::join!(
        etcd::run(&simulation, vmid, boot),
        node.count_components(),
        node.serve(serving),
        node.lead(),
        vip::run(&simulation, vmid, boot, served),
    );
}

struct ControlPlane<'r> {
    simulation: &'r Arc<Simulation>,
    vmid: u32,
    boot: u64,
}

/// What the API server depends on.
#[derive(Clone, Debug)]
struct View {
    membership: Membership,
    config: Arc<Applied>,
    store: Arc<KubeStore>,
    start: Start,
    memory: Memory,
}

impl ControlPlane<'_> {
    /// Counts the versions of what the config wants to run, from the first config on.
    async fn count_components(&self) {
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

    fn config<'l>(&self, talos: &'l TalosState) -> Option<&'l Arc<Applied>> {
        talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot)?.config.as_ref()
    }

    fn view(&self, talos: &TalosState) -> Option<View> {
        let config = Arc::clone(self.config(talos)?);
        let node = talos.nodes.get(&self.vmid)?;
        let membership = node.etcd?;
        let cluster = talos.etcds.get(&membership.cluster)?;
        let own = cluster.members.get(&membership.member)?;
        // A learner does not answer an API server; a member that is down leaves nobody to ask.
        if own.is_learner || !own.is_up {
            return None;
        }
        let component = talos.components.get(&self.vmid)?.0.get(API_SERVER)?.clone();
        let addresses: Vec<_> = node.network.addresses().collect();
        let names = api_server::names(&config.facts, node.hostname(), &addresses);
        let memory = match (talos.serves(membership), talos.takes_writes(membership)) {
            (false, _) => Memory::Lost,
            (true, false) => Memory::Full,
            (true, true) => Memory::Good,
        };
        let store = Arc::clone(&cluster.store);
        let start = Start { image: component.image, version: component.version, names, addresses };
        Some(View { membership, config, store, start, memory })
    }

    /// Runs the API server whenever there is what it needs.
    async fn serve(&self, serving: watch::Sender<Option<Behind>>) {
        let name = format!("api-server/{}", self.vmid);
        let mut wait = Work::Pull;
        loop {
            self.simulation
                .until(|talos| self.view(talos).filter(|view| view.memory != Memory::Lost))
                .await;
            self.simulation.environment.wait(wait, &name).await;
            self.simulation.environment.wait(Work::Service, &name).await;
            if let Some(view) = self.simulation.look(|talos| self.view(talos)) {
                self.serve_once(&view, &serving).await;
            }
            serving.send_replace(None);
            // The next image was pulled before it was asked for, or is the same.
            wait = Work::Service;
        }
    }

    /// Until it has to start anew.
    async fn serve_once(&self, view: &View, serving: &watch::Sender<Option<Behind>>) {
        let (remember, memory) = watch::channel(view.memory);
        let who = (view.membership, self.vmid);
        let facts = &view.config.facts;
        let started =
            api_server::start(self.simulation, who, &view.start, facts, &view.store, memory);
        let running = match started {
            Ok(running) => running,
            Err(problem) => {
                self.log(&format!("kube-apiserver does not start: {problem}"));
                self.simulation.clock().sleep(BACK_OFF).await;
                return;
            }
        };
        serving.send_replace(Some(running.behind.clone()));
        let follow = async {
            let mut memory = view.memory;
            loop {
                let next = self
                    .simulation
                    .until(|talos| match self.view(talos) {
                        Some(next) if next.start == view.start && next.memory == memory => None,
                        other => Some(other),
                    })
                    .await;
                match next {
                    Some(next) if next.start == view.start => {
                        memory = next.memory;
                        remember.send_replace(memory);
                    }
                    _ => return,
                }
            }
        };
        tokio::select! {
            () = follow => {}
            () = self.begin_cluster(view) => {}
        }
    }

    /// Brings the manifests of the config into the cluster, again whenever they change.
    async fn begin_cluster(&self, view: &View) {
        let mut done: Option<Arc<Applied>> = None;
        loop {
            let config = self
                .simulation
                .until(|talos| {
                    let config = self.config(talos)?;
                    let is_done = done.as_ref().is_some_and(|done| Arc::ptr_eq(done, config));
                    let takes_it = talos.takes_writes(view.membership);
                    (takes_it && !is_done).then(|| Arc::clone(config))
                })
                .await;
            manifest::apply(self.simulation, self.vmid, self.boot, &config, &view.store).await;
            done = Some(config);
        }
    }

    /// The controllers of a cluster run once: here, while this node's member leads.
    async fn lead(&self) {
        loop {
            let (membership, store) = self
                .simulation
                .until(|talos| {
                    let view = self.view(talos)?;
                    self.leads(talos, view.membership).then_some((view.membership, view.store))
                })
                .await;
            let ends =
                self.simulation.until(|talos| (!self.leads(talos, membership)).then_some(()));
            if let Some(cluster) = self.simulation.real.get(membership.cluster) {
                tokio::select! {
                    () = ends => {}
                    () = real::tell(cluster, store, |line| self.log(line)) => {}
                }
            } else {
                let controllers = control(store);
                ends.await;
                controllers.stop().await;
            }
        }
    }

    fn leads(&self, talos: &TalosState, membership: Membership) -> bool {
        let cluster = talos.etcds.get(&membership.cluster);
        let has_server = cluster.is_some_and(|cluster| !cluster.api_servers.is_empty());
        has_server
            && talos.takes_writes(membership)
            && talos.leader_of(membership) == Some(membership.member)
    }

    fn log(&self, line: &str) {
        let now = self.simulation.now();
        self.simulation.change_node(self.vmid, self.boot, |node| node.dmesg(now, line));
    }
}

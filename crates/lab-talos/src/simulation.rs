//! Simulation of all nodes: the shared state, notifications about changes, and running guests.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use talmox_clock::{Chance, Clock};
use talmox_lab_environment::Environment;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::dhcp::Dhcp;
use super::factory::Factory;
use super::hypervisor::Hypervisor;
use super::loopback_network::LoopbackNetwork;
use super::real_kubernetes::{RealClusters, RealKubernetes};
use super::resource::ResourceVersions;
use super::state_observer::StateObservers;
use super::talos_state::{Node, TalosState};

/// Environment of the nodes: routers, DHCP, Image Factory and real programs.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulationSettings {
    /// Routers with internet access. If the list is empty, every gateway has internet access.
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) dhcp: Option<Dhcp>,
    /// Image Factory that provides the installers.
    pub(crate) factory: Option<Arc<Factory>>,
    /// Real programs that replace the simulated API servers.
    pub(crate) real: Option<RealKubernetes>,
}

/// Simulation of all nodes.
pub struct Simulation {
    pub(crate) environment: Arc<Environment>,
    pub(crate) hypervisor: Arc<dyn Hypervisor>,
    pub(crate) loopback_network: Arc<LoopbackNetwork>,
    pub(crate) settings: SimulationSettings,
    /// Versions of the resources of all nodes.
    pub(crate) resource_versions: ResourceVersions,
    /// Running processes of the real programs.
    pub(crate) real: RealClusters,
    pub(crate) observers: StateObservers,
    state: Mutex<TalosState>,
    /// Counter of state changes. Tasks that wait for a change subscribe to it.
    state_changes: watch::Sender<u64>,
    /// Task of each running VM. The task is aborted at power-off.
    guest_tasks: Mutex<HashMap<u32, AbortHandle>>,
}

impl Simulation {
    pub(crate) fn new(
        environment: Arc<Environment>,
        hypervisor: Arc<dyn Hypervisor>,
        loopback_network: Arc<LoopbackNetwork>,
        settings: SimulationSettings,
    ) -> Arc<Self> {
        let (state_changes, _) = watch::channel(0);
        let (state, guest_tasks) = (Mutex::default(), Mutex::default());
        let resource_versions = ResourceVersions::default();
        Arc::new(Self {
            environment,
            hypervisor,
            loopback_network,
            settings,
            resource_versions,
            real: RealClusters::default(),
            observers: StateObservers::default(),
            state,
            state_changes,
            guest_tasks,
        })
    }

    /// Loopback addresses of the nodes: for each address or `host:port` inside the lab, the address that clients connect to.
    pub fn reach(&self) -> BTreeMap<String, String> {
        self.loopback_network.reach()
    }

    /// Number of etcd clusters that were bootstrapped in this lab. This includes clusters that no longer exist.
    pub fn etcd_clusters(&self) -> usize {
        self.look(|talos| talos.etcds.len())
    }

    /// Stops the real programs, if any run.
    pub fn stop_real_kubernetes(&self) {
        self.real.stop();
    }

    pub(crate) fn clock(&self) -> Clock {
        self.environment.clock
    }

    /// Lab time since 1970.
    pub(crate) fn now(&self) -> Duration {
        self.environment.clock.since_epoch()
    }

    pub(crate) fn chance(&self, object: &str) -> Chance {
        self.environment.chance(object)
    }

    /// Reads the state. The closure must not block.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&TalosState) -> T) -> T {
        look(&self.locked())
    }

    /// Changes the state, and wakes the tasks that wait for a change.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut TalosState) -> T) -> T {
        let mut talos = self.locked();
        let result = change(&mut talos);
        self.observers.notify(&talos);
        drop(talos);
        self.state_changes.send_modify(|count| *count += 1);
        result
    }

    /// Changes a node. Does nothing if the node has rebooted since the given boot.
    pub(crate) fn change_node<T>(
        &self,
        vmid: u32,
        boot: u64,
        change: impl FnOnce(&mut Node) -> T,
    ) -> Option<T> {
        self.change(|talos| {
            let node = talos.of_boot(vmid, boot)?;
            node.revision += 1;
            Some(change(node))
        })
    }

    /// Waits until `look` returns a value.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut(&TalosState) -> Option<T>) -> T {
        let mut state_changes = self.state_changes.subscribe();
        loop {
            state_changes.borrow_and_update();
            if let Some(found) = self.look(&mut look) {
                return found;
            }
            if state_changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Receiver that is notified about state changes.
    pub(crate) fn state_changes(&self) -> watch::Receiver<u64> {
        self.state_changes.subscribe()
    }

    fn locked(&self) -> MutexGuard<'_, TalosState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Aborts the tasks of all VMs at the end of the lab.
    pub(super) fn abort_all(&self) {
        let mut all = self.guest_tasks.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, guest_task) in all.drain() {
            guest_task.abort();
        }
    }

    /// Aborts the task of a VM, and replaces it by another task if there is one.
    pub(super) fn replace_task(&self, vmid: u32, guest_task: Option<AbortHandle>) {
        let mut all = self.guest_tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match guest_task {
            Some(guest_task) => all.insert(vmid, guest_task),
            None => all.remove(&vmid),
        };
        if let Some(before) = before {
            before.abort();
        }
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").finish_non_exhaustive()
    }
}

//! The running nodes, and what all that happens to them share.

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
use super::real::{RealClusters, RealKubernetes};
use super::resource::Seen;
use super::talos_state::{Node, TalosState};
use super::wire::Wire;

/// What is around the nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulationSettings {
    /// Routers that lead to the internet; where none are named, every gateway does.
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) dhcp: Option<Dhcp>,
    /// Where installers come from.
    pub(crate) factory: Option<Arc<Factory>>,
    /// Real programs in the place of simulated API servers.
    pub(crate) real: Option<RealKubernetes>,
}

/// The simulation of all nodes.
pub struct Simulation {
    pub(crate) environment: Arc<Environment>,
    pub(crate) hypervisor: Arc<dyn Hypervisor>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) settings: SimulationSettings,
    /// Versions of the nodes' resources.
    pub(crate) seen: Seen,
    /// What runs of the real programs.
    pub(crate) real: RealClusters,
    state: Mutex<TalosState>,
    /// Counts changes of the state, for tasks that wait for one.
    news: watch::Sender<u64>,
    /// What runs for each VM: ends when its power does.
    playing: Mutex<HashMap<u32, AbortHandle>>,
}

impl Simulation {
    pub(crate) fn new(
        environment: Arc<Environment>,
        hypervisor: Arc<dyn Hypervisor>,
        wire: Arc<Wire>,
        settings: SimulationSettings,
    ) -> Arc<Self> {
        let (news, _) = watch::channel(0);
        let (state, playing) = (Mutex::default(), Mutex::default());
        let seen = Seen::default();
        Arc::new(Self {
            environment,
            hypervisor,
            wire,
            settings,
            seen,
            real: RealClusters::default(),
            state,
            news,
            playing,
        })
    }

    /// Where clients find the addresses of nodes: an address, or `host:port`, and what stands for it.
    pub fn reach(&self) -> BTreeMap<String, String> {
        self.wire.reach()
    }

    /// How many etcd clusters were bootstrapped since the lab exists, whatever became of them.
    pub fn etcd_clusters(&self) -> usize {
        self.look(|talos| talos.etcds.len())
    }

    /// Stops the real programs, where some run.
    pub fn stop_real_kubernetes(&self) {
        self.real.stop();
    }

    pub(crate) fn clock(&self) -> Clock {
        self.environment.clock
    }

    /// In the lab's time since 1970.
    pub(crate) fn now(&self) -> Duration {
        self.environment.clock.since_epoch()
    }

    pub(crate) fn chance(&self, object: &str) -> Chance {
        self.environment.chance(object)
    }

    /// Reads the state. The closure must not wait.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&TalosState) -> T) -> T {
        look(&self.locked())
    }

    /// Changes the state, and wakes the tasks that wait for a change.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut TalosState) -> T) -> T {
        let result = change(&mut self.locked());
        self.news.send_modify(|count| *count += 1);
        result
    }

    /// Changes a node, if this is still the boot that the caller began in.
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

    /// Waits until the state is as wanted.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut(&TalosState) -> Option<T>) -> T {
        let mut news = self.news.subscribe();
        loop {
            news.borrow_and_update();
            if let Some(found) = self.look(&mut look) {
                return found;
            }
            if news.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// To be told of changes.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    fn locked(&self) -> MutexGuard<'_, TalosState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lab ends, and with it all that runs for VMs.
    pub(super) fn leave_all(&self) {
        let mut all = self.playing.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, playing) in all.drain() {
            playing.abort();
        }
    }

    /// What runs for a VM ends, and this begins in its place.
    pub(super) fn replace(&self, vmid: u32, playing: Option<AbortHandle>) {
        let mut all = self.playing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match playing {
            Some(playing) => all.insert(vmid, playing),
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

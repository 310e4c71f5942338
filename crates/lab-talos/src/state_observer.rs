//! Facts about nodes and etcd clusters, for observers. Observers get them after every change of the simulated state.
//!
//! Observers are called while the state is locked, so that they miss no change. They must not call the simulation.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use talmox_lab_kube::KubeStore;

use super::config::AppliedConfig;
use super::simulation::Simulation;
use super::talos_state::{Membership, Node, TalosState};

type Observer = Arc<dyn Fn(&StateFacts) + Send + Sync>;

/// Facts about all running nodes and all etcd clusters at one moment.
#[derive(Clone, Debug)]
pub struct StateFacts {
    pub nodes: Vec<NodeFacts>,
    pub etcds: Vec<EtcdFacts>,
}

/// Running node.
#[derive(Clone)]
pub struct NodeFacts {
    pub vmid: u32,
    /// Host name in the machine config, also before the network uses it.
    pub hostname: String,
    /// Addresses of the network cards of the node, without virtual IPs.
    pub addresses: Vec<IpAddr>,
    config: Option<Arc<AppliedConfig>>,
}

/// etcd cluster.
#[derive(Clone, Debug)]
pub struct EtcdFacts {
    pub id: u64,
    /// Whether at least one member runs and reaches a majority of the voters.
    pub has_quorum: bool,
    pub members: Vec<MemberFacts>,
    /// Store with the objects of the Kubernetes cluster.
    pub store: Arc<KubeStore>,
}

/// Member in the member list of an etcd cluster.
#[derive(Clone, Debug)]
pub struct MemberFacts {
    pub id: u64,
    /// Host name of the node; empty until the member has started for the first time.
    pub name: String,
    pub vmid: u32,
    pub is_learner: bool,
    /// Whether the etcd process of the member runs.
    pub is_up: bool,
}

impl NodeFacts {
    /// Name of the cluster in the machine config; `None` in maintenance mode.
    pub fn cluster_name(&self) -> Option<&str> {
        self.config.as_ref().map(|config| config.facts.cluster_name.as_str())
    }

    /// Secrets and ids of the cluster in the machine config, by name. Values that the config does not contain are omitted, such
    /// as keys in the config of a worker.
    pub fn secrets(&self) -> Vec<(&'static str, &str)> {
        let Some(config) = &self.config else { return vec![] };
        let facts = &config.facts;
        let all = [
            ("machine.token", facts.token.as_str()),
            ("machine.ca.crt", facts.ca.as_str()),
            ("machine.ca.key", facts.ca_key.as_deref().unwrap_or_default()),
            ("cluster.id", facts.cluster_id.as_str()),
            ("cluster.secret", facts.cluster_secret.as_str()),
            ("cluster.token", facts.bootstrap_token.as_str()),
            ("cluster.ca.crt", facts.kube_ca.as_str()),
            ("cluster.ca.key", facts.kube_ca_key.as_deref().unwrap_or_default()),
            ("cluster.etcd.ca.crt", facts.etcd_ca.as_deref().unwrap_or_default()),
            (
                "cluster.serviceAccount.key",
                facts.service_account_key.as_deref().unwrap_or_default(),
            ),
        ];
        all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }
}

impl fmt::Debug for NodeFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("NodeFacts");
        out.field("vmid", &self.vmid).field("hostname", &self.hostname);
        out.field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl StateFacts {
    fn of(talos: &TalosState) -> Self {
        let nodes = talos.nodes.values().map(|node| NodeFacts {
            vmid: node.vmid,
            hostname: hostname(node).to_owned(),
            addresses: node.network.addresses().collect(),
            config: node.config.clone(),
        });
        let etcds = talos.etcds.iter().map(|(id, cluster)| EtcdFacts {
            id: *id,
            has_quorum: cluster
                .members
                .keys()
                .any(|member| talos.has_quorum(Membership { cluster: *id, member: *member })),
            members: cluster
                .members
                .iter()
                .map(|(id, member)| MemberFacts {
                    id: *id,
                    name: member.name.clone(),
                    vmid: member.vmid,
                    is_learner: member.is_learner,
                    is_up: member.is_up,
                })
                .collect(),
            store: Arc::clone(&cluster.store),
        });
        Self { nodes: nodes.collect(), etcds: etcds.collect() }
    }
}

fn hostname(node: &Node) -> &str {
    let configured = node.config.as_ref().and_then(|config| config.facts.hostname.as_deref());
    let name = configured.unwrap_or_else(|| node.hostname());
    name.split_once('.').map_or(name, |(host, _)| host)
}

/// Observers of the simulated state.
#[derive(Default)]
pub(crate) struct StateObservers(Mutex<Vec<Observer>>);

impl StateObservers {
    pub(crate) fn notify(&self, talos: &TalosState) {
        let observers = self.locked().clone();
        if observers.is_empty() {
            return;
        }
        let facts = StateFacts::of(talos);
        for observer in observers {
            observer(&facts);
        }
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Observer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Simulation {
    /// Calls `observer` at once with the current state, and then after every change.
    pub fn observe(&self, observer: impl Fn(&StateFacts) + Send + Sync + 'static) {
        self.observers.locked().push(Arc::new(observer));
        self.change(|_| ());
    }

    /// Stores of all Kubernetes clusters, in no particular order.
    pub fn kubernetes_stores(&self) -> Vec<Arc<KubeStore>> {
        self.look(|talos| talos.etcds.values().map(|etcd| Arc::clone(&etcd.store)).collect())
    }
}

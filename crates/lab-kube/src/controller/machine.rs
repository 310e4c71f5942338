//! The machines of a cluster, as their kubelets see them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::heartbeat::micro_time;
use crate::object;
use crate::store::{KubeStore, State};

/// What a kubelet knows of its machine when it starts.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub name: String,
    pub address: String,
    /// `v1.34.1`.
    pub kubelet_version: String,
    /// `Talos (v1.11.3)`.
    pub os_image: String,
    pub kernel_version: String,
    pub container_runtime: String,
    pub architecture: String,
    pub cpus: u64,
    pub memory_bytes: u64,
    pub system_uuid: String,
    /// What tells machines of one name apart.
    pub boot_id: String,
    /// Beside those that every node has.
    pub labels: BTreeMap<String, String>,
    /// As `spec.taints` has them.
    pub taints: Vec<Value>,
    /// Manifests of pods that the kubelet runs by itself.
    pub static_pods: Vec<Value>,
}

/// All machines whose kubelets have ever started.
#[derive(Debug, Default)]
pub(crate) struct Machines {
    pub(super) all: BTreeMap<String, Kubelet>,
    /// When what is under way with a pod is done, by the pod's uid.
    pub(super) due: BTreeMap<String, Duration>,
    /// Since when a pod is to leave its node, by the pod's uid.
    pub(super) leaving: BTreeMap<String, Duration>,
}

#[derive(Debug)]
pub(super) struct Kubelet {
    /// The one that registered last.
    pub(super) machine: Machine,
    /// Further machines that run under this name.
    namesakes: Vec<Machine>,
    /// Since when it does not run; none while it does.
    pub(super) stopped: Option<Duration>,
    /// A network plugin has been there. It stays on the disk.
    pub(super) has_network: bool,
    /// How many addresses of the machine's pod network were given out.
    pub(super) addresses: u8,
}

impl Machines {
    pub(crate) fn with_network(&self) -> BTreeSet<String> {
        let with = self.all.iter().filter(|(_, kubelet)| kubelet.has_network);
        with.map(|(name, _)| name.clone()).collect()
    }

    /// When a kubelet was last heard; none for one that never was.
    pub(crate) fn heard(&self, name: &str, now: Duration) -> Option<Duration> {
        self.all.get(name).map(|kubelet| kubelet.stopped.unwrap_or(now))
    }

    /// A machine whose kubelet has said nothing since this time.
    pub(crate) fn add_silent(&mut self, name: &str, since: Duration, has_network: bool) {
        let machine = Machine { name: name.to_owned(), ..Machine::default() };
        let kubelet =
            Kubelet { machine, namesakes: vec![], stopped: Some(since), has_network, addresses: 1 };
        self.all.insert(name.to_owned(), kubelet);
    }
}

impl Kubelet {
    /// All machines that run under the name.
    fn running(self) -> Vec<Machine> {
        let mut all = self.namesakes;
        if self.stopped.is_none() {
            all.push(self.machine);
        }
        all
    }
}

impl KubeStore {
    /// A kubelet starts, or starts anew with other settings: its node registers.
    pub fn start_kubelet(&self, machine: Machine) {
        self.with(|state| {
            register(state, &machine);
            let name = machine.name.clone();
            let known = state.machines.all.remove(&name);
            let has_network = known.as_ref().is_some_and(|known| known.has_network);
            let addresses = known.as_ref().map_or(1, |known| known.addresses);
            let mut namesakes = known.map(Kubelet::running).unwrap_or_default();
            namesakes.retain(|other| other.boot_id != machine.boot_id);
            let kubelet = Kubelet { machine, namesakes, stopped: None, has_network, addresses };
            state.machines.all.insert(name, kubelet);
            // The kubelet looks at its pods even though no object changed.
            state.revision += 1;
        });
    }

    /// The kubelet of this boot stops: nothing on the node changes until somebody notices. Where
    /// another machine runs under the same name, the node is that one's from now on.
    pub fn stop_kubelet(&self, node: &str, boot_id: &str) {
        self.with(|state| {
            let now = state.now;
            let Some(kubelet) = state.machines.all.get_mut(node) else { return };
            kubelet.namesakes.retain(|other| other.boot_id != boot_id);
            if kubelet.machine.boot_id != boot_id {
                return;
            }
            match kubelet.namesakes.pop() {
                Some(next) => {
                    kubelet.machine = next.clone();
                    // What somebody deleted does not come back by this.
                    if state.get("nodes", "", node).is_some() {
                        register(state, &next);
                    }
                }
                None => {
                    kubelet.stopped.get_or_insert(now);
                }
            }
            state.revision += 1;
        });
    }

    /// Other static pods of a machine from now on, as after an upgrade of the control plane.
    pub fn set_static_pods(&self, node: &str, boot_id: &str, pods: Vec<Value>) {
        self.with(|state| {
            let Some(kubelet) = state.machines.all.get_mut(node) else { return };
            let mut all = std::iter::once(&mut kubelet.machine).chain(&mut kubelet.namesakes);
            if let Some(machine) = all.find(|machine| machine.boot_id == boot_id) {
                machine.static_pods = pods;
                state.revision += 1;
            }
        });
    }
}

fn register(state: &mut State, machine: &Machine) {
    let status = status(machine);
    if state.get("nodes", "", &machine.name).is_some() {
        state.change("nodes", "", &machine.name, |node| {
            let conditions = node["status"].get("conditions").cloned();
            node["status"] = status;
            if let Some(conditions) = conditions {
                node["status"]["conditions"] = conditions;
            }
            for (key, value) in &machine.labels {
                object::entry(&mut node["metadata"], "labels")
                    .insert(key.clone(), value.as_str().into());
            }
        });
        return;
    }
    let mut labels = json!({
        "beta.kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture,
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
    });
    for (key, value) in &machine.labels {
        labels[key] = value.as_str().into();
    }
    let network = pod_network(state);
    let mut node = json!({
        "metadata": {"name": machine.name, "labels": labels},
        "spec": {"podCIDR": network, "podCIDRs": [network]},
    });
    if !machine.taints.is_empty() {
        node["spec"]["taints"] = json!(machine.taints);
    }
    let uid = match state.create_inside("nodes", node) {
        Ok(node) => object::uid(&node).to_owned(),
        // A name that no node can have: the kubelet keeps trying, and nobody hears of it.
        Err(_) => return,
    };
    state.change("nodes", "", &machine.name, |node| node["status"] = status);
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": machine.name, "uid": uid});
    let now = micro_time(state.now);
    let lease = json!({
        "metadata": {
            "name": machine.name,
            "namespace": "kube-node-lease",
            "ownerReferences": [owner],
        },
        "spec": {"holderIdentity": machine.name, "leaseDurationSeconds": 40, "renewTime": now},
    });
    // One that is left from a node of the same name goes with its owner.
    state.create_inside("leases.coordination.k8s.io", lease).ok();
}

fn status(machine: &Machine) -> Value {
    let memory = machine.memory_bytes / 1024;
    let resources = |cpu: String, memory: u64| json!({"cpu": cpu, "memory": format!("{memory}Ki"), "pods": "110"});
    json!({
        "capacity": resources(machine.cpus.to_string(), memory),
        "allocatable": resources(
            format!("{}m", (machine.cpus * 1000).saturating_sub(50)),
            memory.saturating_sub(300 * 1024),
        ),
        "addresses": [
            {"type": "InternalIP", "address": machine.address},
            {"type": "Hostname", "address": machine.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": machine.system_uuid.replace('-', ""),
            "systemUUID": machine.system_uuid,
            "bootID": machine.boot_id,
            "kernelVersion": machine.kernel_version,
            "osImage": machine.os_image,
            "containerRuntimeVersion": machine.container_runtime,
            "kubeletVersion": machine.kubelet_version,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": machine.architecture,
        },
    })
}

/// The first /24 that no node has.
fn pod_network(state: &State) -> String {
    let [a, b] = state.settings.pod_network;
    let used: Vec<&str> =
        state.iter("nodes").map(|node| object::text(node, "/spec/podCIDR")).collect();
    (0..=255_u8)
        .map(|third| format!("{a}.{b}.{third}.0/24"))
        .find(|network| !used.contains(&network.as_str()))
        .unwrap_or_default()
}

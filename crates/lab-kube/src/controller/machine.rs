//! Machines of a cluster, whose kubelets register them as nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::heartbeat::micro_time;
use crate::object;
use crate::store::{KubeStore, State};

/// Machine with the properties that its kubelet reports when it registers the node.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub name: String,
    pub address: String,
    /// Kubelet version, such as `v1.34.1`.
    pub kubelet_version: String,
    /// Operating system as shown by `kubectl get nodes`, such as `Talos (v1.11.3)`.
    pub os_image: String,
    pub kernel_version: String,
    pub container_runtime: String,
    pub architecture: String,
    pub cpus: u64,
    pub memory_bytes: u64,
    pub system_uuid: String,
    /// Id of the current boot, which distinguishes machines with the same name.
    pub boot_id: String,
    /// Node labels in addition to those that every node has.
    pub labels: BTreeMap<String, String>,
    /// Taints in the form of `spec.taints`.
    pub taints: Vec<Value>,
    /// Manifests of the static pods of the machine.
    pub static_pods: Vec<Value>,
}

/// All machines whose kubelet has started at least once.
#[derive(Debug, Default)]
pub(crate) struct Machines {
    pub(super) all: BTreeMap<String, Kubelet>,
    /// Time at which the current operation on a pod finishes, by the uid of the pod.
    pub(super) due: BTreeMap<String, Duration>,
    /// Time at which a pod stopped tolerating the taints of its node, by the uid of the pod.
    pub(super) leaving: BTreeMap<String, Duration>,
}

#[derive(Debug)]
pub(super) struct Kubelet {
    /// Machine that registered last under this node name.
    pub(super) machine: Machine,
    /// Other running machines with the same node name.
    same_name: Vec<Machine>,
    /// Time at which the kubelet stopped; `None` while the kubelet runs.
    pub(super) stopped: Option<Duration>,
    /// Whether a CNI plugin is installed. The plugin stays on the disk across restarts.
    pub(super) has_network: bool,
    /// Number of pod addresses allocated on this machine.
    pub(super) addresses: u8,
}

impl Machines {
    pub(crate) fn with_network(&self) -> BTreeSet<String> {
        let with = self.all.iter().filter(|(_, kubelet)| kubelet.has_network);
        with.map(|(name, _)| name.clone()).collect()
    }

    /// Time of the last heartbeat of a kubelet; `None` for an unknown node.
    pub(crate) fn last_heartbeat(&self, name: &str, now: Duration) -> Option<Duration> {
        self.all.get(name).map(|kubelet| kubelet.stopped.unwrap_or(now))
    }

    /// Adds a machine whose kubelet stopped at `since`.
    pub(crate) fn add_silent(&mut self, name: &str, since: Duration, has_network: bool) {
        let machine = Machine { name: name.to_owned(), ..Machine::default() };
        let kubelet =
            Kubelet { machine, same_name: vec![], stopped: Some(since), has_network, addresses: 1 };
        self.all.insert(name.to_owned(), kubelet);
    }
}

impl Kubelet {
    /// All running machines with this name.
    fn running(self) -> Vec<Machine> {
        let mut all = self.same_name;
        if self.stopped.is_none() {
            all.push(self.machine);
        }
        all
    }
}

impl KubeStore {
    /// Starts a kubelet, or restarts it with other settings, and registers its node.
    pub fn start_kubelet(&self, machine: Machine) {
        self.with(|state| {
            register(state, &machine);
            let name = machine.name.clone();
            let known = state.machines.all.remove(&name);
            let has_network = known.as_ref().is_some_and(|known| known.has_network);
            let addresses = known.as_ref().map_or(1, |known| known.addresses);
            let mut same_name = known.map(Kubelet::running).unwrap_or_default();
            same_name.retain(|other| other.boot_id != machine.boot_id);
            let kubelet = Kubelet { machine, same_name, stopped: None, has_network, addresses };
            state.machines.all.insert(name, kubelet);
            // The new revision triggers a run of the kubelets, although no object changed.
            state.revision += 1;
        });
    }

    /// Stops the kubelet of this boot. The node becomes not ready after the grace period of the node controller. If another
    /// machine runs under the same name, the node then belongs to that machine.
    pub fn stop_kubelet(&self, node: &str, boot_id: &str) {
        self.with(|state| {
            let now = state.now;
            let Some(kubelet) = state.machines.all.get_mut(node) else { return };
            kubelet.same_name.retain(|other| other.boot_id != boot_id);
            if kubelet.machine.boot_id != boot_id {
                return;
            }
            match kubelet.same_name.pop() {
                Some(next) => {
                    kubelet.machine = next.clone();
                    // If the node was deleted, this code must not register it again.
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

    /// Replaces the static pods of a machine, as an upgrade of the control plane does.
    pub fn set_static_pods(&self, node: &str, boot_id: &str, pods: Vec<Value>) {
        self.with(|state| {
            let Some(kubelet) = state.machines.all.get_mut(node) else { return };
            let mut all = std::iter::once(&mut kubelet.machine).chain(&mut kubelet.same_name);
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
        // The API server rejected the name of the node. A real kubelet would retry forever.
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
    // Creation fails if a lease of an earlier node with the same name exists. The garbage collector deletes that lease, because
    // its owner is deleted.
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

/// First free /24 network of the pod network.
fn pod_network(state: &State) -> String {
    let [a, b] = state.settings.pod_network;
    let used: Vec<&str> =
        state.iter("nodes").map(|node| object::text(node, "/spec/podCIDR")).collect();
    (0..=255_u8)
        .map(|third| format!("{a}.{b}.{third}.0/24"))
        .find(|network| !used.contains(&network.as_str()))
        .unwrap_or_default()
}

//! Kubelets: start and stop pods, and report the status of pods and nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::{network, pod};
use crate::mirror::HELD;
use crate::object::{self, flag, list, name, namespace, number, text, uid};
use crate::store::State;

/// Time that a pod takes to stop. It is shorter than the grace period of the pod.
const STOP: Duration = Duration::from_secs(1);
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Runs all kubelets once. Returns the time of the next run, which applies if no object changes before.
pub(super) fn pass(state: &mut State) -> Option<Duration> {
    let mut by_node: BTreeMap<String, Vec<Arc<Value>>> = BTreeMap::new();
    for pod in state.iter("pods") {
        let node = text(pod, "/spec/nodeName");
        if !node.is_empty() {
            by_node.entry(node.to_owned()).or_default().push(Arc::clone(pod));
        }
    }
    let all = &state.machines.all;
    let running: Vec<String> = all
        .iter()
        .filter(|(_, kubelet)| kubelet.stopped.is_none())
        .map(|(name, _)| name.clone())
        .filter(|name| state.get("nodes", "", name).is_some())
        .collect();
    for node in running {
        let pods = by_node.remove(&node).unwrap_or_default();
        mirror(state, &node, &pods);
        for pod in &pods {
            sync_pod(state, &node, pod);
        }
        report(state, &node);
    }
    let known: std::collections::BTreeSet<String> =
        state.iter("pods").map(|pod| uid(pod).to_owned()).collect();
    state.machines.due.retain(|uid, _| known.contains(uid));
    state.machines.due.values().min().copied()
}

/// Whether the timed operation with this key has finished. The first call starts the timer.
fn is_done(state: &mut State, key: &str, time: Duration) -> bool {
    let now = state.now;
    match state.machines.due.get(key) {
        Some(due) if *due <= now => {
            state.machines.due.remove(key);
            true
        }
        Some(_) => false,
        None if time.is_zero() => true,
        None => {
            let time = state.chance(key).jitter(time);
            state.machines.due.insert(key.to_owned(), now + time);
            false
        }
    }
}

fn sync_pod(state: &mut State, node: &str, pod: &Value) {
    if object::annotation(pod, HELD).is_some() {
        return;
    }
    if object::is_being_deleted(pod) {
        let grace = number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or_default();
        let time = STOP.min(Duration::from_secs(grace)).min(state.settings.pod_start);
        if is_done(state, uid(pod), time) {
            stop(state, pod);
        }
        return;
    }
    match text(pod, "/status/phase") {
        "Pending" => {
            let network = state.machines.all.get(node).is_some_and(|known| known.has_network);
            if !network && !flag(pod, "/spec/hostNetwork") {
                report_creating(state, pod);
            } else if is_done(state, uid(pod), state.settings.pod_start) {
                run(state, node, pod);
            } else {
                report_creating(state, pod);
            }
        }
        "Running" if ends_by_itself(pod) && is_done(state, uid(pod), state.settings.pod_start) => {
            succeed(state, pod);
        }
        // The machine was down and runs again, so the kubelet starts its pods again.
        "Running" if !pod::is_ready(pod) => run(state, node, pod),
        "Running" => report_host(state, node, pod),
        _ => {}
    }
}

/// Reports the address of the machine in the status of a running pod, if the machine has another address than before. The kubelet
/// reports it with every status.
fn report_host(state: &mut State, node: &str, pod: &Value) {
    let Some(kubelet) = state.machines.all.get(node) else { return };
    let host = kubelet.machine.address.clone();
    if text(pod, "/status/hostIP") == host {
        return;
    }
    state.change("pods", namespace(pod), name(pod), |pod| {
        let is_on_host = flag(pod, "/spec/hostNetwork");
        let status = object::entry(pod, "status");
        status.insert("hostIP".to_owned(), host.as_str().into());
        status.insert("hostIPs".to_owned(), json!([{"ip": host}]));
        if is_on_host {
            status.insert("podIP".to_owned(), host.as_str().into());
            status.insert("podIPs".to_owned(), json!([{"ip": host}]));
        }
    });
}

fn ends_by_itself(pod: &Value) -> bool {
    object::controller(pod).is_some_and(|owner| text(owner, "/kind") == "Job")
}

fn stop(state: &mut State, pod: &Value) {
    let kind = state.kind("pods");
    if object::has_finalizers(pod) {
        state.change("pods", namespace(pod), name(pod), |pod| {
            object::metadata(pod).insert("deletionGracePeriodSeconds".to_owned(), 0.into());
        });
    } else {
        state.remove(&kind, namespace(pod), name(pod));
    }
}

fn report_creating(state: &mut State, pod: &Value) {
    if pod["status"].get("containerStatuses").is_some() {
        return;
    }
    let now = state.timestamp();
    state.change("pods", namespace(pod), name(pod), |pod| {
        let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
        pod["status"]["containerStatuses"] = statuses(pod, false, &waiting);
        pod["status"]["startTime"] = now.as_str().into();
        for (kind, status) in
            [("Initialized", "True"), ("Ready", "False"), ("ContainersReady", "False")]
        {
            let reason = if status == "True" { "" } else { "ContainersNotReady" };
            object::set_condition(pod, &now, kind, status, reason, "");
        }
        object::set_condition(pod, &now, "PodScheduled", "True", "", "");
    });
}

fn statuses(pod: &Value, is_running: bool, container_state: &Value) -> Value {
    let containers = list(pod, "/spec/containers").iter();
    let all = containers.map(|container| {
        let (name, image) = (text(container, "/name"), text(container, "/image"));
        let known = list(pod, "/status/containerStatuses").iter().find(|s| s["name"] == name);
        let id = known.map(|known| text(known, "/containerID")).unwrap_or_default();
        let id = if is_running { container_id(pod, name) } else { id.to_owned() };
        let mut status = json!({
            "name": name,
            "image": image,
            "imageID": if is_running { image } else { "" },
            "ready": is_running,
            "started": is_running,
            "restartCount": known.and_then(|s| number(s, "/restartCount")).unwrap_or_default(),
            "state": container_state,
        });
        if !id.is_empty() {
            status["containerID"] = id.into();
        }
        status
    });
    all.collect()
}

/// Container id, which stays the same for the lifetime of the pod.
fn container_id(pod: &Value, name: &str) -> String {
    let number = digest(&SHA256, format!("{}/{name}", uid(pod)).as_bytes());
    let number: String = number.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("containerd://{number}")
}

fn run(state: &mut State, node: &str, pod: &Value) {
    let now = state.timestamp();
    let Some(kubelet) = state.machines.all.get_mut(node) else { return };
    let host = kubelet.machine.address.clone();
    let address = if flag(pod, "/spec/hostNetwork") {
        host.clone()
    } else {
        kubelet.addresses = kubelet.addresses.checked_add(1).unwrap_or(2);
        let last = kubelet.addresses;
        let network = state.get("nodes", "", node).map(|node| text(node, "/spec/podCIDR"));
        let start = network.and_then(|network| network.rsplit_once('.'));
        start.map(|(start, _)| format!("{start}.{last}")).unwrap_or_default()
    };
    if network::installs_network(pod)
        && let Some(kubelet) = state.machines.all.get_mut(node)
    {
        kubelet.has_network = true;
    }
    state.change("pods", namespace(pod), name(pod), |pod| {
        let running = json!({"running": {"startedAt": now}});
        let statuses = statuses(pod, true, &running);
        let status = object::entry(pod, "status");
        status.insert("phase".to_owned(), "Running".into());
        status.insert("hostIP".to_owned(), host.as_str().into());
        status.insert("hostIPs".to_owned(), json!([{"ip": host}]));
        status.insert("podIP".to_owned(), address.as_str().into());
        status.insert("podIPs".to_owned(), json!([{"ip": address}]));
        status.entry("startTime").or_insert_with(|| now.as_str().into());
        status.insert("containerStatuses".to_owned(), statuses);
        for kind in
            ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        {
            object::set_condition(pod, &now, kind, "True", "", "");
        }
    });
}

fn succeed(state: &mut State, pod: &Value) {
    let now = state.timestamp();
    state.change("pods", namespace(pod), name(pod), |pod| {
        let over = json!({"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now}});
        pod["status"]["phase"] = "Succeeded".into();
        pod["status"]["containerStatuses"] = statuses(pod, false, &over);
        for kind in ["Ready", "ContainersReady"] {
            object::set_condition(pod, &now, kind, "False", "PodCompleted", "");
        }
    });
}

/// Creates, replaces and deletes the mirror pods of a machine's static pods.
fn mirror(state: &mut State, node: &str, pods: &[Arc<Value>]) {
    let Some(kubelet) = state.machines.all.get(node) else { return };
    let manifests = kubelet.machine.static_pods.clone();
    let Some(node_uid) = state.get("nodes", "", node).map(|node| uid(node).to_owned()) else {
        return;
    };
    let shown = |pod: &&Arc<Value>| object::annotation(pod, MIRROR).is_some();
    let mut old: Vec<&Arc<Value>> = pods.iter().filter(shown).collect();
    for manifest in manifests {
        let hash = pod::template_hash(&manifest);
        let pod_name = format!("{}-{node}", name(&manifest));
        let is_this = |pod: &&Arc<Value>| name(pod) == pod_name;
        let same = old
            .iter()
            .position(|pod| is_this(pod) && object::annotation(pod, MIRROR) == Some(&hash));
        if let Some(at) = same {
            old.swap_remove(at);
            continue;
        }
        if old.iter().any(is_this) {
            // The old mirror pod is deleted first. The next run of the kubelets creates the new one.
            continue;
        }
        let mut new = manifest.clone();
        let metadata = object::metadata(&mut new);
        metadata.insert("name".to_owned(), pod_name.into());
        metadata.entry("namespace").or_insert_with(|| "kube-system".into());
        metadata.insert("ownerReferences".to_owned(), json!([{
            "apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": true,
        }]));
        let annotations = object::entry(&mut new["metadata"], "annotations");
        for key in [MIRROR, "kubernetes.io/config.hash"] {
            annotations.insert(key.to_owned(), hash.as_str().into());
        }
        annotations.insert("kubernetes.io/config.source".to_owned(), "file".into());
        new["spec"]["nodeName"] = node.into();
        // If the API server rejects a static pod, a real kubelet only logs the error.
        state.create_inside("pods", new).ok();
    }
    let kind = state.kind("pods");
    for gone in old {
        state.remove(&kind, namespace(gone), name(gone));
    }
}

/// Writes the conditions of a node.
fn report(state: &mut State, node: &str) {
    let now = state.timestamp();
    let has_network = state.machines.all.get(node).is_some_and(|known| known.has_network);
    state.change("nodes", "", node, |node| {
        for (kind, reason, message) in [
            ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ] {
            object::set_condition(node, &now, kind, "False", reason, message);
        }
        if has_network {
            let message = "kubelet is posting ready status";
            object::set_condition(node, &now, "Ready", "True", "KubeletReady", message);
        } else {
            let message = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized";
            object::set_condition(node, &now, "Ready", "False", "KubeletNotReady", message);
        }
    });
}

//! The checks that Kubernetes answers.

use std::sync::Arc;

use serde_json::Value;

use super::{Scene, Verdict};
use crate::resource::COMPONENTS;

/// All objects of a kind, if there is anybody to ask.
fn list(scene: &Scene<'_>, kind: &str) -> Result<Vec<Arc<Value>>, Verdict> {
    let unreachable = || Verdict::Failed("error getting objects: connection refused".to_owned());
    let part = scene.node.etcd.ok_or_else(unreachable)?;
    if !scene.talos.serves(part) {
        return Err(Verdict::Failed("etcdserver: request timed out".to_owned()));
    }
    let cluster = scene.talos.etcds.get(&part.cluster).ok_or_else(unreachable)?;
    Ok(cluster.store.list(kind))
}

fn failed(text: String) -> Verdict {
    Verdict::Failed(text)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The names of all that are in the cluster, where they can be reached.
fn names(scene: &Scene<'_>, addresses: &[std::net::IpAddr]) -> Vec<String> {
    let nodes = scene.at(addresses).into_iter();
    nodes.filter_map(|(_, node)| Some(node?.hostname().to_owned())).collect()
}

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == condition && c["status"] == "True")
}

pub(super) fn nodes_report(scene: &Scene<'_>) -> Verdict {
    let all: Vec<_> = scene.cluster.all().collect();
    let nodes = match list(scene, "nodes") {
        Ok(nodes) => nodes,
        Err(verdict) => return verdict,
    };
    let missing: Vec<String> = names(scene, &all)
        .into_iter()
        .filter(|wanted| !nodes.iter().any(|node| name(node) == wanted))
        .collect();
    if missing.is_empty() && nodes.len() >= all.len() {
        return Verdict::Passed;
    }
    failed(format!("can't find expected node with IPs of {missing:?}"))
}

fn no_cni(scene: &Scene<'_>) -> bool {
    scene.node.config.as_ref().is_some_and(|config| config.facts.cni == "none")
}

fn nodes(scene: &Scene<'_>, problem: &str, is_well: fn(&Value) -> bool) -> Verdict {
    let nodes = match list(scene, "nodes") {
        Ok(nodes) => nodes,
        Err(verdict) => return verdict,
    };
    let bad: Vec<&str> =
        nodes.iter().filter(|node| !is_well(node)).map(|node| name(node)).collect();
    if bad.is_empty() { Verdict::Passed } else { failed(format!("{problem}: {bad:?}")) }
}

pub(super) fn nodes_ready(scene: &Scene<'_>) -> Verdict {
    if no_cni(scene) {
        return Verdict::Skipped;
    }
    nodes(scene, "some nodes are not ready", |node| is_true(node, "Ready"))
}

pub(super) fn schedulable(scene: &Scene<'_>) -> Verdict {
    nodes(scene, "some nodes are not schedulable", |node| node["spec"]["unschedulable"] != true)
}

/// The pods of the control plane, each on each control plane.
fn control_plane_pods(
    scene: &Scene<'_>,
    problem: &str,
    is_well: impl Fn(&Value) -> bool,
) -> Verdict {
    let pods = match list(scene, "pods") {
        Ok(pods) => pods,
        Err(verdict) => return verdict,
    };
    for host in names(scene, &scene.cluster.control_planes) {
        for component in COMPONENTS {
            let wanted = format!("{component}-{host}");
            let pod = pods.iter().find(|pod| name(pod) == wanted);
            if !pod.is_some_and(|pod| is_well(pod)) {
                return failed(format!("{problem}: kube-system/{wanted}"));
            }
        }
    }
    Verdict::Passed
}

pub(super) fn static_pods(scene: &Scene<'_>) -> Verdict {
    control_plane_pods(scene, "missing static pods on node", |pod| {
        pod["status"]["phase"] == "Running"
    })
}

pub(super) fn components(scene: &Scene<'_>) -> Verdict {
    control_plane_pods(scene, "some pods are not ready", |pod| is_true(pod, "Ready"))
}

/// All pods with this label are ready; nothing to check where there is no such workload.
fn workload(scene: &Scene<'_>, kind: &str, named: &str, label: &str) -> Verdict {
    let workloads = match list(scene, kind) {
        Ok(workloads) => workloads,
        Err(verdict) => return verdict,
    };
    if !workloads.iter().any(|workload| name(workload) == named) {
        return Verdict::Skipped;
    }
    let pods = match list(scene, "pods") {
        Ok(pods) => pods,
        Err(verdict) => return verdict,
    };
    let own: Vec<_> =
        pods.iter().filter(|pod| pod["metadata"]["labels"]["k8s-app"] == label).collect();
    if own.is_empty() {
        return failed("no pods found for namespace \"kube-system\"".to_owned());
    }
    let bad: Vec<&str> =
        own.iter().filter(|pod| !is_true(pod, "Ready")).map(|pod| name(pod)).collect();
    if bad.is_empty() {
        Verdict::Passed
    } else {
        failed(format!("some pods are not ready: {bad:?}"))
    }
}

pub(super) fn proxy(scene: &Scene<'_>) -> Verdict {
    workload(scene, "daemonsets.apps", "kube-proxy", "kube-proxy")
}

pub(super) fn dns(scene: &Scene<'_>) -> Verdict {
    if no_cni(scene) {
        return Verdict::Skipped;
    }
    workload(scene, "deployments.apps", "coredns", "kube-dns")
}

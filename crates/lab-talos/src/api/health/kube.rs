//! Health checks that query Kubernetes.

use std::sync::Arc;

use serde_json::Value;

use super::{CheckContext, Verdict};
use crate::resource::COMPONENTS;

/// All Kubernetes objects of a kind. The error is a failed check, if no API server can be reached.
fn list(context: &CheckContext<'_>, kind: &str) -> Result<Vec<Arc<Value>>, Verdict> {
    let unreachable = || Verdict::Failed("error getting objects: connection refused".to_owned());
    let part = context.node.etcd.ok_or_else(unreachable)?;
    if !context.talos.serves(part) {
        return Err(Verdict::Failed("etcdserver: request timed out".to_owned()));
    }
    let cluster = context.talos.etcds.get(&part.cluster).ok_or_else(unreachable)?;
    Ok(cluster.store.list(kind))
}

fn failed(text: String) -> Verdict {
    Verdict::Failed(text)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Host names of the nodes at these addresses. Nodes that cannot be reached are omitted.
fn names(context: &CheckContext<'_>, addresses: &[std::net::IpAddr]) -> Vec<String> {
    let nodes = context.at(addresses).into_iter();
    nodes.filter_map(|(_, node)| Some(node?.hostname().to_owned())).collect()
}

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == condition && c["status"] == "True")
}

pub(super) fn nodes_report(context: &CheckContext<'_>) -> Verdict {
    let all: Vec<_> = context.cluster.all().collect();
    let nodes = match list(context, "nodes") {
        Ok(nodes) => nodes,
        Err(verdict) => return verdict,
    };
    let missing: Vec<String> = names(context, &all)
        .into_iter()
        .filter(|wanted| !nodes.iter().any(|node| name(node) == wanted))
        .collect();
    if missing.is_empty() && nodes.len() >= all.len() {
        return Verdict::Passed;
    }
    failed(format!("can't find expected node with IPs of {missing:?}"))
}

fn no_cni(context: &CheckContext<'_>) -> bool {
    context.node.config.as_ref().is_some_and(|config| config.facts.cni == "none")
}

fn nodes(context: &CheckContext<'_>, problem: &str, is_healthy: fn(&Value) -> bool) -> Verdict {
    let nodes = match list(context, "nodes") {
        Ok(nodes) => nodes,
        Err(verdict) => return verdict,
    };
    let bad: Vec<&str> =
        nodes.iter().filter(|node| !is_healthy(node)).map(|node| name(node)).collect();
    if bad.is_empty() { Verdict::Passed } else { failed(format!("{problem}: {bad:?}")) }
}

pub(super) fn nodes_ready(context: &CheckContext<'_>) -> Verdict {
    if no_cni(context) {
        return Verdict::Skipped;
    }
    nodes(context, "some nodes are not ready", |node| is_true(node, "Ready"))
}

pub(super) fn schedulable(context: &CheckContext<'_>) -> Verdict {
    nodes(context, "some nodes are not schedulable", |node| node["spec"]["unschedulable"] != true)
}

/// Passes if every control plane has a healthy pod of each control-plane component.
fn control_plane_pods(
    context: &CheckContext<'_>,
    problem: &str,
    is_healthy: impl Fn(&Value) -> bool,
) -> Verdict {
    let pods = match list(context, "pods") {
        Ok(pods) => pods,
        Err(verdict) => return verdict,
    };
    for host in names(context, &context.cluster.control_planes) {
        for component in COMPONENTS {
            let wanted = format!("{component}-{host}");
            let pod = pods.iter().find(|pod| name(pod) == wanted);
            if !pod.is_some_and(|pod| is_healthy(pod)) {
                return failed(format!("{problem}: kube-system/{wanted}"));
            }
        }
    }
    Verdict::Passed
}

pub(super) fn static_pods(context: &CheckContext<'_>) -> Verdict {
    control_plane_pods(context, "missing static pods on node", |pod| {
        pod["status"]["phase"] == "Running"
    })
}

pub(super) fn components(context: &CheckContext<'_>) -> Verdict {
    control_plane_pods(context, "some pods are not ready", |pod| is_true(pod, "Ready"))
}

/// Passes if all pods with this label are ready, or if the workload does not exist.
fn workload(context: &CheckContext<'_>, kind: &str, named: &str, label: &str) -> Verdict {
    let workloads = match list(context, kind) {
        Ok(workloads) => workloads,
        Err(verdict) => return verdict,
    };
    if !workloads.iter().any(|workload| name(workload) == named) {
        return Verdict::Skipped;
    }
    let pods = match list(context, "pods") {
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

pub(super) fn proxy(context: &CheckContext<'_>) -> Verdict {
    workload(context, "daemonsets.apps", "kube-proxy", "kube-proxy")
}

pub(super) fn dns(context: &CheckContext<'_>) -> Verdict {
    if no_cni(context) {
        return Verdict::Skipped;
    }
    workload(context, "deployments.apps", "coredns", "kube-dns")
}

//! Health checks that need data from Kubernetes. The caller fetches the data.

use std::net::IpAddr;

use super::view::NodeView;
use super::{Check, HealthSettings, State};

/// Observed state of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeView {
    pub nodes: Vec<KubeNode>,
    /// Pods of the control plane components, in `kube-system`.
    pub control_plane_pods: Vec<KubePod>,
    /// DaemonSet of kube-proxy, if it exists.
    pub kube_proxy: Option<Replicas>,
    /// Deployment of CoreDNS, if it exists.
    pub core_dns: Option<Replicas>,
    /// Whether a CNI is installed.
    pub has_network: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeNode {
    pub name: String,
    pub internal_addresses: Vec<IpAddr>,
    pub is_ready: bool,
    pub is_schedulable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubePod {
    /// `kube-apiserver`, `kube-controller-manager` or `kube-scheduler`.
    pub component: String,
    pub host: Option<IpAddr>,
    pub is_ready: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    pub desired: u32,
    pub ready: u32,
}

const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

const NO_CNI: &str =
    "the pods have no network: the inventory has `cni: none`, and no CNI is installed yet";

pub(super) fn check(
    check: Check,
    nodes: &[NodeView],
    kube: Option<&KubeView>,
    settings: HealthSettings,
) -> State {
    let has_network = settings.has_cni || kube.is_some_and(|kube| kube.has_network);
    if matches!(check, Check::NodesReady | Check::CoreDns) && !has_network {
        return State::Skipped(NO_CNI.to_owned());
    }
    let Some(kube) = kube else {
        return State::Waiting("the Kubernetes API has not answered yet".to_owned());
    };
    match check {
        Check::NodesReport => report(nodes, kube),
        Check::StaticPods => pods(nodes, kube, "does not run", |_| true),
        Check::ControlPlaneReady => pods(nodes, kube, "is not ready", |pod| pod.is_ready),
        Check::NodesReady => all(nodes, kube, "not ready", |node| node.is_ready),
        Check::KubeProxy => replicas(proxy(nodes, kube), "kube-proxy is not installed"),
        Check::CoreDns => replicas(kube.core_dns, "CoreDNS is not installed"),
        _ => all(nodes, kube, "not schedulable", |node| node.is_schedulable),
    }
}

fn waiting_for(problems: impl IntoIterator<Item = String>) -> State {
    let problems: Vec<String> = problems.into_iter().collect();
    if problems.is_empty() { State::Passed } else { State::Waiting(problems.join("; ")) }
}

fn report(nodes: &[NodeView], kube: &KubeView) -> State {
    let reports = |node: &&NodeView| {
        let mut known = kube.nodes.iter().flat_map(|node| &node.internal_addresses);
        known.any(|address| node.addresses.contains(address))
    };
    let missing = nodes.iter().filter(|node| !reports(node));
    waiting_for(missing.map(|node| format!("{} is not registered in Kubernetes", node.name)))
}

/// Checks that each component has a pod on each control plane.
fn pods(nodes: &[NodeView], kube: &KubeView, what: &str, fine: fn(&KubePod) -> bool) -> State {
    let mut problems = vec![];
    for node in nodes.iter().filter(|node| node.is_control_plane) {
        let here = |pod: &&KubePod| pod.host.is_some_and(|host| node.addresses.contains(&host));
        for component in COMPONENTS {
            let mut found = kube.control_plane_pods.iter().filter(here);
            if !found.any(|pod| pod.component == component && fine(pod)) {
                problems.push(format!("{}: {component} {what}", node.name));
            }
        }
    }
    waiting_for(problems)
}

/// Whether a Kubernetes node is one of the checked nodes. Other nodes are ignored.
fn is_known(nodes: &[NodeView], registered: &KubeNode) -> bool {
    let mut known = nodes.iter().flat_map(|node| &node.addresses);
    known.any(|address| registered.internal_addresses.contains(address))
}

/// Replicas of kube-proxy, without its pods on nodes that are neither checked nor ready.
fn proxy(nodes: &[NodeView], kube: &KubeView) -> Option<Replicas> {
    let others = kube.nodes.iter().filter(|node| !node.is_ready && !is_known(nodes, node));
    let missed = u32::try_from(others.count()).unwrap_or(u32::MAX);
    kube.kube_proxy.map(|all| Replicas { desired: all.desired.saturating_sub(missed), ..all })
}

fn all(nodes: &[NodeView], kube: &KubeView, what: &str, fine: fn(&KubeNode) -> bool) -> State {
    let others = kube.nodes.iter().filter(|node| is_known(nodes, node) && !fine(node));
    waiting_for(others.map(|node| format!("{} is {what}", node.name)))
}

fn replicas(replicas: Option<Replicas>, none: &str) -> State {
    match replicas {
        None | Some(Replicas { desired: 0, .. }) => State::Skipped(none.to_owned()),
        Some(Replicas { desired, ready }) if ready < desired => {
            State::Waiting(format!("{ready} of {desired} pods are ready"))
        }
        Some(_) => State::Passed,
    }
}

//! State of a cluster, read with few requests.

use std::net::IpAddr;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use talmox_plan::plan::CORDONED;
use talmox_talos_api::health::{KubeNode, KubePod, KubeView, Replicas};

use super::network::is_network;
use super::{KubeClient, KubeError};

const SYSTEM: &str = "kube-system";

/// Label with the component of a control plane pod.
const COMPONENT: &str = "k8s-app";
const CONTROL_PLANE_PODS: &str =
    "k8s-app in (kube-apiserver,kube-controller-manager,kube-scheduler)";

/// A node as Kubernetes lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub name: String,
    pub internal_addresses: Vec<IpAddr>,
    pub is_ready: bool,
    /// Why the node is not ready.
    pub reason: String,
    pub is_schedulable: bool,
    /// Whether the node has the annotation that talmox sets when it cordons a node before a change. talmox removes it after
    /// the change.
    pub is_marked: bool,
    /// Version of the kubelet, such as `v1.34.1`.
    pub kubelet_version: String,
    /// UUID of the machine.
    pub system_uuid: Option<String>,
    /// Name of the machine in its cloud, such as `proxmox://home/300`.
    pub provider_id: Option<String>,
}

impl KubeClient {
    /// All nodes, sorted by name.
    pub async fn nodes(&self) -> Result<Vec<NodeFacts>, KubeError> {
        let api: Api<Node> = Api::all(self.inner.clone());
        let list = self.ask("list nodes", api.list(&ListParams::default())).await?;
        let mut facts: Vec<NodeFacts> = list.items.iter().map(facts).collect();
        facts.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(facts)
    }

    /// The state that health checks need, read with four requests at the same time.
    pub async fn view(&self) -> Result<KubeView, KubeError> {
        let pods: Api<Pod> = Api::namespaced(self.inner.clone(), SYSTEM);
        let control_plane = ListParams::default().labels(CONTROL_PLANE_PODS);
        let pods = self.ask("list the control plane's pods", pods.list(&control_plane));
        let daemon_sets: Api<DaemonSet> = Api::all(self.inner.clone());
        let every = ListParams::default();
        let daemon_sets = self.ask("list DaemonSets", daemon_sets.list(&every));
        let deployments: Api<Deployment> = Api::namespaced(self.inner.clone(), SYSTEM);
        let dns = self.ask("read CoreDNS", deployments.get_opt("coredns"));
        let (nodes, pods, daemon_sets, dns) = tokio::join!(self.nodes(), pods, daemon_sets, dns);
        let (nodes, daemon_sets) = (nodes?, daemon_sets?.items);
        // A node becomes ready only with a pod network, so a ready node shows that there is one.
        let has_network =
            nodes.iter().any(|node| node.is_ready) || daemon_sets.iter().any(is_network);
        Ok(KubeView {
            has_network,
            nodes: nodes.into_iter().map(KubeNode::from).collect(),
            control_plane_pods: pods?.items.iter().filter_map(pod).collect(),
            kube_proxy: daemon_sets.into_iter().find(is_proxy).map(|set| {
                let status = set.status.unwrap_or_default();
                Replicas {
                    desired: count(Some(status.desired_number_scheduled)),
                    ready: count(Some(status.number_ready)),
                }
            }),
            core_dns: dns?.map(|deployment| Replicas {
                desired: count(deployment.spec.and_then(|spec| spec.replicas).or(Some(1))),
                ready: count(deployment.status.and_then(|status| status.ready_replicas)),
            }),
        })
    }
}

fn is_proxy(set: &DaemonSet) -> bool {
    let DaemonSet { metadata, .. } = set;
    metadata.name.as_deref() == Some("kube-proxy") && metadata.namespace.as_deref() == Some(SYSTEM)
}

/// Converts a count of Kubernetes, which is a signed number but never negative. A missing count is 0.
pub(super) fn count(number: Option<i32>) -> u32 {
    u32::try_from(number.unwrap_or_default()).unwrap_or_default()
}

pub(super) fn facts(node: &Node) -> NodeFacts {
    let status = node.status.clone().unwrap_or_default();
    let internal = status.addresses.unwrap_or_default().into_iter();
    let internal = internal.filter(|address| address.type_ == "InternalIP");
    let ready = status.conditions.unwrap_or_default().into_iter().find(|c| c.type_ == "Ready");
    let is_ready = ready.as_ref().is_some_and(|condition| condition.status == "True");
    let reason = match ready {
        _ if is_ready => String::new(),
        None => "the node has not reported its state".to_owned(),
        Some(condition) => condition
            .message
            .or(condition.reason)
            .unwrap_or_else(|| "the node gives no reason".into()),
    };
    let spec = node.spec.clone().unwrap_or_default();
    let annotations = node.metadata.annotations.as_ref();
    let info = status.node_info.unwrap_or_default();
    NodeFacts {
        name: node.metadata.name.clone().unwrap_or_default(),
        internal_addresses: internal.filter_map(|address| address.address.parse().ok()).collect(),
        is_ready,
        reason,
        is_schedulable: !spec.unschedulable.unwrap_or_default(),
        is_marked: annotations.is_some_and(|all| all.contains_key(CORDONED)),
        kubelet_version: info.kubelet_version,
        system_uuid: Some(info.system_uuid).filter(|uuid| !uuid.is_empty()),
        provider_id: spec.provider_id,
    }
}

impl From<NodeFacts> for KubeNode {
    fn from(facts: NodeFacts) -> Self {
        Self {
            name: facts.name,
            internal_addresses: facts.internal_addresses,
            is_ready: facts.is_ready,
            is_schedulable: facts.is_schedulable,
        }
    }
}

fn pod(pod: &Pod) -> Option<KubePod> {
    let component = pod.metadata.labels.as_ref()?.get(COMPONENT)?.clone();
    let status = pod.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.unwrap_or_default().into_iter();
    let is_ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
    let host = status.host_ip.and_then(|host| host.parse().ok());
    Some(KubePod { component, host, is_ready })
}

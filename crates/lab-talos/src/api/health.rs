//! `ClusterService.HealthCheck`: health of the cluster from the view of a control plane. Each check is reported separately.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_talos_api::proto::cluster::cluster_service_server::ClusterService;
use talmox_talos_api::proto::cluster::{ClusterInfo, HealthCheckProgress, HealthCheckRequest};
use talmox_talos_api::server::{Answered, Asked, Status};
use tonic::codegen::BoxStream;

use super::machine::only_on_control_planes;
use super::{NodeApi, Session, stream};
use crate::talos_state::{Node, TalosState};

mod kube;
mod node;

/// Time between two attempts of a check that failed, in lab time.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of all checks together, if the caller sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);

/// Result of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Skipped,
    Failed(String),
}

/// Addresses of the cluster members.
struct ClusterMembers {
    control_planes: Vec<IpAddr>,
    workers: Vec<IpAddr>,
}

/// Input of the health checks.
struct CheckContext<'a> {
    talos: &'a TalosState,
    /// Node that runs the checks.
    node: &'a Node,
    cluster: &'a ClusterMembers,
}

type Check = (&'static str, fn(&CheckContext<'_>) -> Verdict);

/// Checks in the order in which they run.
const CHECKS: [Check; 16] = [
    ("etcd to be healthy", node::etcd),
    ("etcd members to be consistent across nodes", node::consistent),
    ("etcd members to be control plane nodes", node::on_control_planes),
    ("apid to be ready", node::apid),
    ("all nodes memory sizes", node::memory),
    ("all nodes disk sizes", node::disks),
    ("no diagnostics", node::diagnostics),
    ("kubelet to be healthy", node::kubelet),
    ("all nodes to finish boot sequence", node::booted),
    ("all k8s nodes to report", kube::nodes_report),
    ("all control plane static pods to be running", kube::static_pods),
    ("all control plane components to be ready", kube::components),
    ("all k8s nodes to report ready", kube::nodes_ready),
    ("kube-proxy to report ready", kube::proxy),
    ("coredns to report ready", kube::dns),
    ("all k8s nodes to report schedulable", kube::schedulable),
];

#[tonic::async_trait]
impl ClusterService for NodeApi {
    async fn health_check(
        &self,
        request: Asked<HealthCheckRequest>,
    ) -> Result<Answered<BoxStream<HealthCheckProgress>>, Status> {
        only_on_control_planes(&self.0, "cluster health check")?;
        let HealthCheckRequest { wait_timeout, cluster_info } = request.into_inner();
        let wait =
            wait_timeout.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or(DEFAULT_TIMEOUT);
        let cluster = self.0.look(|talos, node| members(talos, node, cluster_info))?;
        let session = Arc::clone(&self.0);
        Ok(Answered::new(stream::run(&self.0, |sender| async move {
            let clock = session.simulation.clock();
            let checking = check_all(&session, &cluster, &sender);
            if clock.timeout(wait, checking).await.is_err() {
                let late = Status::deadline_exceeded("context deadline exceeded");
                drop(sender.send(Err(late)).await);
            }
        })))
    }
}

/// Cluster members that the caller names, or else the members that discovery found.
fn members(talos: &TalosState, node: &Node, named: Option<ClusterInfo>) -> ClusterMembers {
    let named = named.unwrap_or_default();
    let addresses = |names: &[String]| -> Vec<IpAddr> {
        names.iter().filter_map(|name| name.parse().ok()).collect()
    };
    let (control_planes, workers) =
        (addresses(&named.control_plane_nodes), addresses(&named.worker_nodes));
    if !control_planes.is_empty() || !workers.is_empty() {
        return ClusterMembers { control_planes, workers };
    }
    let id = |node: &Node| node.config.as_ref().map(|config| config.facts.cluster_id.clone());
    let own = talos
        .nodes
        .values()
        .filter(|other| id(other) == id(node) && talos.is_connected(node.vmid, other.vmid));
    let mut cluster = ClusterMembers { control_planes: vec![], workers: vec![] };
    for other in own {
        let kind = if other.is_control_plane() {
            &mut cluster.control_planes
        } else {
            &mut cluster.workers
        };
        kind.extend(other.node_address());
    }
    cluster
}

async fn check_all(
    session: &Session,
    cluster: &ClusterMembers,
    sender: &stream::Sender<HealthCheckProgress>,
) {
    let say = |message: String| async move {
        sender.send(Ok(HealthCheckProgress { metadata: None, message })).await.is_ok()
    };
    let all: Vec<String> = cluster.all().map(|address| format!("\"{address}\"")).collect();
    if !say(format!("discovered nodes: [{}]", all.join(" "))).await {
        return;
    }
    for (name, check) in CHECKS {
        let mut last = String::new();
        loop {
            let verdict = session.look(|talos, node| check(&CheckContext { talos, node, cluster }));
            let Ok(verdict) = verdict else { return };
            let (text, is_done) = match verdict {
                Verdict::Passed => ("OK".to_owned(), true),
                Verdict::Skipped => ("SKIP".to_owned(), true),
                Verdict::Failed(why) => (why, false),
            };
            if last.is_empty() && !say(format!("waiting for {name}: ...")).await {
                return;
            }
            if text != last && !say(format!("waiting for {name}: {text}")).await {
                return;
            }
            if is_done {
                break;
            }
            last = text;
            session.simulation.clock().sleep(RETRY_INTERVAL).await;
        }
    }
}

impl ClusterMembers {
    fn all(&self) -> impl Iterator<Item = IpAddr> {
        self.control_planes.iter().chain(&self.workers).copied()
    }
}

impl<'a> CheckContext<'a> {
    /// Nodes at these addresses. The node is `None` if the address cannot be reached.
    fn at(&self, addresses: &[IpAddr]) -> Vec<(IpAddr, Option<&'a Node>)> {
        let reached = |address: &IpAddr| {
            let is_reachable = |other: &&Node| self.talos.is_connected(self.node.vmid, other.vmid);
            (*address, self.talos.holders(*address).find(is_reachable))
        };
        addresses.iter().map(reached).collect()
    }

    /// Passes if all these nodes can be reached and `problem` returns `None` for each of them.
    fn each(&self, addresses: &[IpAddr], problem: impl Fn(&'a Node) -> Option<String>) -> Verdict {
        let found = self.at(addresses).into_iter().find_map(|(address, node)| match node {
            None => {
                Some(format!("{address}: rpc error: code = Unavailable desc = connection error"))
            }
            Some(node) => problem(node).map(|why| format!("{address}: {why}")),
        });
        found.map_or(Verdict::Passed, Verdict::Failed)
    }
}

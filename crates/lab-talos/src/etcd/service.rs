//! etcd service of one node. It waits for a cluster, joins the cluster, and runs as a member.

use std::sync::Arc;
use std::time::Duration;

use talmox_lab_environment::Work;

use super::Member;
use super::join::{self, FoundCluster};
use crate::fault::NodeFaults;
use crate::service::{self, ServiceState};
use crate::simulation::Simulation;
use crate::talos_state::{Membership, Node, TalosState};

const SERVICE: &str = "etcd";
/// Time without a leader after which a member starts an election.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the etcd service of a control plane until the node stops.
pub(crate) async fn run(simulation: &Arc<Simulation>, vmid: u32, boot: u64) {
    let node = EtcdNode { simulation, vmid, boot };
    let known = simulation.look(|talos| talos.nodes.get(&vmid).and_then(|node| node.etcd));
    node.prepare().await;
    // The image is pulled before the search for a cluster starts, so that it is present when a bootstrap request arrives.
    simulation.until_pulled(vmid, boot, SERVICE).await;
    node.wait(Work::Pull).await;
    let (membership, origin) = node.membership(known).await;
    if origin == MembershipOrigin::Bootstrap {
        node.serve(node.bootstrap_cluster().await).await;
    } else {
        node.create_runner().await;
        node.serve(membership).await;
    }
}

struct EtcdNode<'r> {
    simulation: &'r Arc<Simulation>,
    vmid: u32,
    boot: u64,
}

/// Way in which a node became a member of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MembershipOrigin {
    /// The membership was already on the disk.
    Disk,
    Bootstrap,
    Join,
}

/// State of a member, which determines its health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberCondition {
    /// The member left the cluster and deleted its data.
    Left,
    /// Another member removed this member.
    Removed,
    /// The member reaches too few other members for a quorum.
    Alone,
    Campaigning,
    Learning,
    Following,
}

impl EtcdNode<'_> {
    fn enter(&self, state: ServiceState, message: &str) {
        self.simulation.enter(self.vmid, self.boot, SERVICE, state, message);
    }

    /// Prepares the service, before etcd can start.
    async fn prepare(&self) {
        self.enter(ServiceState::Starting, "Starting service");
        let condition = service::condition(SERVICE).unwrap_or_default();
        self.enter(ServiceState::Waiting, &format!("Waiting for {condition}"));
        self.simulation.until_time_synced(self.vmid, self.boot).await;
        self.enter(ServiceState::Preparing, "Running pre state");
    }

    async fn create_runner(&self) {
        self.enter(ServiceState::Preparing, "Creating service runner");
        self.wait(Work::Service).await;
    }

    /// Starts etcd as the first member of a new cluster. Another bootstrap request before etcd runs restarts this procedure.
    async fn bootstrap_cluster(&self) -> Membership {
        loop {
            let requested = self.simulation.until(|talos| self.pending_bootstrap(talos)).await;
            self.enter(ServiceState::Finished, "Bootstrap requested");
            self.simulation.reload(self.vmid, self.boot, SERVICE);
            let start = async {
                self.prepare().await;
                self.create_runner().await;
            };
            let replaced = |talos: &TalosState| {
                (self.pending_bootstrap(talos) != Some(requested)).then_some(())
            };
            tokio::select! {
                () = start => {}
                () = self.simulation.until(replaced) => {}
            }
            if self.complete(requested) {
                self.store_membership(Some(requested));
                return requested;
            }
        }
    }

    fn pending_bootstrap(&self, talos: &TalosState) -> Option<Membership> {
        let node = talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot)?;
        node.pending_bootstrap.as_ref().map(|pending_bootstrap| pending_bootstrap.membership)
    }

    /// Completes the bootstrap. Returns false if another bootstrap request arrived in the meantime.
    fn complete(&self, requested: Membership) -> bool {
        self.simulation.change(|talos| {
            let node = talos.of_boot(self.vmid, self.boot);
            let pending_bootstrap = node.and_then(|node| {
                let pending_bootstrap =
                    node.pending_bootstrap.take_if(|one| one.membership == requested)?;
                node.etcd = Some(requested);
                node.revision += 1;
                Some(pending_bootstrap)
            });
            pending_bootstrap.map(|pending_bootstrap| pending_bootstrap.complete(talos)).is_some()
        })
    }

    fn object(&self) -> String {
        format!("etcd/{}", self.vmid)
    }

    async fn wait(&self, work: Work) {
        self.simulation.environment.wait(work, &self.object()).await;
        let (clock, began) = (self.simulation.clock(), self.simulation.clock().moment());
        loop {
            let slowness = self.faults().slowness;
            let left = slowness.saturating_sub(clock.moment().since(began));
            if left.is_zero() {
                return;
            }
            // If the slowness fault changes, the work in progress is affected as well.
            let is_other = |talos: &TalosState| {
                let now = talos.nodes.get(&self.vmid).map(|node| node.faults.slowness);
                (now != Some(slowness)).then_some(())
            };
            tokio::select! {
                () = clock.sleep(left) => {}
                () = self.simulation.until(is_other) => {}
            }
        }
    }

    fn faults(&self) -> NodeFaults {
        let faults =
            self.simulation.look(|talos| talos.nodes.get(&self.vmid).map(|node| node.faults));
        faults.unwrap_or_default()
    }

    /// Membership of this node: from the disk, from a bootstrap, or from joining a cluster.
    async fn membership(&self, known: Option<Membership>) -> (Membership, MembershipOrigin) {
        let mut last_found = FoundCluster::Nothing;
        loop {
            let (membership, found) =
                self.simulation.until(|talos| self.decide(talos, &last_found)).await;
            if let Some(membership) = membership {
                let is_known = known == Some(membership);
                return (
                    membership,
                    if is_known { MembershipOrigin::Disk } else { MembershipOrigin::Bootstrap },
                );
            }
            match &found {
                FoundCluster::Cluster(cluster) => {
                    self.wait(Work::Service).await;
                    if let Some(joined) = self.join(*cluster) {
                        return (joined, MembershipOrigin::Join);
                    }
                }
                FoundCluster::Rejected(reason) => self.enter(ServiceState::Preparing, reason),
                FoundCluster::Nothing => {}
            }
            last_found = found;
        }
    }

    /// Next action of a node without a membership; `None` while nothing has changed.
    fn decide(
        &self,
        talos: &TalosState,
        last_found: &FoundCluster,
    ) -> Option<(Option<Membership>, FoundCluster)> {
        let node = talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot)?;
        if let Some(membership) = node.etcd.or_else(|| self.pending_bootstrap(talos)) {
            return Some((Some(membership), FoundCluster::Nothing));
        }
        let found = join::find_cluster(talos, &self.simulation.settings.gateways, self.vmid);
        let is_changed = found != *last_found || matches!(found, FoundCluster::Cluster(_));
        is_changed.then_some((None, found))
    }

    /// Joins the cluster as a learner; `None` if the cluster no longer accepts this node, for example because another node
    /// joined first.
    fn join(&self, cluster: u64) -> Option<Membership> {
        let member = self.simulation.chance(&format!("etcd/member/{}", self.vmid)).number();
        let membership = Membership { cluster, member };
        self.simulation.change(|talos| {
            if join::find_cluster(talos, &self.simulation.settings.gateways, self.vmid)
                != FoundCluster::Cluster(cluster)
            {
                return None;
            }
            let node = talos.of_boot(self.vmid, self.boot).filter(|node| node.etcd.is_none())?;
            let peer = node.etcd_address()?;
            node.etcd = Some(membership);
            node.revision += 1;
            let cluster = talos.etcds.get_mut(&cluster)?;
            cluster.turns += 1;
            let new = Member {
                name: String::new(),
                vmid: self.vmid,
                peer,
                is_learner: true,
                is_up: false,
                boot: 0,
                serves_clients: false,
                defragmented: cluster.store.revision(),
            };
            cluster.members.insert(member, new);
            Some(())
        })?;
        self.store_membership(Some(membership));
        Some(membership)
    }

    fn store_membership(&self, membership: Option<Membership>) {
        let disk = self.simulation.look(|talos| talos.nodes.get(&self.vmid)?.system_disk.clone());
        if let Some(disk) = disk {
            self.simulation.hypervisor.write_disk(&disk, |written| {
                written.ephemeral.get_or_insert_default().etcd = membership;
            });
        }
    }

    /// Runs as a member, until the member is removed from the cluster.
    async fn serve(&self, membership: Membership) {
        let running = RunningMember::start(self.simulation, membership, self.vmid, self.boot);
        self.enter(ServiceState::Running, &service::started(SERVICE, self.vmid));
        if self.faults().disk_is_full {
            self.simulation.change(|talos| talos.raise_alarm(membership));
        }
        let mut before = None;
        loop {
            let condition = self
                .simulation
                .until(|talos| {
                    let now = self.condition(talos, membership);
                    (Some(now) != before).then_some(now)
                })
                .await;
            if matches!(condition, MemberCondition::Learning | MemberCondition::Following) {
                self.simulation.change(|talos| {
                    if let Some(own) = member(talos, membership) {
                        own.serves_clients = true;
                    }
                });
            }
            match condition {
                MemberCondition::Left => {
                    drop(running);
                    self.store_membership(None);
                    self.enter(ServiceState::Finished, "Service finished successfully");
                    return;
                }
                MemberCondition::Removed => {
                    drop(running);
                    self.enter(
                        ServiceState::Failed,
                        "Failed to run: task \"etcd\" failed: exit code 1: the member has been permanently removed from the cluster",
                    );
                    return;
                }
                MemberCondition::Alone => self.set_health(false, "context deadline exceeded"),
                MemberCondition::Campaigning => {
                    // The first health check runs some seconds after the start, when etcd already has a leader. So only later
                    // checks can fail here.
                    if before.is_some() {
                        self.set_health(false, "context deadline exceeded");
                    }
                    let time = self.simulation.chance(&self.object()).jitter(ELECTION_TIMEOUT);
                    self.simulation.clock().sleep(time).await;
                    if self.simulation.look(|talos| talos.may_campaign(membership)) {
                        self.simulation.change(|talos| talos.make_leader(membership));
                    }
                }
                MemberCondition::Learning => {
                    self.set_health(false, "etcdserver: rpc not supported for learner");
                    self.wait(Work::Service).await;
                    self.promote(membership);
                }
                MemberCondition::Following => self.set_health(true, ""),
            }
            before = Some(condition);
        }
    }

    fn condition(&self, talos: &TalosState, membership: Membership) -> MemberCondition {
        let node = talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot);
        if node.is_some_and(|node| node.etcd != Some(membership)) {
            return MemberCondition::Left;
        }
        let cluster = talos.etcds.get(&membership.cluster);
        let Some(own) = cluster.and_then(|cluster| cluster.members.get(&membership.member)) else {
            return MemberCondition::Removed;
        };
        if talos.may_campaign(membership) {
            MemberCondition::Campaigning
        } else if !talos.has_quorum(membership) || talos.leader_of(membership).is_none() {
            MemberCondition::Alone
        } else if own.is_learner {
            MemberCondition::Learning
        } else {
            MemberCondition::Following
        }
    }

    fn set_health(&self, healthy: bool, message: &str) {
        self.simulation.set_health(self.vmid, self.boot, SERVICE, healthy, message);
    }

    /// Promotes a learner to a voter, if the learner is synchronized and the cluster has quorum.
    fn promote(&self, membership: Membership) {
        if self.simulation.look(|talos| self.condition(talos, membership))
            != MemberCondition::Learning
        {
            return;
        }
        self.simulation.change(|talos| {
            let Some(cluster) = talos.etcds.get_mut(&membership.cluster) else { return };
            cluster.turns += 1;
            if let Some(own) = cluster.members.get_mut(&membership.member) {
                own.is_learner = false;
            }
        });
    }
}

/// Running etcd process. When this value is dropped, the member counts as down.
struct RunningMember {
    simulation: Arc<Simulation>,
    membership: Membership,
    boot: u64,
}

impl RunningMember {
    fn start(simulation: &Arc<Simulation>, membership: Membership, vmid: u32, boot: u64) -> Self {
        simulation.change(|talos| {
            let node = talos.nodes.get(&vmid);
            let name = node.map(|node| node.hostname().to_owned()).unwrap_or_default();
            let peer = node.and_then(Node::etcd_address);
            if let Some(own) = member(talos, membership) {
                own.name = name;
                own.vmid = vmid;
                own.peer = peer.unwrap_or(own.peer);
                own.is_up = true;
                own.boot = boot;
            }
        });
        Self { simulation: Arc::clone(simulation), membership, boot }
    }
}

impl Drop for RunningMember {
    fn drop(&mut self) {
        self.simulation.change(|talos| {
            // The process of an earlier boot may be dropped after that of the next boot was started.
            let own = member(talos, self.membership).filter(|own| own.boot == self.boot);
            if let Some(own) = own {
                own.is_up = false;
                own.serves_clients = false;
            }
        });
    }
}

/// Sets the peer URL of the etcd member to the current address of the node. Talos does this while etcd is healthy.
pub(crate) fn update_peer(simulation: &Simulation, vmid: u32, boot: u64) {
    simulation.change(|talos| {
        let node = talos.of_boot(vmid, boot)?;
        let (membership, address) = (node.etcd?, node.etcd_address()?);
        if talos.serves(membership) {
            member(talos, membership)?.peer = address;
        }
        Some(())
    });
}

fn member(talos: &mut TalosState, membership: Membership) -> Option<&mut Member> {
    talos.etcds.get_mut(&membership.cluster)?.members.get_mut(&membership.member)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bench::Bench;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_end_of_an_earlier_boot_does_not_stop_the_process_of_the_next_boot() {
        let bench = Bench::new();
        let boot = bench.start_control_plane(11);
        crate::etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
        bench.until_healthy(11, SERVICE).await;
        let membership = bench.simulation.look(|talos| talos.nodes[&11].etcd).unwrap();
        let is_up = || {
            bench
                .simulation
                .look(|talos| talos.etcds[&membership.cluster].members[&membership.member].is_up)
        };
        let earlier = RunningMember::start(&bench.simulation, membership, 11, boot + 1);
        let next = RunningMember::start(&bench.simulation, membership, 11, boot + 2);
        drop(earlier);
        assert!(is_up());
        drop(next);
        assert!(!is_up());
    }
}

//! etcd on one node: it waits until there is a cluster to be part of, joins it, and runs.

use std::sync::Arc;
use std::time::Duration;

use talmox_lab_environment::Work;

use super::Member;
use super::join::{self, Found};
use crate::fault::NodeFaults;
use crate::service::{self, ServiceState};
use crate::simulation::Simulation;
use crate::talos_state::{Membership, Node, TalosState};

const SERVICE: &str = "etcd";
/// How long nobody hears of a leader before somebody wants to be it.
const ELECTION: Duration = Duration::from_secs(1);

/// Runs the service of a control plane, for as long as the node does.
pub(crate) async fn run(simulation: &Arc<Simulation>, vmid: u32, boot: u64) {
    let node = EtcdNode { simulation, vmid, boot };
    let known = simulation.look(|talos| talos.nodes.get(&vmid).and_then(|node| node.etcd));
    node.prepare().await;
    // The image is pulled before the node looks for a cluster, and so it is there when a bootstrap comes.
    simulation.until_pulled(vmid, boot, SERVICE).await;
    node.wait(Work::Pull).await;
    let (membership, origin) = node.membership(known).await;
    if origin == Origin::Bootstrap {
        node.serve(node.found_cluster().await).await;
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

/// How a node became a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Its disk said so.
    Disk,
    Bootstrap,
    Join,
}

/// What can be seen of a member from outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// It left, and its data is gone.
    Left,
    /// The others threw it out.
    Removed,
    /// Too few are there.
    Alone,
    Campaigning,
    Learning,
    Following,
}

impl EtcdNode<'_> {
    fn enter(&self, state: ServiceState, message: &str) {
        self.simulation.enter(self.vmid, self.boot, SERVICE, state, message);
    }

    /// From its start until it runs what comes before etcd itself.
    async fn prepare(&self) {
        self.enter(ServiceState::Starting, "Starting service");
        let condition = service::condition(SERVICE).unwrap_or_default();
        self.enter(ServiceState::Waiting, &format!("Waiting for {condition}"));
        self.simulation.until_in_time(self.vmid, self.boot).await;
        self.enter(ServiceState::Preparing, "Running pre state");
    }

    async fn create_runner(&self) {
        self.enter(ServiceState::Preparing, "Creating service runner");
        self.wait(Work::Service).await;
    }

    /// Starts etcd in bootstrap mode. A further request before it runs stops the start and begins another.
    async fn found_cluster(&self) -> Membership {
        loop {
            let requested = self.simulation.until(|talos| self.founding(talos)).await;
            self.enter(ServiceState::Finished, "Bootstrap requested");
            self.simulation.reload(self.vmid, self.boot, SERVICE);
            let start = async {
                self.prepare().await;
                self.create_runner().await;
            };
            let replaced =
                |talos: &TalosState| (self.founding(talos) != Some(requested)).then_some(());
            tokio::select! {
                () = start => {}
                () = self.simulation.until(replaced) => {}
            }
            if self.complete(requested) {
                self.remember(Some(requested));
                return requested;
            }
        }
    }

    fn founding(&self, talos: &TalosState) -> Option<Membership> {
        let node = talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot)?;
        node.founding.as_ref().map(|founding| founding.membership)
    }

    /// False if another request came meanwhile.
    fn complete(&self, requested: Membership) -> bool {
        self.simulation.change(|talos| {
            let node = talos.of_boot(self.vmid, self.boot);
            let founding = node.and_then(|node| {
                let founding = node.founding.take_if(|one| one.membership == requested)?;
                node.etcd = Some(requested);
                node.revision += 1;
                Some(founding)
            });
            founding.map(|founding| founding.complete(talos)).is_some()
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
            // Who becomes slower takes longer for what it has begun, too.
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

    /// Which member this node is: as its disk says, by a bootstrap, or because others take it.
    async fn membership(&self, known: Option<Membership>) -> (Membership, Origin) {
        let mut said = Found::Nothing;
        loop {
            let (membership, found) =
                self.simulation.until(|talos| self.decide(talos, &said)).await;
            if let Some(membership) = membership {
                let is_known = known == Some(membership);
                return (membership, if is_known { Origin::Disk } else { Origin::Bootstrap });
            }
            match &found {
                Found::Cluster(cluster) => {
                    self.wait(Work::Service).await;
                    if let Some(joined) = self.join(*cluster) {
                        return (joined, Origin::Join);
                    }
                }
                Found::Refused(reason) => self.enter(ServiceState::Preparing, reason),
                Found::Nothing => {}
            }
            said = found;
        }
    }

    /// None while there is nothing new.
    fn decide(&self, talos: &TalosState, said: &Found) -> Option<(Option<Membership>, Found)> {
        let node = talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot)?;
        if let Some(membership) = node.etcd.or_else(|| self.founding(talos)) {
            return Some((Some(membership), Found::Nothing));
        }
        let found = join::look(talos, &self.simulation.settings.gateways, self.vmid);
        let is_news = found != *said || matches!(found, Found::Cluster(_));
        is_news.then_some((None, found))
    }

    /// Asks to be a learner. None if somebody was faster.
    fn join(&self, cluster: u64) -> Option<Membership> {
        let member = self.simulation.chance(&format!("etcd/member/{}", self.vmid)).number();
        let membership = Membership { cluster, member };
        self.simulation.change(|talos| {
            if join::look(talos, &self.simulation.settings.gateways, self.vmid)
                != Found::Cluster(cluster)
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
                serves_clients: false,
                defragmented: cluster.store.revision(),
            };
            cluster.members.insert(member, new);
            Some(())
        })?;
        self.remember(Some(membership));
        Some(membership)
    }

    fn remember(&self, membership: Option<Membership>) {
        let disk = self.simulation.look(|talos| talos.nodes.get(&self.vmid)?.system_disk.clone());
        if let Some(disk) = disk {
            self.simulation.hypervisor.write_disk(&disk, |written| {
                written.ephemeral.get_or_insert_default().etcd = membership;
            });
        }
    }

    /// Runs as a member until it is none any more.
    async fn serve(&self, membership: Membership) {
        let running = Running::start(self.simulation, membership, self.vmid);
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
            if matches!(condition, Condition::Learning | Condition::Following) {
                self.simulation.change(|talos| {
                    if let Some(own) = member(talos, membership) {
                        own.serves_clients = true;
                    }
                });
            }
            match condition {
                Condition::Left => {
                    drop(running);
                    self.remember(None);
                    self.enter(ServiceState::Finished, "Service finished successfully");
                    return;
                }
                Condition::Removed => {
                    drop(running);
                    self.enter(
                        ServiceState::Failed,
                        "Failed to run: task \"etcd\" failed: exit code 1: the member has been permanently removed from the cluster",
                    );
                    return;
                }
                Condition::Alone => self.set_health(false, "context deadline exceeded"),
                Condition::Campaigning => {
                    // The first check comes some seconds after the start, and finds a leader.
                    if before.is_some() {
                        self.set_health(false, "context deadline exceeded");
                    }
                    let time = self.simulation.chance(&self.object()).jitter(ELECTION);
                    self.simulation.clock().sleep(time).await;
                    if self.simulation.look(|talos| talos.may_campaign(membership)) {
                        self.simulation.change(|talos| talos.lead(membership));
                    }
                }
                Condition::Learning => {
                    self.set_health(false, "etcdserver: rpc not supported for learner");
                    self.wait(Work::Service).await;
                    self.promote(membership);
                }
                Condition::Following => self.set_health(true, ""),
            }
            before = Some(condition);
        }
    }

    fn condition(&self, talos: &TalosState, membership: Membership) -> Condition {
        let node = talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot);
        if node.is_some_and(|node| node.etcd != Some(membership)) {
            return Condition::Left;
        }
        let cluster = talos.etcds.get(&membership.cluster);
        let Some(own) = cluster.and_then(|cluster| cluster.members.get(&membership.member)) else {
            return Condition::Removed;
        };
        if talos.may_campaign(membership) {
            Condition::Campaigning
        } else if !talos.has_quorum(membership) || talos.leader_of(membership).is_none() {
            Condition::Alone
        } else if own.is_learner {
            Condition::Learning
        } else {
            Condition::Following
        }
    }

    fn set_health(&self, healthy: bool, message: &str) {
        self.simulation.set_health(self.vmid, self.boot, SERVICE, healthy, message);
    }

    /// A learner that knows enough becomes a voter, if the others are there to agree.
    fn promote(&self, membership: Membership) {
        if self.simulation.look(|talos| self.condition(talos, membership)) != Condition::Learning {
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

/// A member whose process runs. However it ends, the others notice.
struct Running {
    simulation: Arc<Simulation>,
    membership: Membership,
}

impl Running {
    fn start(simulation: &Arc<Simulation>, membership: Membership, vmid: u32) -> Self {
        simulation.change(|talos| {
            let node = talos.nodes.get(&vmid);
            let name = node.map(|node| node.hostname().to_owned()).unwrap_or_default();
            let peer = node.and_then(Node::etcd_address);
            if let Some(own) = member(talos, membership) {
                own.name = name;
                own.vmid = vmid;
                own.peer = peer.unwrap_or(own.peer);
                own.is_up = true;
            }
        });
        Self { simulation: Arc::clone(simulation), membership }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.simulation.change(|talos| {
            if let Some(own) = member(talos, self.membership) {
                own.is_up = false;
                own.serves_clients = false;
            }
        });
    }
}

fn member(talos: &mut TalosState, membership: Membership) -> Option<&mut Member> {
    talos.etcds.get_mut(&membership.cluster)?.members.get_mut(&membership.member)
}

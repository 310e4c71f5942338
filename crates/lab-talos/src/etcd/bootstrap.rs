//! Bootstrap of etcd: the first member of a new etcd cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use talmox_clock::Chance;
use talmox_lab_environment::Work;
use talmox_lab_kube::{KubeSettings, KubeStore};
use tonic::Status;

use super::snapshot;
use super::{EtcdCluster, Member};
use crate::config::Facts;
use crate::simulation::Simulation;
use crate::talos_state::{Membership, Node, TalosState};

/// Options of a bootstrap from an uploaded snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecoverOptions {
    pub(crate) skip_hash_check: bool,
}

/// Accepted bootstrap whose etcd has not started yet. It exists only in the memory of the node, so a reboot loses it. Another
/// bootstrap request replaces it: Talos 1.12.0 accepted a second request 1.8 s after the first, and logged `Bootstrap
/// requested` twice.
#[derive(Debug)]
pub(crate) struct PendingBootstrap {
    pub(crate) membership: Membership,
    cluster: EtcdCluster,
}

impl PendingBootstrap {
    /// Adds the new etcd cluster when etcd starts. From here on, the cluster has data.
    pub(super) fn complete(self, talos: &mut TalosState) {
        talos.etcds.insert(self.membership.cluster, self.cluster);
    }
}

/// Makes this node the first member of a new etcd cluster, as soon as etcd starts on the node. Other nodes have no influence.
/// So a bootstrap of a second node in the same Talos cluster causes a split brain.
pub(crate) fn bootstrap(
    simulation: &Arc<Simulation>,
    vmid: u32,
    boot: u64,
    recover: Option<RecoverOptions>,
) -> Result<(), Status> {
    let disk =
        simulation.look(|talos| talos.nodes.get(&vmid).and_then(|node| node.system_disk.clone()));
    let has_data = disk.as_ref().is_some_and(|disk| {
        simulation
            .hypervisor
            .written(disk)
            .ephemeral
            .is_some_and(|ephemeral| ephemeral.etcd.is_some())
    });
    let mut chance = simulation.chance(&format!("etcd/bootstrap/{vmid}"));
    let (id, member) = (chance.number(), chance.number());
    let chance = chance.of("kubernetes", 0);
    let membership = Membership { cluster: id, member };
    simulation.change(|talos| {
        let node = talos.of_boot(vmid, boot).ok_or_else(|| Status::unavailable("node is gone"))?;
        let facts = check(node, has_data)?;
        let settings = settings(simulation, &facts, chance);
        let store = match recover {
            None => KubeStore::new(settings),
            Some(recover) => {
                let bytes = node.snapshot.take().ok_or_else(no_snapshot)?;
                let saved = snapshot::read(&bytes, recover.skip_hash_check)
                    .map_err(|reason| damaged(&reason))?;
                KubeStore::restore(settings, saved)
            }
        };
        node.revision += 1;
        let first = first_member(node, store.revision())?;
        node.pending_bootstrap = Some(PendingBootstrap {
            membership,
            cluster: new_cluster(membership, first, &facts, store),
        });
        Ok(())
    })
}

fn check(node: &Node, has_data: bool) -> Result<Facts, Status> {
    let not_yet = || Status::failed_precondition("bootstrap is not available yet");
    if !node.services.get("cri").is_some_and(crate::service::Service::is_healthy) {
        return Err(not_yet());
    }
    let config = node.config.as_ref().filter(|config| config.facts.is_control_plane);
    let has_unified_api = node.version.is_at_least(13);
    let Some(config) = config else {
        return Err(if has_unified_api {
            Status::unimplemented("bootstrap is only available on control plane nodes")
        } else {
            let text = "bootstrap can only be performed on a control plane node";
            Status::failed_precondition(text)
        });
    };
    if !node.is_time_in_sync {
        // Observed on real nodes: while the time is not in sync, 1.13.6 returns the first error and 1.12.0 the second.
        return Err(if has_unified_api {
            not_yet()
        } else {
            Status::failed_precondition("time is not in sync yet")
        });
    }
    if has_data || node.etcd.is_some() {
        return Err(Status::already_exists("etcd data directory is not empty"));
    }
    Ok(config.facts.clone())
}

fn no_snapshot() -> Status {
    Status::failed_precondition(
        "error recovering etcd: stat /var/lib/etcd.snapshot: no such file or directory",
    )
}

fn damaged(reason: &str) -> Status {
    Status::unknown(format!("error recovering etcd: {reason}"))
}

fn first_member(node: &Node, revision: u64) -> Result<Member, Status> {
    let peer = node.etcd_address();
    let peer = peer.ok_or_else(|| Status::failed_precondition("bootstrap is not available yet"))?;
    Ok(Member {
        name: String::new(),
        vmid: node.vmid,
        peer,
        is_learner: false,
        is_up: false,
        boot: 0,
        serves_clients: false,
        defragmented: revision,
    })
}

fn new_cluster(
    membership: Membership,
    first: Member,
    facts: &Facts,
    store: Arc<KubeStore>,
) -> EtcdCluster {
    EtcdCluster {
        id: membership.cluster,
        ca: facts.etcd_ca.clone().unwrap_or_default(),
        talos_cluster: facts.cluster_id.clone(),
        members: BTreeMap::from([(membership.member, first)]),
        leader: None,
        term: 1,
        turns: 4,
        store,
        alarms: BTreeSet::new(),
        api_servers: BTreeMap::new(),
    }
}

/// Settings of the Kubernetes cluster, from the machine config.
fn settings(simulation: &Simulation, facts: &Facts, chance: Chance) -> KubeSettings {
    let octets = |subnets: &[String], default: [u8; 3]| {
        let mut addresses = subnets.iter().filter_map(|subnet| {
            let (address, _) = subnet.split_once('/')?;
            address.parse::<std::net::Ipv4Addr>().ok()
        });
        addresses.next().map_or(default, |address| {
            let [a, b, c, _] = address.octets();
            [a, b, c]
        })
    };
    let [a, b, _] = octets(&facts.pod_subnets, [10, 244, 0]);
    KubeSettings {
        clock: simulation.clock(),
        chance,
        pod_start: simulation.environment.time(Work::Pull)
            + simulation.environment.time(Work::Service),
        service_network: octets(&facts.service_subnets, [10, 96, 0]),
        pod_network: [a, b],
        authority: facts.kube_ca.clone(),
    }
}

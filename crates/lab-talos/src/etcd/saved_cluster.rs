//! etcd clusters in the form in which the lab saves them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use talmox_clock::{Chance, Clock};
use talmox_lab_kube::{KubeSettings, KubeStore, SavedStore};

use super::{EtcdCluster, Member};
use crate::simulation::Simulation;

#[derive(Debug, Serialize, Deserialize)]
pub struct SavedCluster {
    id: u64,
    ca: String,
    talos_cluster: String,
    members: BTreeMap<u64, Member>,
    term: u64,
    turns: u64,
    #[serde(default)]
    alarms: BTreeSet<u64>,
    service_network: [u8; 3],
    pod_network: [u8; 2],
    authority: String,
    pod_start: std::time::Duration,
    store: SavedStore,
}

impl EtcdCluster {
    pub(crate) fn save(&self) -> SavedCluster {
        let settings = self.store.settings();
        SavedCluster {
            id: self.id,
            ca: self.ca.clone(),
            talos_cluster: self.talos_cluster.clone(),
            members: self.members.clone(),
            term: self.term,
            turns: self.turns,
            alarms: self.alarms.clone(),
            service_network: settings.service_network,
            pod_network: settings.pod_network,
            authority: settings.authority,
            pod_start: settings.pod_start,
            store: self.store.save(),
        }
    }
}

impl SavedCluster {
    /// Restores a saved cluster. All its members are stopped.
    pub(crate) fn restore(self, clock: Clock, chance: &Chance) -> EtcdCluster {
        let settings = KubeSettings {
            clock,
            chance: chance.of("etcd", self.id),
            pod_start: self.pod_start,
            service_network: self.service_network,
            pod_network: self.pod_network,
            authority: self.authority,
        };
        EtcdCluster {
            id: self.id,
            ca: self.ca,
            talos_cluster: self.talos_cluster,
            members: self.members,
            leader: None,
            term: self.term,
            turns: self.turns,
            store: KubeStore::restore(settings, self.store),
            alarms: self.alarms,
            api_servers: BTreeMap::new(),
        }
    }
}

impl Simulation {
    pub fn save_etcds(&self) -> Vec<SavedCluster> {
        self.look(|talos| talos.etcds.values().map(EtcdCluster::save).collect())
    }

    /// Restores the saved clusters of the nodes that have a membership on their disk.
    pub fn restore_etcds(&self, saved: Vec<SavedCluster>) {
        let (clock, chance) = (self.clock(), self.chance("etcd"));
        let restored = saved.into_iter().map(|saved| saved.restore(clock, &chance));
        let restored: BTreeMap<u64, EtcdCluster> =
            restored.map(|cluster| (cluster.id, cluster)).collect();
        self.change(|talos| talos.etcds.extend(restored));
    }
}

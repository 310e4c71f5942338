//! Real kube-apiserver with its own etcd, in place of the simulated API server.
//!
//! All control planes of an etcd cluster share one kube-apiserver process and one etcd process. Membership, leadership and
//! quorum are still simulated: without quorum, connections are closed. Controllers, nodes and pods are simulated as well. They
//! work on the store of the lab, which is synchronized with the API server.

#[cfg(test)]
mod answer_tests;
mod client;
#[cfg(test)]
mod invalid_requests;
mod merge_patch;
mod namespace;
mod object_kind;
mod process;
mod synced_object;
mod synchronizer;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use process::RealCluster;
pub(crate) use synchronizer::synchronize;

use super::config::Facts;

/// Paths of the real kube-apiserver and etcd programs.
#[derive(Clone, Debug)]
pub struct RealKubernetes {
    pub apiserver: PathBuf,
    pub etcd: PathBuf,
}

/// Running processes, by the id of the etcd cluster.
#[derive(Debug, Default)]
pub(crate) struct RealClusters(Mutex<BTreeMap<u64, Arc<RealCluster>>>);

impl RealClusters {
    /// Processes of a cluster. The processes are started if they do not run yet. Their certificate contains these names.
    pub(crate) fn of(
        &self,
        programs: &RealKubernetes,
        cluster: u64,
        facts: &Facts,
        names: &BTreeSet<String>,
    ) -> Result<Arc<RealCluster>, String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&cluster) {
            known.add_names(names)?;
            return Ok(Arc::clone(known));
        }
        let started = Arc::new(RealCluster::start(programs, facts, names)?);
        all.insert(cluster, Arc::clone(&started));
        Ok(started)
    }

    /// Processes of a cluster, if they run.
    pub(crate) fn get(&self, cluster: u64) -> Option<Arc<RealCluster>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&cluster).cloned()
    }

    /// Stops all processes, because they must not outlive the lab.
    pub(crate) fn stop(&self) {
        for cluster in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            cluster.stop();
        }
    }
}

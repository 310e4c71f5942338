//! A real kube-apiserver, with an etcd of its own, in the place of the simulated one.
//!
//! One pair of processes stands behind all control planes of an etcd cluster. Who is a member, who
//! leads and whether there is a quorum is still simulated: while there is none, nobody is let
//! through. Controllers, nodes and their pods are simulated too: the lab's store has what they work on,
//! and a bridge keeps it and the API server the same.

#[cfg(test)]
mod answers;
mod bridge;
mod client;
mod difference;
mod kind;
#[cfg(test)]
mod mistakes;
mod namespace;
mod pair;
mod process;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use bridge::tell;
pub(crate) use process::RealCluster;

use super::config::Facts;

/// The programs to run.
#[derive(Clone, Debug)]
pub struct RealKubernetes {
    pub apiserver: PathBuf,
    pub etcd: PathBuf,
}

/// What runs of them, by the id of the etcd cluster.
#[derive(Debug, Default)]
pub(crate) struct RealClusters(Mutex<BTreeMap<u64, Arc<RealCluster>>>);

impl RealClusters {
    /// The processes of a cluster, which answer to these names; started if they do not run yet.
    pub(crate) fn of(
        &self,
        programs: &RealKubernetes,
        cluster: u64,
        facts: &Facts,
        names: &BTreeSet<String>,
    ) -> Result<Arc<RealCluster>, String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&cluster) {
            known.answer_to(names)?;
            return Ok(Arc::clone(known));
        }
        let started = Arc::new(RealCluster::start(programs, facts, names)?);
        all.insert(cluster, Arc::clone(&started));
        Ok(started)
    }

    /// The processes of a cluster, if they run.
    pub(crate) fn get(&self, cluster: u64) -> Option<Arc<RealCluster>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&cluster).cloned()
    }

    /// Ends all of them: they must not outlive the lab, whoever still knows them.
    pub(crate) fn stop(&self) {
        for cluster in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            cluster.stop();
        }
    }
}

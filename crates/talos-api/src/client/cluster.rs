//! Cluster health check that a node performs.

use std::time::Duration;

use super::{Answers, Client};
use crate::error::TalosError;
use crate::proto::cluster::{ClusterInfo, HealthCheckProgress, HealthCheckRequest};

/// Progress messages of the health check. If the check fails, the stream ends with an error.
#[derive(Debug)]
pub struct HealthProgress(Answers<HealthCheckProgress>);

impl Client {
    /// Starts the health check on a control plane. The request always lists the nodes, because without discovery Talos
    /// cannot list them.
    pub async fn health_check(
        &self,
        control_planes: &[String],
        workers: &[String],
        wait: Duration,
    ) -> Result<HealthProgress, TalosError> {
        let request = HealthCheckRequest {
            wait_timeout: prost_types::Duration::try_from(wait).ok(),
            cluster_info: Some(ClusterInfo {
                control_plane_nodes: control_planes.to_vec(),
                worker_nodes: workers.to_vec(),
                force_endpoint: String::new(),
            }),
        };
        let mut cluster = self.cluster();
        let answer = cluster.health_check(request);
        Ok(HealthProgress(self.stream("HealthCheck", answer).await?))
    }
}

impl HealthProgress {
    pub async fn next(&mut self) -> Result<Option<String>, TalosError> {
        Ok(self.0.next().await?.map(|progress| progress.message))
    }
}

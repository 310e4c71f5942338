//! Phases of nodes: boot to maintenance mode, application of the config, and running cluster.

use std::time::{Duration, Instant};

use talmox_clock::Clock;
use talmox_talos_api::Client;
use talmox_talos_api::client::ResourceKind;
use tokio::task::JoinSet;

use crate::cluster::{self, Cluster};
use crate::fleet::Fleet;

const POLL_INTERVAL: Duration = Duration::from_millis(100);
pub(crate) const TIMEOUT: Duration = Duration::from_mins(10);

/// Starts nodes, and returns the time until the last of them is in maintenance mode.
pub(crate) async fn boot(fleet: &Fleet, cluster: &Cluster, numbers: &[u8]) -> Duration {
    let mut booting = JoinSet::new();
    let started = Instant::now();
    for &number in numbers {
        let (fleet, client) = (fleet.clone(), cluster.maintenance(number));
        booting.spawn(async move {
            fleet.start(number).await;
            until("maintenance mode", || async {
                let status = client.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()??;
                (status.text("stage")? == "maintenance").then_some(())
            })
            .await;
        });
    }
    booting.join_all().await;
    started.elapsed()
}

/// Applies the config to all nodes at the same time, and returns the time until the last node has its config.
pub(crate) async fn apply(cluster: &Cluster, numbers: &[u8]) -> Duration {
    let ready = numbers.iter().map(|&number| {
        (cluster.maintenance(number), cluster.client(number), cluster.config(number))
    });
    let ready: Vec<_> = ready.collect();
    let mut applying = JoinSet::new();
    let started = Instant::now();
    for (client, known, config) in ready {
        applying.spawn(async move { cluster::apply(&client, &known, &config).await });
    }
    applying.join_all().await;
    started.elapsed()
}

/// Bootstraps a cluster of configured nodes, and waits until all of them run.
pub(crate) async fn run_all(cluster: &Cluster, numbers: &[u8]) -> Vec<Client> {
    let first = cluster.client(numbers[0]);
    until("bootstrap", || async { first.bootstrap().await.ok() }).await;
    await_running(cluster, numbers).await
}

/// Waits until all nodes run. Each client has one connection.
pub(crate) async fn await_running(cluster: &Cluster, numbers: &[u8]) -> Vec<Client> {
    let clients: Vec<Client> = numbers.iter().map(|&number| cluster.client(number)).collect();
    let mut waiting = JoinSet::new();
    for client in clients.clone() {
        waiting.spawn(async move {
            until("the node to run", || async {
                let status = client.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()??;
                let is_ready = status.text("status.ready")? == "true";
                (is_ready && status.text("stage")? == "running").then_some(())
            })
            .await;
        });
    }
    waiting.join_all().await;
    clients
}

/// Polls until `look` returns a value.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(started.elapsed() < TIMEOUT, "timed out waiting for {what}");
        Clock::real().sleep(POLL_INTERVAL).await;
    }
}

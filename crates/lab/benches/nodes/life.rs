//! The life of nodes: from power on to maintenance, to a config, to a cluster that runs.

use std::time::{Duration, Instant};

use talmox_clock::Clock;
use talmox_talos_api::Client;
use talmox_talos_api::client::ResourceKind;
use tokio::task::JoinSet;

use crate::cluster::{self, Cluster};
use crate::fleet::Fleet;

const LOOK_AGAIN: Duration = Duration::from_millis(100);
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);

/// Starts nodes; how long it takes until the last of them is in maintenance.
pub(crate) async fn boot(fleet: &Fleet, cluster: &Cluster, numbers: &[u8]) -> Duration {
    let mut booting = JoinSet::new();
    let begun = Instant::now();
    for &number in numbers {
        let (fleet, client) = (fleet.clone(), cluster.maintenance(number));
        booting.spawn(async move {
            fleet.start(number).await;
            until("maintenance", || async {
                let status = client.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()??;
                (status.text("stage")? == "maintenance").then_some(())
            })
            .await;
        });
    }
    booting.join_all().await;
    begun.elapsed()
}

/// Hands every node its config, all at the same time; how long it takes until the last of them has it.
pub(crate) async fn apply(cluster: &Cluster, numbers: &[u8]) -> Duration {
    let ready = numbers.iter().map(|&number| {
        (cluster.maintenance(number), cluster.client(number), cluster.config(number))
    });
    let ready: Vec<_> = ready.collect();
    let mut applying = JoinSet::new();
    let begun = Instant::now();
    for (client, known, config) in ready {
        applying.spawn(async move { cluster::apply(&client, &known, &config).await });
    }
    applying.join_all().await;
    begun.elapsed()
}

/// Makes a cluster of nodes that have their configs, and waits until all of it runs.
pub(crate) async fn run_all(cluster: &Cluster, numbers: &[u8]) -> Vec<Client> {
    let first = cluster.client(numbers[0]);
    until("bootstrap", || async { first.bootstrap().await.ok() }).await;
    await_running(cluster, numbers).await
}

/// Waits until all nodes run, each by one connection.
pub(crate) async fn await_running(cluster: &Cluster, numbers: &[u8]) -> Vec<Client> {
    let clients: Vec<Client> = numbers.iter().map(|&number| cluster.client(number)).collect();
    let mut waiting = JoinSet::new();
    for client in clients.clone() {
        waiting.spawn(async move {
            until("a node that runs", || async {
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

/// Looks again and again.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "no {what}");
        Clock::real().sleep(LOOK_AGAIN).await;
    }
}

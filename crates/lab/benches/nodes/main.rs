//! Benchmark of the lab and the Talos client with many nodes. It measures memory per node, boot time, health checks, and the
//! application of configs to all nodes. The lab runs in a process of its own, so that the memory of client and lab can be
//! measured separately. The benchmark prints a table. With `--check`, it fails if a limit is exceeded. `--nodes N` sets the
//! number of nodes, which is 200 by default.
#![expect(clippy::print_stdout, reason = "a bench prints its results")]
#![expect(clippy::unwrap_used, reason = "a panic fails the bench")]
#![expect(clippy::disallowed_methods, reason = "real sockets take real time")]

mod client_memory;
mod cluster;
mod fleet;
mod kube;
mod lab_process;
mod phase;

use std::time::{Duration, Instant};

use cluster::Cluster;
use fleet::Fleet;
use kube::Kube;
use lab_process::LabProcess;
use phase::{apply, await_running, boot, run_all, until};
use talmox_clock::Clock;
use talmox_talos_api::Reach;
use talmox_talos_api::health::{ClusterHealth, HealthSettings, Subject, look};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const NODES: u8 = 200;
/// Number of nodes in the small cluster of a comparison.
const FEW: usize = 5;
const PLANES: u8 = 3;
const ROUNDS: usize = 9;
/// Speed of lab time relative to real time. It is low enough for two cores to simulate all nodes.
const SPEED: f64 = 20.0;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--serve") {
        lab_process::serve(args[at + 1].as_ref(), args[at + 2].parse().unwrap());
        return;
    }
    if args.iter().any(|arg| arg == "--measure-memory") {
        client_memory::measure();
        return;
    }
    let nodes = args.iter().position(|arg| arg == "--nodes");
    let nodes = nodes.map_or(NODES, |at| args[at + 1].parse().unwrap());
    let missed = measure(nodes);
    assert!(missed == 0 || !args.iter().any(|arg| arg == "--check"), "{missed} missed");
}

/// Printed table, with the number of exceeded limits.
struct Table {
    missed: usize,
}

impl Table {
    fn row(&mut self, what: &str, this: f64, against: f64, most: Option<f64>) {
        let ratio = this / against;
        let verdict = most.map_or_else(String::new, |most| {
            let is_met = ratio <= most;
            self.missed += usize::from(!is_met);
            format!("at most {most:.2}: {}", if is_met { "ok" } else { "MISSED" })
        });
        println!("{what:<52} {this:>10.2} {against:>10.2} {ratio:>8.2}  {verdict}");
    }
}

/// Prints the table, and returns the number of exceeded limits.
fn measure(count: u8) -> usize {
    let runtime = Runtime::new().unwrap();
    let lab = LabProcess::start(SPEED);
    let mut cluster = Cluster::new(lab.ready().reach.clone(), PLANES);
    let numbers: Vec<u8> = (1..=count).collect();
    let mut table = Table { missed: 0 };
    println!("{:<52} {:>10} {:>10} {:>8}  bar", "", "this", "against", "ratio");

    let fleet = Fleet::new(lab.ready());
    let empty = lab.resident();
    runtime.block_on(fleet.make(&numbers));
    let (few, rest) = numbers.split_at(FEW);
    let (some, others) = (few.len(), rest.len());
    let booted_few = seconds(runtime.block_on(boot(&fleet, &cluster, few)));
    let booted_rest = seconds(runtime.block_on(boot(&fleet, &cluster, rest)));
    let what = format!("boot of {others} nodes, against {some}, s of lab time");
    table.row(&what, booted_rest * SPEED, booted_few * SPEED, Some(2.0));

    // Every node takes seconds to apply its config. The processing time of the client is short in comparison.
    let applied_few = seconds(runtime.block_on(apply(&cluster, few)));
    let applied_rest = seconds(runtime.block_on(apply(&cluster, rest)));
    let what = format!("config of {others} nodes, against {some}, seconds");
    table.row(&what, applied_rest, applied_few, Some(2.0));

    let clients = runtime.block_on(run_all(&cluster, &numbers));
    let per_node = megabytes(lab.resident() - empty) / f64::from(count);
    table.row("MB of memory per node, lab", per_node, 5.0, Some(1.0));
    drop(clients);

    // From here on, the nodes take as long as real machines. With instant nodes, the benchmark would measure only the
    // processors of this machine.
    let lab = lab.restart(1.0);
    cluster.settings.reach = Reach::new(lab.ready().reach.clone());
    let fleet = Fleet::new(lab.ready());
    runtime.block_on(async {
        let mut starting = JoinSet::new();
        for &number in &numbers {
            let fleet = fleet.clone();
            starting.spawn(async move { fleet.start(number).await });
        }
        starting.join_all().await;
        await_running(&cluster, &numbers).await;
    });
    let few = cluster.subjects(&numbers[..FEW]);
    let names: Vec<String> = few.iter().map(|subject| subject.name.clone()).collect();
    let few = runtime.block_on(measure_health(&cluster, &few, &names));
    let all = runtime.block_on(measure_health(&cluster, &cluster.subjects(&numbers), &[]));
    let what = format!("health of {count} nodes, against {FEW}, ms, median of {ROUNDS}");
    table.row(&what, all, few, Some(10.0));
    let grown = client_memory::connected(&cluster, &lab.ready().reach, count);
    let per_node = megabytes(grown) * 1000.0 / f64::from(count);
    table.row("kB of memory per connected node, client", per_node, 300.0, Some(1.0));
    table.missed
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn megabytes(kibibytes: f64) -> f64 {
    kibibytes * 1024.0 / 1e6
}

/// Median time in milliseconds of a health check over open connections. All nodes must be healthy. `only` limits the check to
/// some Kubernetes nodes.
async fn measure_health(cluster: &Cluster, subjects: &[Subject], only: &[String]) -> f64 {
    until("the cluster to be healthy", || async {
        let mut health = ClusterHealth::new(Clock::real(), HealthSettings { has_cni: true });
        let view = Kube::connect(cluster).await?.view(only).await?;
        health.update(&look(subjects).await, Some(&view));
        health.is_healthy().then_some(())
    })
    .await;
    let mut health = ClusterHealth::new(Clock::real(), HealthSettings { has_cni: true });
    let mut kube = Kube::connect(cluster).await.unwrap();
    let mut times = vec![];
    for _ in 0..=ROUNDS {
        let started = Instant::now();
        let (views, view) = tokio::join!(look(subjects), kube.view(only));
        health.update(&views, Some(&view.unwrap()));
        times.push(seconds(started.elapsed()) * 1000.0);
    }
    assert!(health.is_healthy(), "{:?}", health.waits_for());
    // The first check is omitted, because it opens the connections.
    times.remove(0);
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

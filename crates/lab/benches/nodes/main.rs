//! How the lab and the Talos client do with many nodes: what a node costs, how long all take to boot, what a look at the
//! health of all costs, and a config for all. The lab runs in a process of its own, so that both sides can be weighed.
//! Prints a table; with `--check` it fails where a bar is missed. `--nodes N` takes another number than 200.
#![expect(clippy::print_stdout, reason = "a bench prints its results")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot run has failed")]
#![expect(clippy::disallowed_methods, reason = "real sockets take real time")]

mod cluster;
mod fleet;
mod served;

use std::time::{Duration, Instant};

use cluster::Cluster;
use fleet::Fleet;
use served::{Served, resident};
use talmox_clock::Clock;
use talmox_talos_api::Client;
use talmox_talos_api::client::ResourceKind;
use talmox_talos_api::health::{Health, Settings, Subject, look};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const NODES: u8 = 200;
/// How many of them a small cluster has.
const FEW: usize = 5;
const PLANES: u8 = 3;
const ROUNDS: usize = 9;
/// How much faster the lab's time passes than ours: two cores have to keep up with all nodes.
const SPEED: f64 = 20.0;
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_mins(10);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--serve") {
        served::serve(args[at + 1].as_ref(), SPEED);
        return;
    }
    let nodes = args.iter().position(|arg| arg == "--nodes");
    let nodes = nodes.map_or(NODES, |at| args[at + 1].parse().unwrap());
    let missed = measure(nodes);
    assert!(missed == 0 || !args.iter().any(|arg| arg == "--check"), "{missed} missed");
}

/// Rows as they come, and how many bars were missed.
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

/// Prints the table and gives the number of bars that were missed.
fn measure(count: u8) -> usize {
    let runtime = Runtime::new().unwrap();
    let lab = Served::start();
    let cluster = Cluster::new(lab.ready().reach.clone(), PLANES);
    let numbers: Vec<u8> = (1..=count).collect();
    let mut table = Table { missed: 0 };
    println!("{:<52} {:>10} {:>10} {:>8}  bar", "", "this", "against", "ratio");

    let fleet = Fleet::new(&lab);
    let own_before = resident("self").unwrap();
    let empty = lab.resident();
    runtime.block_on(fleet.make(&numbers));
    let few = runtime.block_on(boot(&fleet, &cluster, &numbers[..FEW]));
    let rest = runtime.block_on(boot(&fleet, &cluster, &numbers[FEW..]));
    let what = format!("boot, lab's seconds: slowest of {}, and {FEW}", numbers.len() - FEW);
    table.row(&what, rest * SPEED, few * SPEED, Some(2.0));

    let applied = runtime.block_on(apply(&cluster, &numbers));
    let what = "a config for all, ms: together, and the slowest";
    table.row(what, millis(applied.together), millis(applied.slowest), Some(1.25));
    table.row(
        "the same, and one after another",
        millis(applied.together),
        millis(applied.sum),
        None,
    );

    let clients = runtime.block_on(run_all(&cluster, &numbers));
    let per_node = (lab.resident() - empty) / f64::from(count) / 1024.0;
    table.row("MiB of memory per node, lab", per_node, 5.0, Some(1.0));
    drop(clients);

    health(&runtime, &cluster, &numbers, &mut table);
    let with_all = resident("self").unwrap() - own_before;
    println!("{:<52} {:>10.2}", "MiB that the client has grown by, all in all", with_all / 1024.0);
    table.missed
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Starts nodes; how many real seconds the slowest took from power on to maintenance.
async fn boot(fleet: &Fleet, cluster: &Cluster, numbers: &[u8]) -> f64 {
    let mut booting = JoinSet::new();
    for &number in numbers {
        let (fleet, client) = (fleet.clone(), cluster.maintenance(number));
        booting.spawn(async move {
            fleet.start(number).await;
            let begun = Instant::now();
            until("maintenance", || async {
                let status = client.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()??;
                (status.text("stage")? == "maintenance").then_some(())
            })
            .await;
            begun.elapsed().as_secs_f64()
        });
    }
    booting.join_all().await.into_iter().fold(0.0, f64::max)
}

struct Times {
    together: Duration,
    slowest: Duration,
    sum: Duration,
}

/// Hands every node its config, all at the same time.
async fn apply(cluster: &Cluster, numbers: &[u8]) -> Times {
    let ready = numbers.iter().map(|&number| {
        (cluster.maintenance(number), cluster.client(number), cluster.config(number))
    });
    let ready: Vec<_> = ready.collect();
    let mut applying = JoinSet::new();
    let begun = Instant::now();
    for (client, known, config) in ready {
        applying.spawn(async move {
            let begun = Instant::now();
            cluster::apply(&client, &known, &config).await;
            begun.elapsed()
        });
    }
    let took = applying.join_all().await;
    let together = begun.elapsed();
    Times { together, slowest: took.iter().max().copied().unwrap(), sum: took.iter().sum() }
}

/// Makes a cluster of nodes that have their configs, and waits until all of it runs.
async fn run_all(cluster: &Cluster, numbers: &[u8]) -> Vec<Client> {
    let clients: Vec<Client> = numbers.iter().map(|&number| cluster.client(number)).collect();
    until("bootstrap", || async { clients[0].bootstrap().await.ok() }).await;
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

/// Looks at few and at all: when they have to be connected to, and when they are.
fn health(runtime: &Runtime, cluster: &Cluster, numbers: &[u8], table: &mut Table) {
    let few = cluster.subjects(&numbers[..FEW]);
    let (few_first, few_next) = runtime.block_on(look_often(cluster, &few));
    let before = resident("self").unwrap();
    let all = cluster.subjects(numbers);
    let (all_first, all_next) = runtime.block_on(look_often(cluster, &all));
    let grown = resident("self").unwrap() - before;
    let (count, few_count) = (numbers.len(), FEW);
    table.row(&format!("health, ms: of {count}, and {few_count}"), all_next, few_next, Some(10.0));
    table.row("the same, with connecting", all_first, few_first, None);
    let per_node = grown / f64::from(u32::try_from(count).unwrap());
    table.row("KiB of memory per connected node, client", per_node, 300.0, Some(1.0));
}

/// Milliseconds of the first look and, by the median, of the next ones. All must be well.
async fn look_often(cluster: &Cluster, subjects: &[Subject]) -> (f64, f64) {
    let mut health = Health::new(Clock::real(), Settings { has_cni: true });
    let mut times = vec![];
    for _ in 0..=ROUNDS {
        let begun = Instant::now();
        let views = look(subjects).await;
        health.update(&views, Some(&cluster.kube_view(&views)));
        times.push(millis(begun.elapsed()));
    }
    assert!(health.is_healthy(), "{:?}", health.waits_for());
    let first = times.remove(0);
    times.sort_by(f64::total_cmp);
    (first, times[ROUNDS / 2])
}

/// Looks again and again.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "no {what}");
        Clock::real().sleep(LOOK_AGAIN).await;
    }
}

//! Test of two hundred nodes in one process. All nodes boot concurrently, apply their configs and form one cluster. The memory
//! per node must be small.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
#![expect(clippy::disallowed_methods, reason = "what is shared with the bench takes the time")]

#[path = "../benches/nodes/cluster.rs"]
mod cluster;
#[path = "../benches/nodes/fleet.rs"]
mod fleet;
#[path = "../benches/nodes/kube.rs"]
mod kube;
#[path = "../benches/nodes/phase.rs"]
mod phase;

use cluster::Cluster;
use fleet::Fleet;
use kube::Kube;
use talmox_clock::Clock;
use talmox_lab::pve::Profile;
use talmox_lab::{Lab, Settings};
use talmox_talos_api::health::{self, ClusterHealth, look};
use talmox_talos_config::schematic::Schematic;

const NODES: u8 = 200;
const PLANES: u8 = 3;
/// Maximum memory per node in MB, including the memory of its client.
const MB_PER_NODE: f64 = 5.0;
/// Speed of lab time. It is so low that a boot consists mostly of waiting, even if other processes use most of the cores.
const SPEED: f64 = 10.0;
/// Maximum duration of all boots, relative to a single boot. Sequential boots would take 200 times as long. About twice as long
/// was measured, and the rest is margin for machines that are ten times slower.
const MAX_BOOT_RATIO: f64 = 20.0;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_nodes_run_in_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let schematic = Schematic::default();
    let known = folder.path().join("schematics");
    std::fs::create_dir_all(&known).unwrap();
    let file = known.join(format!("{}.yaml", schematic.id()));
    std::fs::write(file, schematic.to_yaml()).unwrap();
    let state = Some(folder.path().to_owned());
    let settings = Settings {
        profile: Profile::Homelab,
        is_even: true,
        speed: SPEED,
        state,
        ..Settings::default()
    };
    let lab = Lab::start(settings).unwrap();
    let before = resident();

    let ready = lab.ready();
    let cluster = Cluster::new(ready.reach.clone(), PLANES);
    let numbers: Vec<u8> = (1..=NODES).collect();
    let fleet = Fleet::new(&ready);
    fleet.make(&numbers).await;
    let one = SPEED * phase::boot(&fleet, &cluster, &numbers[..1]).await.as_secs_f64();
    let all = SPEED * phase::boot(&fleet, &cluster, &numbers[1..]).await.as_secs_f64();
    assert!(
        all < one * MAX_BOOT_RATIO,
        "one boots in {one:.1} s of the lab's time, all in {all:.1} s"
    );
    phase::apply(&cluster, &numbers).await;
    let clients = phase::run_all(&cluster, &numbers).await;

    let subjects = cluster.subjects(&numbers);
    phase::until("the cluster to be healthy", || async {
        let mut health =
            ClusterHealth::new(Clock::real(), health::HealthSettings { has_cni: true });
        let views = look(&subjects).await;
        let view = Kube::connect(&cluster).await?.view(&[]).await?;
        health.update(&views, Some(&view));
        // A DaemonSet without a status counts as healthy, so the number of its pods is checked as well.
        let is_everywhere = view.kube_proxy?.desired == u32::from(NODES);
        (health.is_healthy() && is_everywhere).then_some(())
    })
    .await;
    let each = (resident() - before) * 1024.0 / 1e6 / f64::from(NODES);
    assert!(each < MB_PER_NODE, "{each:.2} MB for each node");
    drop(clients);
    lab.stop().await.unwrap();
}

/// Resident memory of this process in KiB.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

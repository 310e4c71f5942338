//! Time to render 7, 100 and 1,000 nodes with one secrets bundle, on one core. The time must grow linearly: 1,000 nodes take
//! at most 12 times as long as 100 nodes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use talmox_model::Inventory;
use talmox_model::load::{ClusterFiles, File, Parsed};
use talmox_plan::desired::{Inputs, Phase, Renderer};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets;
use talmox_talos_config::time::UnixTime;

const CLUSTER: &str = "\
talos_version: v1.12.4
network: {subnet: 10.0.0.0/8, gateway: 10.0.0.1, vip: 10.0.0.2, pod_cidr: 172.16.0.0/16, svc_cidr: 172.20.0.0/16, cni: none}
proxmox: {endpoint: https://pve:8006, token: {env: TOKEN}, node: pve}
image: {extensions: [siderolabs/qemu-guest-agent]}
patches:
  all: [{machine: {sysctls: {vm.max_map_count: '262144'}}}]
  workers: [{machine: {kernel: {modules: [{name: nbd}]}}}]
controlplane:
";

/// An inventory with three control planes. All other nodes are workers.
fn inventory(count: usize) -> Inventory {
    let mut text = CLUSTER.to_owned();
    for index in 0..count {
        if index == 3 {
            text.push_str("workers:\n");
        }
        let (high, low) = (index / 250, index % 250 + 3);
        writeln!(
            text,
            "  - {{name: node-{index}, ip: 10.1.{high}.{low}, labels: {{rack: r{high}}}}}"
        )
        .expect("writing to a string");
    }
    let file = File { path: PathBuf::from("cluster.yaml"), content: Ok(text.into_bytes()) };
    let files = ClusterFiles {
        default_name: "bench".to_owned(),
        cluster: Some(file),
        ..ClusterFiles::default()
    };
    let inventory = Parsed::new(vec![files]).check(&BTreeMap::new());
    assert!(inventory.diagnostics.is_empty(), "{:?}", inventory.diagnostics.first());
    inventory
}

fn render(criterion: &mut Criterion) {
    let now = UnixTime::from_seconds(1_700_000_000);
    let bundle = secrets::generate(now, &mut SystemRandomness::new()).expect("a bundle");
    let mut group = criterion.benchmark_group("render");
    group.sample_size(20);
    for count in [7, 100, 1000] {
        let inventory = inventory(count);
        let inputs = Inputs {
            cluster: &inventory.clusters[0],
            bundle: &bundle,
            secrets: &BTreeMap::new(),
            files: &BTreeMap::new(),
            phase: Phase::Final,
        };
        group.throughput(Throughput::Elements(count as u64));
        group.bench_with_input(BenchmarkId::from_parameter(count), &inputs, |bencher, inputs| {
            bencher.iter(|| {
                let renderer = Renderer::new(inputs).expect("a renderer");
                for node in &inputs.cluster.nodes {
                    std::hint::black_box(renderer.node(node).expect("a config"));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, render);
criterion_main!(benches);

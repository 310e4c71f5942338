//! Loading and checking of inventories with 7, 100 and 2,000 nodes. The time must grow linearly: 2,000 nodes may take
//! at most 25 times as long as 100 nodes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hint::black_box;
use std::path::PathBuf;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use talmox_model::load::{ClusterFiles, File, Parsed};

const CLUSTER: &str = "\
cluster_name: bench
talos_version: v1.11.2
network: {subnet: 10.0.0.0/8, gateway: 10.0.0.1, vip: 10.0.0.2, pod_cidr: 172.16.0.0/16, svc_cidr: 172.20.0.0/16}
proxmox: {endpoint: https://pve:8006, token: {env: TOKEN}, node: pve}
image: {extensions: [siderolabs/qemu-guest-agent]}
classes:
  gpu: {image: {extensions: [siderolabs/tailscale]}, patches: [{machine: {sysctls: {a: b}}}]}
";

/// Three control planes and `count - 3` workers. Each node has its own settings.
fn nodes(count: usize) -> String {
    let mut text = String::from("controlplane:\n");
    for index in 0..count {
        if index == 3 {
            text.push_str("workers:\n");
        }
        let (high, low) = (index / 250, index % 250 + 3);
        writeln!(
            text,
            "  - {{name: node-{index}, ip: 10.1.{high}.{low}, vmid: {}, cpu: 4, ram: 8192, disk: 60G, class: gpu, labels: {{rack: r{high}}}}}",
            1000 + index
        )
        .expect("writing to a string");
    }
    text
}

fn load(count: usize) -> Vec<ClusterFiles> {
    let file = |path: &str, text: &str| {
        Some(File { path: PathBuf::from(path), content: Ok(text.as_bytes().to_vec()) })
    };
    vec![ClusterFiles {
        default_name: "bench".to_owned(),
        cluster: file("cluster.yaml", CLUSTER),
        nodes: file("nodes.yaml", &nodes(count)),
        ..ClusterFiles::default()
    }]
}

fn load_and_check(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("load_and_check");
    for count in [7, 100, 2000] {
        let files = load(count);
        let inventory = Parsed::new(files.clone()).check(&BTreeMap::new());
        assert!(inventory.diagnostics.is_empty(), "{:?}", inventory.diagnostics.first());
        assert_eq!(inventory.clusters[0].nodes.len(), count);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_with_input(BenchmarkId::from_parameter(count), &files, |bencher, files| {
            // The result is dropped outside the measurement, because freeing its memory is not measured.
            bencher.iter_with_large_drop(|| {
                Parsed::new(black_box(files.clone())).check(&BTreeMap::new())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, load_and_check);
criterion_main!(benches);

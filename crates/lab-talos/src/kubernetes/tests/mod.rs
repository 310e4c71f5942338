//! Tests of Kubernetes with a few nodes.

mod client;
mod cluster;
mod fault;
mod server;
mod virtual_ip;

use talmox_talos_config::generate::Role;

use crate::config::{AppliedConfig, Facts};
use crate::etcd;
use crate::test_bench::Bench;
use std::sync::Arc;

/// Bench with this many control planes and a bootstrapped cluster. The vmids start at 11.
async fn control_planes(count: u32, change: impl Fn(&mut Facts)) -> Bench {
    let bench = Bench::new();
    let boot = bench.start(11, bench.config(&bench.bundle, Role::ControlPlane, &change));
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    for vmid in 12..11 + count {
        bench.start(vmid, bench.config(&bench.bundle, Role::ControlPlane, &change));
    }
    for vmid in 11..11 + count {
        bench.until_healthy(vmid, "etcd").await;
    }
    bench
        .until("API servers", |talos| {
            let cluster = talos.etcds.values().next()?;
            (cluster.api_servers.len() == usize::try_from(count).unwrap()).then_some(())
        })
        .await;
    bench
}

/// Applies another config to a running node.
fn apply(bench: &Bench, vmid: u32, config: Arc<AppliedConfig>) {
    let boot = bench.simulation.look(|talos| talos.nodes[&vmid].boot);
    bench.simulation.change_node(vmid, boot, |node| node.config = Some(config));
}

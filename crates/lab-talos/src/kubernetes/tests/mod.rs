//! Kubernetes on a few nodes: how it comes up, what it shows, and what breaks it.

mod client;
mod cluster;
mod fault;
mod server;
mod shared_address;

use talmox_talos_config::generate::Role;

use crate::bench::Bench;
use crate::config::{Applied, Facts};
use crate::etcd;
use std::sync::Arc;

/// As many control planes, numbered from 11, with a cluster that has begun.
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

/// Another config for a node that runs.
fn apply(bench: &Bench, vmid: u32, config: Arc<Applied>) {
    let boot = bench.simulation.look(|talos| talos.nodes[&vmid].boot);
    bench.simulation.change_node(vmid, boot, |node| node.config = Some(config));
}

//! Kubernetes on a few nodes: how it comes up, what it shows, and what breaks it.

mod client;
mod cluster;
mod fault;
mod server;
mod shared_address;

use talmox_talos_config::generate::Role;

use crate::talos::bench::Bench;
use crate::talos::config::{Applied, Facts};
use crate::talos::etcd;
use std::sync::Arc;

/// As many control planes, numbered from 11, with a cluster that has begun.
async fn control_planes(count: u32, change: impl Fn(&mut Facts)) -> Bench {
    let bench = Bench::new();
    let boot = bench.start(11, bench.config(&bench.bundle, Role::ControlPlane, &change));
    etcd::bootstrap(&bench.realm, 11, boot, None).unwrap();
    for vmid in 12..11 + count {
        bench.start(vmid, bench.config(&bench.bundle, Role::ControlPlane, &change));
    }
    for vmid in 11..11 + count {
        bench.until_healthy(vmid, "etcd").await;
    }
    bench
        .until("API servers", |land| {
            let cluster = land.etcds.values().next()?;
            (cluster.api_servers.len() == usize::try_from(count).unwrap()).then_some(())
        })
        .await;
    bench
}

/// Another config for a node that runs.
fn apply(bench: &Bench, vmid: u32, config: Arc<Applied>) {
    let boot = bench.realm.look(|land| land.nodes[&vmid].boot);
    bench.realm.change_node(vmid, boot, |node| node.config = Some(config));
}

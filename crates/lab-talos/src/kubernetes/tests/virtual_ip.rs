use std::net::{IpAddr, Ipv4Addr};

use serde_json::json;
use talmox_talos_config::generate::Role;

use super::client::get;
use super::control_planes;
use crate::config::{Facts, LinkFacts};
use crate::etcd;
use crate::talos_state::{Stage, TalosState};
use crate::test_bench::{Bench, VIP};

fn with_vip(facts: &mut Facts) {
    facts.links.push(LinkFacts { vip: Some(VIP), ..LinkFacts::default() });
}

/// Waits until a node other than `before` holds the virtual IP and serves Kubernetes there.
async fn until_held(bench: &Bench, before: u32) -> u32 {
    let holder = bench
        .until("a holder of the virtual IP", |talos| {
            let mut nodes = talos.nodes.values();
            let holder = nodes.find(|node| node.network.virtual_ips.contains(&VIP))?.vmid;
            let answers = bench.simulation.loopback_network.answering(VIP, 6443).contains(&holder);
            (holder != before && answers).then_some(holder)
        })
        .await;
    assert!(bench.simulation.look(|talos| talos.vips.values().any(|who| *who == holder)));
    let (status, _) = get(bench, VIP, "/version").await.unwrap();
    assert_eq!(status, 200);
    holder
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_ip_exists_with_etcd_and_moves() {
    let bench = Bench::new();
    let config = bench.config(&bench.bundle, Role::ControlPlane, with_vip);
    let boot = bench.start(11, config);
    bench.until_healthy(11, "kubelet").await;
    assert!(bench.simulation.loopback_network.answering(VIP, 6443).is_empty());
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    assert_eq!(until_held(&bench, 0).await, 11);
    for vmid in [12, 13] {
        bench.start(vmid, bench.config(&bench.bundle, Role::ControlPlane, with_vip));
        bench.until_healthy(vmid, "etcd").await;
    }
    let before = bench.simulation.now();
    bench.kill(11);
    let second = until_held(&bench, 11).await;
    let lease = bench.simulation.now().saturating_sub(before);
    assert!(lease.as_secs() >= 55, "the address moved after {lease:?}");
    // A node that shuts down releases the virtual IP at once.
    let boot = bench.simulation.look(|talos| talos.nodes[&second].boot);
    bench.start(11, bench.config(&bench.bundle, Role::ControlPlane, with_vip));
    bench.until_healthy(11, "etcd").await;
    bench.simulation.set_stage(second, boot, Stage::ShuttingDown);
    until_held(&bench, second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kube_vip_address_exists_with_its_pods() {
    let bench = control_planes(1, |_| {}).await;
    assert!(bench.simulation.loopback_network.answering(VIP, 6443).is_empty());
    let container = json!({
        "name": "kube-vip",
        "image": "ghcr.io/kube-vip/kube-vip:v1.0.0",
        "args": ["manager"],
        "env": [{"name": "address", "value": VIP.to_string()}],
    });
    let labels = json!({"name": "kube-vip"});
    let set = json!({
        "metadata": {"name": "kube-vip", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [container],
                    "hostNetwork": true,
                    "tolerations": [{"operator": "Exists"}],
                },
            },
        },
    });
    let store = bench.store_of(11);
    store.create("daemonsets.apps", set).unwrap();
    assert_eq!(until_held(&bench, 0).await, 11);
    store.delete("daemonsets.apps", "kube-system", "kube-vip").unwrap();
    bench
        .until("the address to be released", |talos| {
            (talos.vips.is_empty()
                && bench.simulation.loopback_network.answering(VIP, 6443).is_empty())
            .then_some(())
        })
        .await;
}

/// vmids of the nodes that hold the virtual IP.
fn holders(talos: &TalosState) -> Vec<u32> {
    let nodes = talos.nodes.values().filter(|node| node.network.virtual_ips.contains(&VIP));
    nodes.map(|node| node.vmid).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_off_holder_loses_the_address_after_its_lease() {
    let bench = control_planes(3, with_vip).await;
    let first = until_held(&bench, 0).await;
    let before = bench.simulation.now();
    bench.simulation.change(|talos| talos.add_partition(vec![vec![first.to_string()]]));
    let second = bench
        .until("the address to move", |talos| match holders(talos).as_slice() {
            [holder] if *holder != first => {
                let answering = bench.simulation.loopback_network.answering(VIP, 6443);
                (answering == [*holder]).then_some(*holder)
            }
            _ => None,
        })
        .await;
    let lease = bench.simulation.now().saturating_sub(before);
    assert!(lease.as_secs() >= 55, "the address moved after {lease:?}");
    assert_eq!(get(&bench, VIP, "/version").await.unwrap().0, 200);
    bench.simulation.change(|talos| talos.partitions.clear());
    bench.until_healthy(first, "etcd").await;
    assert_eq!(bench.simulation.look(holders), [second]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_virtual_ips_move_when_their_holder_stops() {
    const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 101));
    let bench = control_planes(3, |facts| {
        with_vip(facts);
        facts.links.push(LinkFacts { vip: Some(SECOND), ..LinkFacts::default() });
    })
    .await;
    let first = until_held(&bench, 0).await;
    let other = |talos: &TalosState, address: IpAddr, except: u32| {
        let mut nodes = talos.nodes.values();
        let holder = nodes.find(|node| node.network.virtual_ips.contains(&address))?.vmid;
        (holder != except).then_some(holder)
    };
    bench.until("the second address", |talos| other(talos, SECOND, 0)).await;
    bench.kill(first);
    until_held(&bench, first).await;
    bench.until("the second address", |talos| other(talos, SECOND, first)).await;
    assert_eq!(get(&bench, SECOND, "/version").await.unwrap().0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_cluster_takes_the_virtual_ip_of_a_lost_one_at_once() {
    // At the speed of real time, a lease lasts longer than any wait of this test.
    let bench = Bench::at_speed(1.0);
    for _ in 0..2 {
        let boot = bench.start(11, bench.config(&bench.bundle, Role::ControlPlane, with_vip));
        etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
        until_held(&bench, 0).await;
        bench.kill(11);
        bench.wipe(11);
    }
}

//! Changes of machine configs of a running cluster.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_engine::event::Event;
use talmox_plan::desired::Contact;
use talmox_plan::planning::Scope;
use talmox_talos_api::client::{Resource, ResourceKind};

use super::inventory::{self, HEAD, PAIR, home, impatient, impatiently, pair};
use super::rig::{Ran, Rig, Yard};

/// The inventory with a patch for all nodes.
fn patched(text: &str, patch: &str) -> String {
    format!("{text}patches: {{all: [{patch}]}}\n")
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The config in use of a node, and the config on its disk if it was saved since the node booted.
async fn configs(rig: &Rig, at: IpAddr) -> BTreeMap<String, String> {
    let found = rig.talos(at).list(ResourceKind::MACHINE_CONFIG).await.unwrap();
    let text = |config: &Resource| config.config_text().expose().to_owned();
    found.iter().map(|config| (config.id.clone(), text(config))).collect()
}

/// The boot ID of each node.
async fn boots(rig: &Rig, text: &str) -> BTreeMap<String, String> {
    let mut boots = BTreeMap::new();
    for node in &rig.desired(text).nodes {
        let Contact::At(at) = node.contact else { panic!("{}", node.name) };
        boots.insert(node.name.clone(), rig.talos(at).boot_id().await.unwrap());
    }
    boots
}

/// Checks that all configs of each node contain this setting.
async fn assert_in_configs(rig: &Rig, text: &str, setting: &str) {
    for node in &rig.desired(text).nodes {
        let Contact::At(at) = node.contact else { panic!("{}", node.name) };
        for config in configs(rig, at).await.into_values() {
            assert!(config.contains(setting), "{}\n{config}", node.name);
        }
    }
}

async fn assert_schedulable(rig: &Rig, text: &str) {
    let nodes = rig.kube(text).nodes().await.unwrap();
    assert!(nodes.iter().all(|node| node.is_schedulable && !node.is_marked), "{nodes:#?}");
}

/// The steps that applied configs, in the order of their starts.
fn order(ran: &Ran) -> Vec<&str> {
    let started = ran.events.iter().filter_map(|event| match &event.what {
        Event::StepStarted { step } => step.strip_prefix("talos/")?.strip_suffix("/config"),
        _ => None,
    });
    started.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_changes_all_nodes_without_a_reboot() {
    let rig = Rig::start();
    rig.up(&home()).await.assert_done();
    let before = boots(&rig, &home()).await;
    let text = patched(&home(), "{machine: {nodeLabels: {rack: row-7}}}");
    let ran = rig.converge(&text).await;
    assert_in_configs(&rig, &text, "rack: row-7").await;
    assert_eq!(boots(&rig, &text).await, before);
    assert_eq!(order(&ran)[..2], ["wk-1", "wk-2"], "workers come first");
    rig.picture(&text).await.assert_whole(&["cp-1", "cp-2", "cp-3"], &["wk-1", "wk-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_needs_a_reboot_reboots_one_node_after_the_other() {
    let rig = Rig::of(Yard { release: "8.4", ..Yard::default() });
    let first = home().replace("v1.11.2", "v1.13.6");
    rig.up(&first).await.assert_done();
    let before = boots(&rig, &first).await;
    let mut leader = None;
    for name in ["cp-1", "cp-2", "cp-3"] {
        let Contact::At(at) = rig.desired(&first).node(name).unwrap().contact else { panic!() };
        let status = rig.talos(at).etcd_status().await.unwrap();
        if status.leader == status.member_id {
            leader = Some(name);
        }
    }
    let text = patched(&first, "{machine: {env: {WAVE: through}}}");
    let ran = rig.converge(&text).await;
    assert_in_configs(&rig, &text, "WAVE: through").await;
    let after = boots(&rig, &text).await;
    for (name, boot) in &before {
        assert_ne!(after[name], *boot, "{name}");
    }
    let order = order(&ran);
    assert_eq!((order.len(), order.first(), order.last().copied()), (5, Some(&"wk-1"), leader));
    assert_schedulable(&rig, &text).await;
    rig.picture(&text).await.assert_whole(&["cp-1", "cp-2", "cp-3"], &["wk-1", "wk-2"]);
}

/// The new address of the worker is not in use, and talmox cannot reach it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_reached_at_its_new_address_reverts() {
    let mut rig = Rig::start();
    rig.up(&impatient()).await.assert_done();
    let before = configs(&rig, address("10.0.0.21")).await;
    let boot = boots(&rig, &impatient()).await;
    rig.closed = &["10.0.0.29"];
    let text = impatient().replace("10.0.0.21", "10.0.0.29");
    let failures = rig.up_within(&text, &Scope::default()).await.failures();
    let words = "talos/wk-1/config: wk-1 was not reached with its changed config (";
    assert!(failures.contains(words), "{failures}");
    let end = "it has reverted it by itself, and answers at 10.0.0.21";
    assert!(failures.contains(end), "{failures}");
    assert_eq!(configs(&rig, address("10.0.0.21")).await, before);
    assert_eq!(boots(&rig, &impatient()).await, boot, "its VM was not stopped");
    assert!(rig.vms().await[&303].config["ipconfig0"].contains("10.0.0.21"));
    // With the former address in the inventory, nothing is left of the attempt.
    rig.converge(&impatient()).await;
    assert_schedulable(&rig, &impatient()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_moves_to_another_address() {
    let rig = Rig::of(Yard { release: "8.4", ..Yard::default() });
    rig.up(&pair()).await.assert_done();
    let text = pair().replace("10.0.0.21", "10.0.0.29");
    rig.converge(&text).await;
    let picture = rig.picture(&text).await;
    picture.assert_whole(&["cp-1"], &["wk-1"]);
    let worker = picture.kubernetes.iter().find(|node| node.name == "wk-1").unwrap();
    assert_eq!(worker.internal_addresses, [address("10.0.0.29")]);
    assert!(picture.vms[&303].config["ipconfig0"].contains("10.0.0.29"));
    assert_schedulable(&rig, &text).await;
}

/// An inventory in which only guest agents report the addresses, and the same nodes with static addresses.
fn dhcp_and_static() -> (String, String) {
    let head = HEAD.replace("v1.11.2", "v1.12.4");
    let image = "image: {extensions: [siderolabs/qemu-guest-agent]}";
    let nodes = PAIR.replace(", ip: 10.0.0.11", "").replace(", ip: 10.0.0.21", "");
    (
        impatiently(&format!("{head}boot: dhcp\n{image}\n{nodes}")),
        impatiently(&format!("{head}{image}\n{PAIR}")),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_change_from_dhcp_to_static_addresses() {
    let (first, second) = dhcp_and_static();
    let desired = inventory::desired(&first, &inventory::bundle());
    let mut yard = Yard {
        with: vec![("Pool.Audit]", "Pool.Audit, VM.GuestAgent.Audit]".to_owned())],
        ..Yard::default()
    };
    for (node, lease) in desired.nodes.iter().zip(["10.0.0.101/24", "10.0.0.102/24"]) {
        let mac = node.identity.macs[0].to_string().to_lowercase();
        yard.nodes.leases.insert(mac, lease.to_owned());
    }
    let rig = Rig::of(yard);
    rig.up(&first).await.assert_done();
    let members = rig.talos(address("10.0.0.101")).etcd_members().await.unwrap();
    rig.converge(&second).await;
    let picture = rig.picture(&second).await;
    picture.assert_whole(&["cp-1"], &["wk-1"]);
    for (name, at, vmid) in [("cp-1", "10.0.0.11", 300), ("wk-1", "10.0.0.21", 303)] {
        let node = picture.kubernetes.iter().find(|node| node.name == name).unwrap();
        assert_eq!(node.internal_addresses, [address(at)], "{name}");
        let drive = &picture.vms[&vmid].config["ipconfig0"];
        assert!(drive.contains(at), "{name}: {drive}");
    }
    // It is the same member with the same data, at its new address.
    let moved = rig.talos(address("10.0.0.11")).etcd_members().await.unwrap();
    assert_eq!((moved.len(), moved[0].id), (1, members[0].id));
    assert_eq!(moved[0].peer_urls, ["https://10.0.0.11:2380"]);
    assert_schedulable(&rig, &second).await;
}

//! Changes of machine configs of a running cluster.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_engine::event::Event;
use talmox_plan::desired::Contact;
use talmox_plan::planning::Scope;
use talmox_talos_api::client::{Resource, ResourceKind};

use super::inventory::{self, HEAD, PAIR, home, pair, short_timeouts, with_short_timeouts};
use super::rig::{CompletedRun, LabOptions, Rig};
use super::versions::{
    PVE_8_TALOS_11, PVE_8_TALOS_12, PVE_8_TALOS_13, PVE_9_TALOS_11, PVE_9_TALOS_12, PVE_9_TALOS_13,
    Versions, each,
};

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
fn order(ran: &CompletedRun) -> Vec<&str> {
    let started = ran.events.iter().filter_map(|event| match &event.what {
        Event::StepStarted { step } => step.strip_prefix("talos/")?.strip_suffix("/config"),
        _ => None,
    });
    started.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_changes_all_nodes_without_a_reboot() {
    each(&[PVE_9_TALOS_11], a_label_changes_all_nodes_without_a_reboot_on).await;
}

async fn a_label_changes_all_nodes_without_a_reboot_on(versions: Versions) {
    let rig = Rig::of(versions.lab_options());
    let first = versions.inventory(&home());
    rig.up(&first).await.assert_done();
    let before = boots(&rig, &first).await;
    let text = patched(&first, "{machine: {nodeLabels: {rack: row-7}}}");
    let ran = rig.converge(&text).await;
    assert_in_configs(&rig, &text, "rack: row-7").await;
    assert_eq!(boots(&rig, &text).await, before);
    assert_eq!(order(&ran)[..2], ["wk-1", "wk-2"], "workers come first");
    rig.lab_state(&text).await.assert_complete(&["cp-1", "cp-2", "cp-3"], &["wk-1", "wk-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_needs_a_reboot_reboots_one_node_after_the_other() {
    each(&[PVE_8_TALOS_13], a_change_that_needs_a_reboot_reboots_one_node_after_the_other_on).await;
}

async fn a_change_that_needs_a_reboot_reboots_one_node_after_the_other_on(versions: Versions) {
    let rig = Rig::of(versions.lab_options());
    let first = versions.inventory(&home());
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
    rig.lab_state(&text).await.assert_complete(&["cp-1", "cp-2", "cp-3"], &["wk-1", "wk-2"]);
}

/// The new address of the worker is not in use, and talmox cannot reach it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_reached_at_its_new_address_reverts() {
    each(&[PVE_8_TALOS_11], a_node_that_is_not_reached_at_its_new_address_reverts_on).await;
}

async fn a_node_that_is_not_reached_at_its_new_address_reverts_on(versions: Versions) {
    let mut rig = Rig::of(versions.lab_options());
    let first = versions.inventory(&short_timeouts());
    rig.up(&first).await.assert_done();
    let before = configs(&rig, address("10.0.0.21")).await;
    let boot = boots(&rig, &first).await;
    rig.closed = &["10.0.0.29"];
    let text = first.replace("10.0.0.21", "10.0.0.29");
    let failures = rig.up_within(&text, &Scope::default()).await.failures();
    let words = "talos/wk-1/config: wk-1 was not reached with its changed config (";
    assert!(failures.contains(words), "{failures}");
    let end = "it has reverted it by itself, and answers at 10.0.0.21";
    assert!(failures.contains(end), "{failures}");
    assert_eq!(configs(&rig, address("10.0.0.21")).await, before);
    assert_eq!(boots(&rig, &first).await, boot, "its VM was not stopped");
    assert!(rig.vms().await[&303].config["ipconfig0"].contains("10.0.0.21"));
    // With the former address in the inventory, nothing is left of the attempt.
    rig.converge(&first).await;
    assert_schedulable(&rig, &first).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_moves_to_another_address() {
    each(&[PVE_8_TALOS_12, PVE_9_TALOS_13], a_worker_moves_to_another_address_on).await;
}

async fn a_worker_moves_to_another_address_on(versions: Versions) {
    let rig = Rig::of(versions.lab_options());
    let first = versions.inventory(&pair());
    rig.up(&first).await.assert_done();
    let text = first.replace("10.0.0.21", "10.0.0.29");
    rig.converge(&text).await;
    let lab_state = rig.lab_state(&text).await;
    lab_state.assert_complete(&["cp-1"], &["wk-1"]);
    let worker = lab_state.kubernetes.iter().find(|node| node.name == "wk-1").unwrap();
    assert_eq!(worker.internal_addresses, [address("10.0.0.29")]);
    assert!(lab_state.vms[&303].config["ipconfig0"].contains("10.0.0.29"));
    assert_schedulable(&rig, &text).await;
}

/// An inventory in which only guest agents report the addresses, and the same nodes with static addresses.
fn dhcp_and_static(versions: Versions) -> (String, String) {
    let head = versions.inventory(HEAD);
    let image = "image: {extensions: [siderolabs/qemu-guest-agent]}";
    let nodes = PAIR.replace(", ip: 10.0.0.11", "").replace(", ip: 10.0.0.21", "");
    (
        with_short_timeouts(&format!("{head}boot: dhcp\n{image}\n{nodes}")),
        with_short_timeouts(&format!("{head}{image}\n{PAIR}")),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_change_from_dhcp_to_static_addresses() {
    each(&[PVE_9_TALOS_12], nodes_change_from_dhcp_to_static_addresses_on).await;
}

async fn nodes_change_from_dhcp_to_static_addresses_on(versions: Versions) {
    let (first, second) = dhcp_and_static(versions);
    let desired = inventory::desired(&first, &inventory::bundle());
    let right = format!("Pool.Audit, {}]", versions.agent_right());
    let mut lab_options =
        LabOptions { with: vec![("Pool.Audit]", right)], ..versions.lab_options() };
    for (node, lease) in desired.nodes.iter().zip(["10.0.0.101/24", "10.0.0.102/24"]) {
        let mac = node.identity.macs[0].to_string().to_lowercase();
        lab_options.nodes.leases.insert(mac, lease.to_owned());
    }
    let rig = Rig::of(lab_options);
    rig.up(&first).await.assert_done();
    let members = rig.talos(address("10.0.0.101")).etcd_members().await.unwrap();
    rig.converge(&second).await;
    let lab_state = rig.lab_state(&second).await;
    lab_state.assert_complete(&["cp-1"], &["wk-1"]);
    for (name, at, vmid) in [("cp-1", "10.0.0.11", 300), ("wk-1", "10.0.0.21", 303)] {
        let node = lab_state.kubernetes.iter().find(|node| node.name == name).unwrap();
        assert_eq!(node.internal_addresses, [address(at)], "{name}");
        let drive = &lab_state.vms[&vmid].config["ipconfig0"];
        assert!(drive.contains(at), "{name}: {drive}");
    }
    // It is the same member with the same data, at its new address.
    let moved = rig.talos(address("10.0.0.11")).etcd_members().await.unwrap();
    assert_eq!((moved.len(), moved[0].id), (1, members[0].id));
    assert_eq!(moved[0].peer_urls, ["https://10.0.0.11:2380"]);
    assert_schedulable(&rig, &second).await;
}

/// The version of Kubernetes is left, and everything else of the config is applied.
#[tokio::test(flavor = "multi_thread")]
async fn a_config_is_applied_without_its_kubernetes_version() {
    let rig = Rig::start();
    let first = format!("{}kubernetes_version: v1.34.0\n", pair());
    rig.up(&first).await.assert_done();
    let second = format!("{}kubernetes_version: v1.34.1\n", pair());
    let text = patched(&second, "{machine: {nodeLabels: {rack: row-7}}}");
    rig.up_within(&text, &Scope::default()).await.assert_done();
    assert_in_configs(&rig, &text, "rack: row-7").await;
    assert_in_configs(&rig, &text, "kubelet:v1.34.0").await;
    let nodes = rig.kube(&text).nodes().await.unwrap();
    assert!(nodes.iter().all(|node| node.kubelet_version == "v1.34.0"), "{nodes:#?}");
    // Only the version is left.
    let rest = rig.plan(&text).await;
    assert!(rest.steps.is_empty(), "{:#?}", rest.steps);
    let open = rest.open_changes().flat_map(|change| &change.fields);
    let paths: Vec<&str> = open.map(|field| field.path.as_str()).collect();
    assert!(paths.contains(&"machine.kubelet.image"), "{paths:?}");
    assert!(paths.iter().all(|path| path.strip_suffix(".image").is_some()), "{paths:?}");
}

/// The next control plane is changed only after the API server of the former one is ready with the changed config.
#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_of_a_control_plane_is_checked_before_the_next_one_changes() {
    let rig = Rig::start();
    rig.up(&home()).await.assert_done();
    let text = patched(&home(), "{cluster: {apiServer: {certSANs: [api.example.net]}}}");
    let mut started: Vec<String> = vec![];
    let is_second = |event: &Event| {
        if let Event::StepStarted { step } = event
            && let Some(step) = step.strip_prefix("talos/cp-")
            && let Some(number) = step.strip_suffix("/config")
        {
            started.push(format!("cp-{number}"));
        }
        started.len() == 2
    };
    assert!(rig.up_until(&text, is_second).await, "{started:?}");
    let pod = rig.kube(&text).mirror_pod("kube-apiserver", &started[0]).await.unwrap().unwrap();
    assert!(pod.is_ready);
    assert_eq!(pod.annotations["talos.dev/config-version"], "2");
    rig.converge(&text).await;
}

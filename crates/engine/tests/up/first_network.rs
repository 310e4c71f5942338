//! Changes of addresses and gateways. A node keeps the network settings of its first boot. With the default boot way, `cidata`,
//! Proxmox does not know them.

use std::net::IpAddr;

use talmox_plan::plan::Action;
use talmox_plan::planning::Scope;
use talmox_talos_api::client::ResourceKind;

use super::inventory::{HEAD, PAIR, short_timeouts, with_short_timeouts};
use super::rig::{CompletedRun, Rig};

/// One control plane and one worker with cidata volumes, without guest agents.
fn by_volume() -> String {
    with_short_timeouts(&format!("{HEAD}boot: cidata\n{PAIR}"))
}

fn assert_nothing_created(ran: &CompletedRun) {
    let is_creation =
        |action: &Action| matches!(action, Action::CreateVm(_) | Action::DestroyVm(_));
    let steps = &ran.plan.steps;
    assert!(!steps.iter().any(|step| is_creation(&step.action)), "{steps:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_moves_to_another_address_on_the_same_vm() {
    let rig = Rig::start();
    rig.up(&by_volume()).await.assert_done();
    let before = rig.vms().await[&303].config.clone();
    let text = by_volume().replace("10.0.0.21", "10.0.0.29");
    let ran = rig.converge(&text).await;
    assert_nothing_created(&ran);
    let lab_state = rig.lab_state(&text).await;
    lab_state.assert_complete(&["cp-1"], &["wk-1"]);
    let worker = lab_state.kubernetes.iter().find(|node| node.name == "wk-1").unwrap();
    let address: IpAddr = "10.0.0.29".parse().unwrap();
    assert_eq!(worker.internal_addresses, [address]);
    assert!(worker.is_schedulable);
    let after = &lab_state.vms[&303].config;
    assert_eq!(after["smbios1"], before["smbios1"]);
    let keys = |config: &std::collections::BTreeMap<String, String>| -> Vec<String> {
        config.keys().cloned().collect()
    };
    assert_eq!(keys(after), keys(&before), "the new volume is detached");
    // Nothing is left of the former address.
    let found = rig.talos(address).list(ResourceKind::ADDRESS_STATUS).await.unwrap();
    assert!(found.iter().all(|one| !one.id.contains("10.0.0.21")), "{found:#?}");
}

/// talmox is in the network of the node, so the node still answers. The node also has the default route of its first boot, with the
/// former gateway.
async fn a_wrong_gateway_is_reverted(right: &str) {
    let rig = Rig::start();
    rig.up(right).await.assert_done();
    let worker = rig.talos("10.0.0.21".parse().unwrap());
    let boot = worker.boot_id().await.unwrap();
    let config = async || {
        let found = worker.get(ResourceKind::MACHINE_CONFIG, "v1alpha1").await.unwrap().unwrap();
        found.config_text().expose().to_owned()
    };
    let before = config().await;
    let wrong = right.replace("gateway: 10.0.0.1,", "gateway: 10.0.0.99,");
    let failures = rig.up_within(&wrong, &Scope::default()).await.failures();
    let words = "talos/wk-1/config: wk-1 does not work with its changed config (its gateway 10.0.0.99 does not answer); it has \
                 reverted it by itself, and answers at 10.0.0.21";
    assert!(failures.contains(words), "{failures}");
    assert_eq!(config().await, before);
    assert_eq!(worker.boot_id().await.unwrap(), boot, "its VM was not stopped");
    rig.converge(right).await;
    let nodes = rig.kube(right).nodes().await.unwrap();
    assert!(nodes.iter().all(|node| node.is_ready && node.is_schedulable), "{nodes:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_gateway_of_a_node_with_a_volume_is_reverted() {
    a_wrong_gateway_is_reverted(&by_volume()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_gateway_of_a_node_with_a_drive_is_reverted() {
    a_wrong_gateway_is_reverted(&short_timeouts()).await;
}

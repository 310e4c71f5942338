//! Clusters that lost the majority of their control planes.

use std::time::Duration;

use talmox_lab::FaultScript as _;
use talmox_lab::pve::Fault;
use talmox_plan::plan::show;

use super::inventory::home;
use super::rig::Rig;

/// The text of the plan, as soon as it contains these words.
async fn plan_text_with(rig: &Rig, words: &str) -> String {
    let mut shown = String::new();
    for _ in 0..100 {
        let plan = rig.plan(&home()).await;
        shown = show::text(&plan);
        if shown.contains(words) {
            assert!(plan.errors().count() > 0, "{shown}");
            return shown;
        }
        rig.lab.clock().sleep(Duration::from_secs(5)).await;
    }
    panic!("`{words}` is not in\n{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_without_a_majority_is_reported_before_anything_is_created() {
    let rig = Rig::start();
    rig.up(&home()).await.assert_done();
    rig.delete_vm(300).await;
    rig.delete_vm(302).await;
    let lost = "etcd has lost its majority: the VMs of cp-1, cp-3 are gone";
    let shown = plan_text_with(&rig, lost).await;
    assert!(shown.contains("from a Proxmox backup") && shown.contains("snapshot"), "{shown}");
    assert!(!shown.contains("bootstrapped on"), "{shown}");

    // Without a leader, a real etcd does not list its members.
    let script = "faults:\n  - {talos: EtcdMemberList, node: cp-2, times: always, \
                  refuse: {code: Unavailable, message: 'etcdserver: no leader'}}\n";
    for fault in Fault::parse("faults.yaml", script).unwrap() {
        rig.lab.faults().add(fault);
    }
    let shown = plan_text_with(&rig, "etcdserver: no leader").await;
    assert!(shown.contains(lost), "{shown}");
}

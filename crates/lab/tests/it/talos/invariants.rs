//! Tests of the invariants. Each invariant is violated on purpose. A run that violates none must report none.
//!
//! All requests use the same token. Two watchers run at the same time: one checks this token, and for the other the token
//! belongs to a user.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use talmox_lab::kube::KubeStore;
use talmox_lab::{Violation, Watched, Watcher};
use talmox_talos_api::client::{Apply, ApplyMode};
use talmox_talos_api::{Client, TalosError};

use super::test_bed::{TestBed, until};

/// Watcher that checks the token of the tests.
fn watch(bed: &TestBed, foreign: &[u32]) -> Watcher {
    let tokens = BTreeSet::from([bed.lab.pve.token_id.clone()]);
    let foreign = foreign.iter().copied().collect();
    bed.lab.lab().watch_invariants(Watched { tokens, foreign })
}

/// Watcher for which the token of the tests belongs to a user.
fn watch_others(bed: &TestBed, foreign: &[u32]) -> Watcher {
    let foreign = foreign.iter().copied().collect();
    bed.lab.lab().watch_invariants(Watched { foreign, ..Watched::default() })
}

/// Starts a cluster of control planes, and waits until all of them are voters.
async fn cluster(bed: &TestBed, numbers: &[u8]) -> Client {
    let first = bed.bootstrap(numbers[0]).await;
    for number in &numbers[1..] {
        bed.configure(*number, true).await;
    }
    until("all members to vote", || async {
        let members = first.etcd_members().await.ok()?;
        let voters = members.iter().filter(|member| !member.is_learner).count();
        (voters == numbers.len()).then_some(())
    })
    .await;
    first
}

async fn until_violated(watcher: &Watcher, is_it: impl Fn(&Violation) -> bool + Copy) -> Violation {
    until("a violation", || async { watcher.violations().into_iter().find(is_it) }).await
}

/// Violation of the control planes with these numbers.
fn control_planes_down(numbers: &[u8]) -> Violation {
    Violation::ControlPlanesDown { names: names(numbers) }
}

fn names(numbers: &[u8]) -> Vec<String> {
    numbers.iter().map(|number| format!("node-{number}")).collect()
}

fn delete(bed: &TestBed, vmid: u32) {
    let answer = bed.lab.request("DELETE", &format!("/nodes/pve/qemu/{vmid}"), "", "");
    assert_eq!(crate::upload::outcome(&bed.lab, &answer), "OK");
}

#[test]
fn several_stopped_control_planes_and_a_lost_quorum_are_violations() {
    let bed = TestBed::new("v1.12.7");
    let numbers = [11, 12, 13, 14, 15];
    for number in numbers {
        bed.start(number);
    }
    let (watcher, others) = (watch(&bed, &[]), watch_others(&bed, &[]));
    bed.lab.wait(cluster(&bed, &numbers));
    watcher.assert_none();

    bed.stop(14);
    bed.stop(15);
    bed.lab.wait(until_violated(&watcher, |_| true));
    // Three of five members are a majority.
    assert_eq!(watcher.violations(), [control_planes_down(&[14, 15])]);

    bed.stop(13);
    let is_lost = |one: &Violation| matches!(one, Violation::QuorumLost { .. });
    bed.lab.wait(until_violated(&watcher, is_lost));
    let expected = [
        control_planes_down(&[14, 15]),
        Violation::QuorumLost { down: names(&[13, 14, 15]) },
        control_planes_down(&[13, 14, 15]),
    ];
    assert_eq!(watcher.violations(), expected);
    // A user may stop any number of control planes.
    others.assert_none();
}

/// A fault has no token, so the test itself declares which stops are expected.
#[test]
fn expected_stops_are_no_violations() {
    let bed = TestBed::new("v1.12.7");
    let numbers = [11, 12, 13];
    for number in numbers {
        bed.start(number);
    }
    let watcher = watch(&bed, &[]);
    bed.lab.wait(cluster(&bed, &numbers));
    for (number, vmid) in [(12, 112), (13, 113)] {
        watcher.expect_down(vmid);
        bed.stop(number);
    }
    for number in [12, 13] {
        bed.power(number, "start");
    }
    bed.lab.wait(async {
        for number in [12, 13] {
            let client = bed.client(number);
            until("the member to return", || async {
                let members = client.etcd_members().await.ok()?;
                (members.len() == 3).then_some(())
            })
            .await;
        }
    });
    watcher.assert_none();
}

fn store_of(bed: &TestBed) -> Arc<KubeStore> {
    bed.lab.lab().kubernetes_stores().remove(0)
}

/// Waits until the condition `Ready` of an object is true.
async fn until_ready(store: &KubeStore, kind: &str, namespace: &str, name: &str) {
    until(&format!("{kind}/{name} to be ready"), || async {
        let object = store.get(kind, namespace, name)?;
        let conditions = object["status"]["conditions"].as_array()?;
        let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        conditions.iter().any(is_ready).then_some(())
    })
    .await;
}

#[test]
fn a_deleted_pod_that_its_budget_needs_is_a_violation() {
    let bed = TestBed::new("v1.12.7");
    bed.start(11);
    let watcher = watch(&bed, &[]);
    bed.lab.wait(bed.bootstrap(11));
    let store = store_of(&bed);
    // Kubernetes deletes pods whose node is not registered. A machine can be ready before that.
    bed.lab.wait(until_ready(&store, "nodes", "", "node-11"));
    let budget = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    store.create("poddisruptionbudgets.policy", budget).unwrap();
    for name in ["web-1", "web-2"] {
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
            "spec": {"nodeName": "node-11", "containers": [{"name": "web", "image": "web"}]},
        });
        store.create("pods", pod).unwrap();
    }
    for name in ["web-1", "web-2"] {
        bed.lab.wait(until_ready(&store, "pods", "default", name));
    }
    // The budget allows one eviction, and the API rejects the second one.
    store.evict("default", "web-1").unwrap();
    store.evict("default", "web-2").unwrap_err();
    watcher.assert_none();

    store.delete("pods", "default", "web-2").unwrap();
    let expected = Violation::BudgetBroken {
        budget: "default/web".to_owned(),
        pod: "web-2".to_owned(),
        healthy: 0,
        required: 1,
    };
    assert_eq!(watcher.violations(), [expected]);
}

#[test]
fn a_change_of_a_foreign_vm_is_a_violation() {
    let bed = TestBed::new("v1.12.7");
    bed.start(11);
    bed.start(12);
    let (watcher, others) = (watch(&bed, &[111]), watch_others(&bed, &[111]));
    bed.set(12, "tags=own");
    watcher.assert_none();

    let token = bed.lab.pve.token_id.clone();
    let expected = Violation::ForeignVmChanged { vmid: 111, token };
    let mut reported = 0;
    let mut assert_reported = |what: &str| {
        let violations = watcher.violations();
        assert!(violations.len() > reported, "{what}");
        assert!(violations.iter().all(|one| *one == expected), "{what}: {violations:?}");
        reported = violations.len();
    };
    bed.set(11, "tags=changed");
    assert_reported("config");
    for order in ["suspend", "resume", "stop", "start", "stop"] {
        bed.power(11, order);
        assert_reported(order);
    }
    delete(&bed, 111);
    assert_reported("deletion");
    others.assert_none();
}

#[test]
fn another_secret_of_a_cluster_is_a_violation() {
    let bed = TestBed::new("v1.12.7");
    bed.start(11);
    let watcher = watch(&bed, &[]);
    let changed = |secret: &'static str| {
        let node = "node-11".to_owned();
        Violation::SecretChanged { node, secret }
    };
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        watcher.assert_none();
        let patch = "cluster: {token: aaaaaa.bbbbbbbbbbbbbbbb}\n";
        let config = bed.patched(11, true, patch);
        let apply = Apply { config: &config, mode: ApplyMode::NoReboot, dry_run: false };
        client.apply(&apply).await.unwrap();
        assert_eq!(watcher.violations(), [changed("cluster.token")]);

        // Talos applies this change only with a reboot, which may lose the answer.
        let patch = format!("{patch}machine: {{token: cccccc.dddddddddddddddd}}\n");
        let config = bed.patched(11, true, &patch);
        let apply = Apply { config: &config, mode: ApplyMode::Auto, dry_run: false };
        let applied = client.apply(&apply).await;
        assert!(matches!(applied, Ok(_) | Err(TalosError::Lost { .. })), "{applied:?}");
        until("the node to use the config", || async {
            (watcher.violations().len() > 1).then_some(())
        })
        .await;
        bed.ready(&client).await;
        let expected = [changed("cluster.token"), changed("machine.token")];
        assert_eq!(watcher.violations(), expected);
    });
}

#[test]
fn an_address_of_two_machines_is_a_violation() {
    let bed = TestBed::new("v1.12.7");
    bed.start(11);
    let watcher = watch(&bed, &[]);
    bed.start_with(12, &[("ipconfig0", "ip=10.0.0.11/24,gw=10.0.0.1")]);
    let found = bed.lab.wait(until_violated(&watcher, |_| true));
    let Violation::AddressShared { address, machines } = found else { panic!("{found}") };
    assert_eq!((address.to_string().as_str(), machines.len()), ("10.0.0.11", 2));
}

#[test]
fn a_vm_deleted_before_its_member_left_is_a_violation() {
    let bed = TestBed::new("v1.12.7");
    let numbers = [11, 12, 13];
    for number in numbers {
        bed.start(number);
    }
    let (watcher, others) = (watch(&bed, &[]), watch_others(&bed, &[]));
    bed.lab.wait(cluster(&bed, &numbers));
    // The other two members are a majority.
    bed.stop(13);
    watcher.assert_none();
    delete(&bed, 113);
    let token = bed.lab.pve.token_id.clone();
    let expected = Violation::MemberDeleted { vmid: 113, member: "node-13".to_owned(), token };
    assert_eq!(watcher.violations(), [expected]);
    others.assert_none();
}

/// A control plane leaves etcd before its VM is stopped and deleted. Another control plane restarts.
#[test]
fn a_run_within_the_rules_has_no_violations() {
    let bed = TestBed::new("v1.12.7");
    let numbers = [11, 12, 13];
    for number in numbers {
        bed.start(number);
    }
    let watcher = watch(&bed, &[]);
    let first = bed.lab.wait(cluster(&bed, &numbers));
    let second = bed.client(12);
    let boot = bed.lab.wait(second.boot_id()).unwrap();
    bed.power(12, "reset");
    bed.lab.wait(async {
        until("the member to return", || async {
            let is_rebooted = second.boot_id().await.ok()? != boot;
            let members = second.etcd_members().await.ok()?;
            (is_rebooted && members.len() == 3).then_some(())
        })
        .await;
        bed.client(13).etcd_leave().await.unwrap();
        until("the member to leave", || async {
            let members = first.etcd_members().await.ok()?;
            (members.len() == 2).then_some(())
        })
        .await;
    });
    bed.stop(13);
    delete(&bed, 113);
    watcher.assert_none();
}

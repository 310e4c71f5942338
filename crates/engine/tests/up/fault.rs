//! What goes wrong at Proxmox and at the factory while a cluster comes up: it comes up all the same, or the
//! run ends with words that name the cause, and goes on when that is gone.

use std::time::Duration;

use talmox_engine::plan::{Options, plan, show};
use talmox_lab::pve::{Action as FaultAction, Fault, PathPattern, When};
use talmox_pve::api::cluster;

use super::inventory::{another_bundle, home, impatient, pair};
use super::rig::{ADMIN, Ran, Rig};

const QEMU: &str = "/nodes/{node}/qemu";

fn refuse(message: &str) -> FaultAction {
    FaultAction::Refuse { status: 500, message: message.to_owned() }
}

async fn assert_whole(rig: &Rig) {
    rig.picture(&pair()).await.assert_whole(&["cp-1"], &["wk-1"]);
}

/// It comes up in spite of it.
async fn survives(strike: impl Fn(&Rig)) -> Ran {
    let rig = Rig::start();
    strike(&rig);
    let ran = rig.up(&pair()).await;
    ran.assert_done();
    assert_whole(&rig).await;
    ran
}

/// It ends with these words, and goes on once the cause is gone.
async fn stops_with(words: &[&str], strike: impl Fn(&Rig)) {
    let rig = Rig::start();
    strike(&rig);
    // A worker without a control plane waits for one, and gives up in the end.
    let ran = rig.up(&impatient()).await;
    let text = ran.failures();
    for words in words {
        assert!(text.contains(words), "`{words}` is not in\n{text}");
    }
    rig.lab.faults().clear();
    rig.up(&pair()).await.assert_done();
    assert_whole(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_server_is_told_with_its_reason() {
    stops_with(&["create VM", "the moon is full"], |rig| {
        rig.strike("POST", QEMU, 1, refuse("the moon is full"));
    })
    .await;
    stops_with(&["start VM", "the moon is full"], |rig| {
        rig.strike("POST", &format!("{QEMU}/*/status/start"), 1, refuse("the moon is full"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_though_the_answer_was_lost_is_not_done_twice() {
    for (method, path) in [
        ("POST", QEMU.to_owned()),
        ("PUT", format!("{QEMU}/*/config")),
        ("POST", format!("{QEMU}/*/status/start")),
        ("POST", "/nodes/{node}/storage/{storage}/download-url".to_owned()),
    ] {
        for lost in [FaultAction::TimedOut, FaultAction::CutAfter] {
            survives(|rig| rig.strike(method, &path, 2, lost.clone())).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_are_waited_out() {
    survives(|rig| {
        rig.strike("PUT", &format!("{QEMU}/*/config"), 2, FaultAction::LostLock);
        rig.strike("POST", &format!("{QEMU}/*/status/start"), 2, FaultAction::LostLock);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_task_is_told_with_the_end_of_its_log() {
    for task in ["qmcreate", "qmstart"] {
        let fail = FaultAction::Fail { percent: 40, message: "the disk is on fire".to_owned() };
        stops_with(&["the disk is on fire"], |rig| rig.strike_task(task, fail.clone())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_image_is_fetched_again() {
    survives(|rig| {
        let when = When {
            method: Some("GET".to_owned()),
            factory: Some(PathPattern::parse("/image/**").unwrap()),
            ..When::default()
        };
        rig.lab.faults().add(Fault::new(when, FaultAction::Truncate { percent: 40 }));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_goes_down_is_named_and_gone_on_with_later() {
    let rig = Rig::start();
    let lasts = Some(Duration::from_mins(12));
    let down = FaultAction::Down { host: "pve1".to_owned(), lasts };
    rig.strike("POST", &format!("{QEMU}/*/status/start"), 1, down);
    let ran = rig.up(&impatient()).await;
    let text = ran.failures();
    assert!(!ran.outcome.is_done() && text.contains("pve1"), "{text}");
    for _ in 0..600 {
        let client = rig.client(ADMIN);
        let resources = client.send(&cluster::resources()).await;
        let is_up = |name: &str, status: &str| name == "pve1" && status == "online";
        if resources.is_ok_and(|all| {
            all.hosts.iter().any(|host| is_up(&host.node.to_string(), &host.status))
        }) {
            break;
        }
        rig.lab.clock().sleep(Duration::from_secs(10)).await;
    }
    rig.up(&pair()).await.assert_done();
    assert_whole(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_taken_away_is_named() {
    let rig = Rig::start();
    let revoke = FaultAction::Revoke { token: "talmox@pve!ci".to_owned() };
    rig.strike("POST", &format!("{QEMU}/*/status/start"), 1, revoke);
    let ran = rig.up(&impatient()).await;
    let text = ran.failures();
    assert!(text.contains("check the API token"), "{text}");
    let error = rig.look(&rig.desired(&pair())).await.unwrap_err();
    assert!(error.is_auth(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_storage_is_named() {
    let rig = Rig::start();
    rig.strike_task("qmcreate", FaultAction::Full { storage: "local-lvm".to_owned() });
    let ran = rig.up(&impatient()).await;
    let text = ran.failures();
    assert!(text.contains("make room on the storage"), "{text}");
    assert_eq!(rig.vms().await.len(), 1, "nothing half made is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_to_an_impostor() {
    // Somebody else's cluster has the addresses: the plan says so.
    let mut rig = Rig::start();
    let (own, other) = (rig.bundle.clone(), another_bundle());
    let fresh = rig.plan(&pair()).await;
    rig.bundle = other.clone();
    let theirs = pair().replace("cluster_name: home", "cluster_name: other");
    rig.up(&theirs).await.assert_done();
    let before = rig.picture(&theirs).await;
    rig.bundle = own.clone();
    let desired = rig.desired(&pair());
    let world = rig.look(&desired).await.unwrap();
    let plan = plan(&desired, &world, Options { has_client_files: false });
    let text = show::text(&plan);
    assert_eq!(plan.errors().count(), 3, "{text}");
    assert!(text.contains("10.0.0.11 is in use: a node of another cluster"), "{text}");

    // It came after the plan was made: whoever has the vmids or the addresses is left alone.
    let ran = rig.carry_out(fresh, &pair(), None).await;
    assert!(!ran.outcome.is_done());
    let text = ran.failures();
    assert!(text.contains("VM 300") && text.contains("not"), "{text}");
    rig.bundle = other;
    assert_eq!(rig.picture(&theirs).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_vanished_is_never_a_reason_for_a_second_bootstrap() {
    let rig = Rig::start();
    let text = home();
    rig.up(&text).await.assert_done();
    rig.delete_vm(300).await;

    // etcd still counts it: said, with what to do about it.
    let plan = rig.plan(&text).await;
    let shown = show::text(&plan);
    assert!(plan.errors().count() == 1 && shown.contains("remove-member"), "{shown}");
    let talos = rig.talos("10.0.0.12".parse().unwrap());
    let members = talos.etcd_members().await.unwrap();
    let gone = members.iter().find(|member| member.hostname == "cp-1").unwrap();
    talos.etcd_remove_member(gone.id).await.unwrap();

    let ran = rig.up(&text).await;
    ran.assert_done();
    assert!(ran.plan.steps.iter().all(|step| step.id.as_str() != "etcd/bootstrap"));
    rig.picture(&text).await.assert_whole(&["cp-1", "cp-2", "cp-3"], &["wk-1", "wk-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_planes_that_are_off_are_asked_before_a_bootstrap() {
    let rig = Rig::start();
    let text = home();
    rig.up(&text).await.assert_done();
    rig.delete_vm(300).await;
    rig.stop_vm(301).await;
    rig.stop_vm(302).await;
    let ran = rig.up(&text).await;
    let failures = ran.failures();
    assert!(failures.contains("etcd is not bootstrapped"), "{failures}");
    let talos = rig.talos("10.0.0.12".parse().unwrap());
    assert_eq!(talos.etcd_members().await.unwrap().len(), 3, "the one cluster there was");
}

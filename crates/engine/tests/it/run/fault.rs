//! Faults in Proxmox, and their effects on steps.

use std::time::Duration;

use talmox_lab::pve::Action as FaultAction;
use talmox_plan::ownership::{Marker, Stage};
use talmox_plan::plan::OwnVm;
use talmox_pve::api::{cluster, qemu};
use talmox_pve::config::VmOptions;

use super::rig::{ADMIN, DEADLINE, Rig, bring_up, create, finish, own, step};

const QEMU: &str = "/nodes/pve1/qemu";

/// Checks that a VM is created in spite of the fault, and only once.
async fn survives(inject_fault: impl Fn(&Rig)) -> super::rig::CompletedRun {
    let rig = Rig::start("9.2");
    inject_fault(&rig);
    let own = own("cp-1", 300);
    let ran = rig.run(&bring_up(&own)).await;
    ran.assert_done();
    assert!(rig.config(&own.vm).await.tags().contains("talmox"));
    let guests = rig.client(ADMIN).send(&cluster::resources()).await.unwrap().guests;
    assert_eq!(guests.len(), 4, "{guests:?}");
    ran
}

/// Checks that the VM is not created, and that the error contains these words.
async fn stops_with(words: &str, inject_fault: impl Fn(&Rig)) -> (String, String) {
    let rig = Rig::start("9.2");
    inject_fault(&rig);
    let ran = rig.run(&bring_up(&own("cp-1", 300))).await;
    let (text, hint) = ran.failure();
    assert!(text.contains(words), "{text}");
    rig.lab.faults().clear();
    (text, hint)
}

#[tokio::test]
async fn a_lost_answer_creates_no_second_vm() {
    for (method, path) in [
        ("POST", QEMU.to_owned()),
        ("PUT", format!("{QEMU}/300/resize")),
        ("PUT", format!("{QEMU}/300/config")),
        ("POST", format!("{QEMU}/300/status/start")),
    ] {
        for action in [FaultAction::TimedOut, FaultAction::CutAfter, FaultAction::CutBefore] {
            let ran = survives(|rig| rig.inject_fault(method, &path, action.clone())).await;
            assert!(ran.retries() <= 3, "{method} {path} {action:?}: {}", ran.retries());
        }
    }
}

/// An administrator changes the tag policy during a run, after the tags were allowed. The part of the change that Proxmox
/// stored is reverted, and the VM is finished without tags.
#[tokio::test]
async fn tags_that_proxmox_rejects_during_a_run_are_omitted() {
    for release in ["9.2", "8.4"] {
        let rig = Rig::start(release);
        let (first, second) = (own("cp-1", 300), own("cp-2", 301));
        let steps = [
            step("a", create(&first), &[]),
            step("b", finish(&first, VmOptions::new()), &["a"]),
            step("c", create(&second), &["b"]),
            step("d", finish(&second, VmOptions::new()), &["c"]),
        ];
        let message = "Permission check failed (/, Sys.Modify for modifying tag 'home')".to_owned();
        let reject = FaultAction::Reject { status: 403, message };
        rig.inject_fault("PUT", &format!("{QEMU}/301/config"), reject);
        let ran = rig.run(&steps).await;
        ran.assert_done();
        assert_eq!(rig.config(&first.vm).await.tags().to_string(), "home;talmox");
        let config = rig.config(&second.vm).await;
        assert_eq!(config.get("tags"), None);
        let marker = Marker::find(config.description()).unwrap();
        assert!(marker.are_tags_rejected && marker.stage == Stage::Made, "{marker}");
    }
}

#[tokio::test]
async fn held_vm_locks_are_waited_for() {
    survives(|rig| {
        rig.inject_fault("POST", &format!("{QEMU}/300/status/start"), FaultAction::LostLock);
    })
    .await;
    survives(|rig| rig.inject_fault("PUT", &format!("{QEMU}/300/config"), FaultAction::LostLock))
        .await;
    let words = "can't lock file '/var/lock/qemu-server/lock-300.conf' - got timeout".to_owned();
    let fail = FaultAction::Fail { percent: 0, message: words };
    survives(|rig| rig.inject_task_fault("qmcreate", fail.clone())).await;
    survives(|rig| rig.inject_task_fault("resize", fail.clone())).await;
    survives(|rig| rig.inject_task_fault("qmstart", fail.clone())).await;
}

#[tokio::test]
async fn a_rejection_is_reported_with_its_reason() {
    let reject = FaultAction::Reject { status: 500, message: "the moon is full".to_owned() };
    let (text, _) = stops_with("the moon is full", |rig| {
        rig.inject_fault("POST", QEMU, reject.clone());
    })
    .await;
    assert!(text.starts_with("create VM 300 on pve1"), "{text}");
    let fail = FaultAction::Fail { percent: 40, message: "the disk is on fire".to_owned() };
    stops_with("failed on pve1: unable to create VM 300 - the disk is on fire", |rig| {
        rig.inject_task_fault("qmcreate", fail.clone());
    })
    .await;
}

#[tokio::test]
async fn a_full_storage_is_reported() {
    let (text, hint) = stops_with("create VM 300", |rig| {
        rig.inject_fault("POST", QEMU, FaultAction::Full { storage: "local-lvm".to_owned() });
    })
    .await;
    assert!(text.contains("free space"), "{text}");
    assert!(hint.contains("free space on the storage"), "{hint}");
}

#[tokio::test]
async fn a_deleted_token_is_reported() {
    let token = "talmox@pve!ci".to_owned();
    let (_, hint) = stops_with("401", |rig| {
        rig.inject_fault(
            "PUT",
            &format!("{QEMU}/300/resize"),
            FaultAction::Revoke { token: token.clone() },
        );
    })
    .await;
    assert!(hint.contains("check the API token"), "{hint}");
}

/// A VM on pve2, the host that fails.
fn on_pve2() -> OwnVm {
    let mut own = own("cp-1", 300);
    own.vm.node = super::rig::id("pve2");
    own
}

/// Checks that the VM runs, is finished, and exists only once.
async fn assert_up(rig: &Rig, own: &OwnVm) {
    let config = rig.config(&own.vm).await;
    assert_eq!(Marker::find(config.description()).unwrap().stage, Stage::Made);
    assert!(rig.client(ADMIN).send(&qemu::current(&own.vm)).await.unwrap().running);
    let guests = rig.client(ADMIN).send(&cluster::resources()).await.unwrap().guests;
    assert_eq!(guests.len(), 4, "{guests:?}");
}

#[tokio::test]
async fn a_host_that_comes_back_is_waited_for() {
    for act in ["POST", "PUT"] {
        let lasts = Some(Duration::from_secs(20));
        let down = FaultAction::Down { host: "pve2".to_owned(), lasts };
        let rig = Rig::start("9.2");
        let own = on_pve2();
        let path = if act == "POST" { "/nodes/pve2/qemu" } else { "/nodes/pve2/qemu/300/config" };
        rig.inject_fault(act, path, down);
        let ran = rig.run(&bring_up(&own)).await;
        ran.assert_done();
        assert!(ran.retries() > 0, "{act}");
        assert_up(&rig, &own).await;
        let again = rig.run(&bring_up(&own)).await;
        assert!(
            again.results().iter().all(|one| one.ends_with("already")),
            "{:?}",
            again.results()
        );
    }
}

#[tokio::test]
async fn a_host_that_stays_down_is_reported() {
    let rig = Rig::start("9.2");
    let own = on_pve2();
    // The host fails while the task runs, so the state of the task is unknown.
    let down = FaultAction::Down { host: "pve2".to_owned(), lasts: None };
    rig.inject_task_fault("qmcreate", down);
    let ran = rig.run(&bring_up(&own)).await;
    let (text, hint) = ran.failure();
    assert!(
        text.contains("VM 300") && text.contains("the host pve2 is down or unreachable"),
        "{text}"
    );
    assert!(hint.contains("bring the host up"), "{hint}");
    let waits: Vec<_> = ran.waits();
    let reason = "waiting for the task qmcreate on pve2: the host pve2 does not answer";
    assert!(waits.contains(&reason), "{waits:?}");
    let took = ran.events.last().unwrap().time - ran.events[0].time;
    assert!(took < DEADLINE.as_secs_f64() / 2.0, "{took} s");
}

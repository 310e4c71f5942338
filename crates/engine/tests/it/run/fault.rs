//! What goes wrong at Proxmox, and what becomes of it.

use std::time::Duration;

use talmox_lab::pve::Action as FaultAction;
use talmox_pve::api::cluster;

use super::rig::{ADMIN, Rig, bring_up, own};

const QEMU: &str = "/nodes/pve1/qemu";

/// A machine comes up in spite of the fault, and there is one of it.
async fn survives(strike: impl Fn(&Rig)) -> super::rig::Ran {
    let rig = Rig::start("9.2");
    strike(&rig);
    let own = own("cp-1", 300);
    let ran = rig.run(&bring_up(&own)).await;
    ran.assert_done();
    assert!(rig.config(&own.vm).await.tags().contains("talmox"));
    let guests = rig.client(ADMIN).send(&cluster::resources()).await.unwrap().guests;
    assert_eq!(guests.len(), 4, "{guests:?}");
    ran
}

/// A machine does not come up, and the words say why.
async fn stops_with(words: &str, strike: impl Fn(&Rig)) -> (String, String) {
    let rig = Rig::start("9.2");
    strike(&rig);
    let ran = rig.run(&bring_up(&own("cp-1", 300))).await;
    let (text, hint) = ran.failure();
    assert!(text.contains(words), "{text}");
    rig.lab.faults().clear();
    (text, hint)
}

#[tokio::test]
async fn an_answer_that_came_too_late_is_no_second_machine() {
    for (method, path) in [
        ("POST", QEMU.to_owned()),
        ("PUT", format!("{QEMU}/300/resize")),
        ("PUT", format!("{QEMU}/300/config")),
        ("POST", format!("{QEMU}/300/status/start")),
    ] {
        for action in [FaultAction::TimedOut, FaultAction::CutAfter, FaultAction::CutBefore] {
            let ran = survives(|rig| rig.strike(method, &path, action.clone())).await;
            assert!(ran.retries() <= 3, "{method} {path} {action:?}: {}", ran.retries());
        }
    }
}

#[tokio::test]
async fn locks_are_waited_out() {
    survives(|rig| rig.strike("POST", &format!("{QEMU}/300/status/start"), FaultAction::LostLock))
        .await;
    survives(|rig| rig.strike("PUT", &format!("{QEMU}/300/config"), FaultAction::LostLock)).await;
    let words = "can't lock file '/var/lock/qemu-server/lock-300.conf' - got timeout".to_owned();
    let fail = FaultAction::Fail { percent: 0, message: words };
    survives(|rig| rig.strike_task("qmcreate", fail.clone())).await;
    survives(|rig| rig.strike_task("resize", fail.clone())).await;
    survives(|rig| rig.strike_task("qmstart", fail.clone())).await;
}

#[tokio::test]
async fn a_refusal_is_told_with_its_reason() {
    let refuse = FaultAction::Refuse { status: 500, message: "the moon is full".to_owned() };
    let (text, _) = stops_with("the moon is full", |rig| {
        rig.strike("POST", QEMU, refuse.clone());
    })
    .await;
    assert!(text.starts_with("create VM 300 on pve1"), "{text}");
    let fail = FaultAction::Fail { percent: 40, message: "the disk is on fire".to_owned() };
    stops_with("failed on pve1: unable to create VM 300 - the disk is on fire", |rig| {
        rig.strike_task("qmcreate", fail.clone());
    })
    .await;
}

#[tokio::test]
async fn a_full_storage_is_named_as_such() {
    let (text, hint) = stops_with("create VM 300", |rig| {
        rig.strike("POST", QEMU, FaultAction::Full { storage: "local-lvm".to_owned() });
    })
    .await;
    assert!(text.contains("free space"), "{text}");
    assert!(hint.contains("make room"), "{hint}");
}

#[tokio::test]
async fn a_token_that_is_taken_away_is_named_as_such() {
    let token = "talmox@pve!ci".to_owned();
    let (_, hint) = stops_with("401", |rig| {
        rig.strike(
            "PUT",
            &format!("{QEMU}/300/resize"),
            FaultAction::Revoke { token: token.clone() },
        );
    })
    .await;
    assert!(hint.contains("check the API token"), "{hint}");
}

#[tokio::test]
async fn a_host_that_comes_back_is_waited_for() {
    let down = FaultAction::Down { host: "pve2".to_owned(), lasts: Some(Duration::from_secs(20)) };
    let rig = Rig::start("9.2");
    let mut own = own("cp-1", 300);
    own.vm.node = super::rig::id("pve2");
    rig.strike("POST", "/nodes/pve2/qemu", down);
    let ran = rig.run(&bring_up(&own)).await;
    // The create may have been cut off by the power, which leaves a lock that only root removes.
    if let Some((_, error)) = ran.outcome.failures().next() {
        let hint = error.hint.clone().unwrap_or_default();
        assert!(hint.contains("qm unlock 300") || hint.contains("the host"), "{error} {hint}");
    }
}

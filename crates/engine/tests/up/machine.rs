//! Machines that do not boot as they should.

use talmox_lab::pve::Fault;
use talmox_pve::api::task::{self, Filter};

use super::inventory::{impatient, pair};
use super::rig::{ADMIN, Ran, Rig};

/// The machine is well again, and the same command goes on.
async fn goes_on(rig: &Rig) {
    rig.lab.faults().clear();
    rig.up(&impatient()).await.assert_done();
    rig.picture(&pair()).await.assert_whole(&["cp-1"], &["wk-1"]);
}

async fn up(fault: &str) -> (Rig, Ran) {
    let rig = Rig::start();
    let script = format!("faults:\n  - {{node: wk-1, {fault}}}\n");
    for fault in Fault::parse("faults.yaml", &script).unwrap() {
        rig.lab.faults().add(fault);
    }
    let ran = rig.up(&impatient()).await;
    (rig, ran)
}

async fn resets(rig: &Rig) -> usize {
    let request = task::list(&"pve1".parse().unwrap(), &Filter::default());
    let tasks = rig.client(ADMIN).send(&request).await.unwrap();
    tasks.iter().filter(|task| task.upid.kind() == "qmreset").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_stalls_once_is_reset_and_comes_up() {
    let (rig, ran) = up("stall: true").await;
    ran.assert_done();
    assert_eq!(resets(&rig).await, 1);
    assert!(ran.notes().iter().any(|note| note.contains("wk-1") && note.contains("(1 of 2)")));
    rig.picture(&pair()).await.assert_whole(&["cp-1"], &["wk-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_always_stalls_is_reset_twice_and_given_up() {
    let (rig, ran) = up("stall: true, times: always").await;
    let text = ran.failures();
    assert!(text.contains("wk-1 does not come up after 2 resets"), "{text}");
    assert_eq!(resets(&rig).await, 2);
    goes_on(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_reboots_for_ever_is_given_up() {
    let (rig, ran) = up("boot: true, crash: true, times: always").await;
    let text = ran.failures();
    assert!(text.contains("wk-1 does not come up"), "{text}");
    assert!(resets(&rig).await <= 2);
    goes_on(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_says_nothing_is_given_up() {
    let (rig, ran) = up("boot: true, freeze: true, times: always").await;
    let text = ran.failures();
    assert!(text.contains("wk-1 does not come up"), "{text}");
    assert!(resets(&rig).await <= 2);
    goes_on(&rig).await;
}

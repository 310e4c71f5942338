//! A run that lost its lock makes no more changes, and does not change the locks of other runs.

use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::cluster_lock::{
    self, ClusterLock, Lease, LockLost, LockRequest, TakeError, Unconfirmed,
};
use talmox_engine::event::{Event, Events};
use talmox_engine::execute::{Cancel, execute};
use talmox_lab::pve::{Action as FaultAction, Fault, When};
use talmox_plan::plan::Plan;
use talmox_plan::planning::DestroyOptions;
use talmox_pve::api::pool;
use talmox_pve::id::PoolId;

use super::interrupted_destroy::machines;
use super::inventory::pair;
use super::lock::{key, knowing, pools, request, run_with, take_beside};
use super::rig::{ADMIN, Rig};

/// Duration of slow tasks in lab time. They last until the run has detected that its lock was removed.
const SLOW_TASK: Duration = Duration::from_mins(1);
/// Pause in real time. It is longer than the time for which a read of the scaled lock counts, and shorter than the slow
/// tasks.
const AFTER_REMOVAL: Duration = Duration::from_millis(500);

/// A request for the lock with the default lease.
fn production(rig: &Rig, host: &str) -> LockRequest {
    request(rig, host, Lease::default())
}

async fn take(rig: &Rig, host: &str) -> ClusterLock {
    cluster_lock::take(production(rig, host)).await.unwrap()
}

/// The default lease, scaled to lab time.
fn scaled(rig: &Rig) -> Lease {
    let speed = rig.lab.clock().speed();
    let Lease { renew, fresh, trust, end } = Lease::default();
    Lease {
        renew: renew.div_f64(speed),
        fresh: fresh.div_f64(speed),
        trust: trust.div_f64(speed),
        end: end.div_f64(speed),
    }
}

/// Requests other than reads that were sent after the first `before` requests of any kind.
fn changes_since(rig: &Rig, before: usize) -> Vec<String> {
    let asked = rig.recorded_requests().split_off(before);
    asked.into_iter().filter(|call| !call.starts_with("GET")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_lock_was_broken_never_holds_it_again() {
    let rig = Rig::start();
    let first = take(&rig, "first").await;
    let shown = cluster_lock::held(&rig.client(rig.token), &key(&rig)).await.unwrap();
    let unlock = cluster_lock::take_over(production(&rig, "unlock"), &shown).await.unwrap();
    // No third run can start while the first one may still make a change.
    let rejected = take_beside(&rig, "next").await.unwrap_err();
    assert!(matches!(&rejected, TakeError::Held(by) if by.host == "unlock"), "{rejected:?}");
    unlock.release().await.unwrap();
    let next = take(&rig, "next").await;
    Clock::real().sleep(Lease::default().fresh).await;
    let lost = first.fence().check().await.unwrap_err();
    let Unconfirmed::Lost(LockLost::TakenOver(by)) = lost else { panic!("{lost:?}") };
    assert_eq!(by.host, "next");
    next.fence().check_now().await.unwrap();
    assert_eq!(pools(&rig).await, [next.pool()]);
    next.release().await.unwrap();

    // The lock stays lost, even when no other run holds a lock.
    let lost = first.fence().check_now().await.unwrap_err();
    assert!(matches!(lost, Unconfirmed::Lost(_)), "{lost:?}");
    let before = rig.recorded_requests().len();
    let ran = run_with(&rig, &pair(), first.fence()).await;
    let failures = ran.failures();
    assert!(failures.contains("this run no longer holds its lock"), "{failures}");
    first.release().await.unwrap();
    assert_eq!(changes_since(&rig, before), Vec::<String>::new());
}

/// A run is suspended for longer than its lease. Meanwhile a second run takes the lock over and ends, and a third run
/// takes the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_run_does_not_change_the_lock_of_a_later_run() {
    for is_checked in [true, false] {
        let rig = Rig::start();
        let suspended = take(&rig, "suspended").await;
        let second = knowing(production(&rig, "second"), "suspended");
        let second = cluster_lock::take(second).await.unwrap();
        second.release().await.unwrap();
        let third = take(&rig, "third").await;
        if is_checked {
            Clock::real().sleep(Lease::default().fresh).await;
            let lost = suspended.fence().check().await.unwrap_err();
            assert!(matches!(lost, Unconfirmed::Lost(_)), "{lost:?}");
        }
        let before = rig.recorded_requests().len();
        suspended.release().await.unwrap();
        assert_eq!(changes_since(&rig, before), Vec::<String>::new());
        third.fence().check_now().await.unwrap();
        assert_eq!(pools(&rig).await, [third.pool()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_its_lock_changes_nothing() {
    let rig = Rig::start();
    let lock = take(&rig, "laptop").await;
    let pool: PoolId = lock.pool().parse().unwrap();
    rig.client(ADMIN).send(&pool::delete(&pool)).await.unwrap();
    Clock::real().sleep(Lease::default().fresh).await;
    let before = rig.recorded_requests().len();
    let ran = run_with(&rig, &pair(), lock.fence()).await;
    let failures = ran.failures();
    let said = "stopped before the next change: this run no longer holds its lock\n  the lock of this run was removed from \
                Proxmox";
    assert!(failures.contains(said), "{failures}");
    assert_eq!(changes_since(&rig, before), Vec::<String>::new());
    assert!(rig.guests().await.iter().all(|guest| guest.vmid.get() == 100));
}

/// Runs a plan, removes its lock after the first step for a VM has started, and returns the failures. Checks that no change
/// is made after the time for which a read of the lock counts.
async fn without_lock_from_first_vm(rig: &Rig, plan: &Plan, slow: &str) -> Vec<String> {
    let when = When { task: Some(slow.to_owned()), ..When::default() };
    let delay = Fault::new(when, FaultAction::Delay(SLOW_TASK));
    rig.lab.faults().add(Fault { times: None, ..delay });
    let ids: Vec<String> = plan.steps.iter().map(|step| step.id.to_string()).collect();
    let first = ids.into_iter().find(|id| id.starts_with("vm/")).unwrap();
    let lock = cluster_lock::take(request(rig, "laptop", scaled(rig))).await.unwrap();
    let pool: PoolId = lock.pool().parse().unwrap();
    let mut context = rig.context(&pair(), None);
    context.locks = vec![lock.fence()];
    let (events, mut heard) = Events::channel(rig.lab.clock());
    let removing = async {
        while let Some(event) = heard.recv().await {
            if matches!(&event.what, Event::StepStarted { step } if *step == first) {
                break;
            }
        }
        rig.client(ADMIN).send(&pool::delete(&pool)).await.unwrap();
        Clock::real().sleep(AFTER_REMOVAL).await;
        rig.recorded_requests().len()
    };
    let cancel = Cancel::default();
    let running = async {
        let outcome = execute(plan, &context, &cancel, &events).await;
        drop(events);
        outcome
    };
    let (outcome, before) = tokio::join!(running, removing);
    assert_eq!(changes_since(rig, before), Vec::<String>::new());
    outcome.failures().flat_map(|(_, error)| error.causes()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn once_its_lock_is_removed_a_run_creates_starts_and_bootstraps_nothing() {
    let rig = Rig::start();
    let plan = rig.plan(&pair()).await;
    let failures = without_lock_from_first_vm(&rig, &plan, "qmcreate").await;
    assert!(
        failures.iter().any(|cause| cause.contains("was removed from Proxmox")),
        "{failures:?}"
    );
    assert_eq!(rig.lab.etcd_clusters(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn once_its_lock_is_removed_a_run_destroys_nothing() {
    let rig = machines().await;
    let vms = rig.guests().await.len();
    let plan = rig.destroy_plan(&pair(), DestroyOptions::default()).await;
    let failures = without_lock_from_first_vm(&rig, &plan, "qmstop").await;
    assert!(
        failures.iter().any(|cause| cause.contains("was removed from Proxmox")),
        "{failures:?}"
    );
    assert_eq!(rig.guests().await.len(), vms);
}

//! Locks with the names of other builds, and with forged names.

use std::sync::Arc;

use talmox_clock::Clock;
use talmox_engine::cluster_lock::{
    self, HeldLock, Life, LockLost, LockRequest, TakeError, Unconfirmed,
};
use talmox_pve::api::pool;
use talmox_pve::id::PoolId;

use super::lock::{SHORT, key, knowing, pools, request, take_beside};
use super::rig::{ADMIN, Rig};

/// Creates a lock pool with this name for the key of the cluster, with the comment of a run on the host `laptop`. Returns the
/// whole name of the pool.
async fn forge(rig: &Rig, name: &str) -> String {
    let lock = cluster_lock::take(request(rig, "laptop", SHORT)).await.unwrap();
    let comment = held(rig).await.remove(0).comment;
    let own = lock.pool();
    lock.release().await.unwrap();
    let forged = format!("{}{name}", own.strip_suffix("1-run-of-laptop").unwrap());
    let pool: PoolId = forged.parse().unwrap();
    rig.client(ADMIN).send(&pool::create(&pool, Some(&comment))).await.unwrap();
    forged
}

async fn held(rig: &Rig) -> Vec<HeldLock> {
    cluster_lock::held(&rig.client(rig.token), &key(rig)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_an_older_build_excludes_other_runs_until_its_lease_ends() {
    let rig = Rig::start();
    let old = forge(&rig, "7").await;
    let rejected = take_beside(&rig, "desktop").await.unwrap_err();
    assert!(matches!(&rejected, TakeError::Held(by) if by.host == "laptop"), "{rejected:?}");
    assert_eq!(pools(&rig).await, [old]);
    let clock = Clock::real();
    let start = clock.moment();
    let lock = cluster_lock::take(request(&rig, "desktop", SHORT)).await.unwrap();
    assert!(clock.moment().since(start) >= SHORT.end);
    assert!(lock.pool().ends_with("-8-run-of-desktop"), "{}", lock.pool());
    assert_eq!(pools(&rig).await, [lock.pool()]);
}

/// No later lock can have a larger number than these locks. talmox reports them, and `unlock` removes them.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_with_a_forged_number_or_name_is_unreadable_and_can_be_removed() {
    let names =
        ["4294967295", "4294967295-run-of-laptop", "4294967294", "99999999999", "other", "1-x"];
    for name in names {
        let rig = Rig::start();
        let forged = forge(&rig, name).await;
        let request = knowing(request(&rig, "desktop", SHORT), "laptop");
        let rejected = cluster_lock::take(request.clone()).await.unwrap_err();
        assert!(
            matches!(&rejected, TakeError::Unreadable { pool } if *pool == forged),
            "{name}: {rejected:?}"
        );
        assert_eq!(pools(&rig).await, [forged], "{name}");
        let shown = held(&rig).await;
        let lock = cluster_lock::take_over(request, &shown).await.unwrap();
        assert_eq!(pools(&rig).await, [lock.pool()], "{name}");
        lock.release().await.unwrap();
        assert_eq!(pools(&rig).await, Vec::<String>::new(), "{name}");
    }
}

/// A newer build may have created the lock, and two runs must not change the cluster at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_stops_when_a_lock_with_an_unknown_name_appears() {
    let rig = Rig::start();
    let lock = cluster_lock::take(request(&rig, "laptop", SHORT)).await.unwrap();
    let forged = lock.pool().replace("-1-run-of-laptop", "-other");
    let pool: PoolId = forged.parse().unwrap();
    rig.client(ADMIN).send(&pool::create(&pool, None)).await.unwrap();
    let lost = lock.fence().check_now().await.unwrap_err();
    let by_name = matches!(&lost, Unconfirmed::Lost(LockLost::Disputed(name)) if *name == forged);
    assert!(by_name, "{lost:?}");
    // The lock of the run stays lost after that pool was deleted.
    rig.client(ADMIN).send(&pool::delete(&pool)).await.unwrap();
    assert!(matches!(lock.fence().check_now().await, Err(Unconfirmed::Lost(_))));
}

/// `unlock` removes only the locks that it showed, and not a lock that another run took since then.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_taken_since_it_was_shown_is_not_removed() {
    let rig = Rig::start();
    let first = cluster_lock::take(request(&rig, "first", SHORT)).await.unwrap();
    let shown = held(&rig).await;
    first.release().await.unwrap();
    let second = cluster_lock::take(request(&rig, "second", SHORT)).await.unwrap();
    let unlock = LockRequest { judge: Arc::new(|_| Life::Alive), ..request(&rig, "unlock", SHORT) };
    let rejected = cluster_lock::take_over(unlock, &shown).await.unwrap_err();
    assert!(matches!(&rejected, TakeError::Held(by) if by.host == "second"), "{rejected:?}");
    assert_eq!(pools(&rig).await, [second.pool()]);
}

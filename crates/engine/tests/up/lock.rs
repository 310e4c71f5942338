//! Two machines or two folders use one cluster. One of them runs, and the errors of the others name its run.

use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::cluster_lock::{
    self, ClusterLock, Fence, Holder, Lease, Life, LockKey, LockLost, LockRequest, TakeError,
    Unconfirmed,
};
use talmox_engine::event::{Event, Events};
use talmox_engine::execute::{Cancel, execute};
use talmox_plan::ownership::ClusterMark;
use talmox_pve::api::pool;
use tokio::task::JoinSet;

use super::inventory::{HEAD, home};
use super::rig::{ADMIN, CompletedRun, LabOptions, Rig};

/// Lease of running processes: renewed often, and long enough for a busy machine.
const LIVING: Lease = Lease {
    renew: Duration::from_millis(200),
    fresh: Duration::from_millis(100),
    trust: Duration::from_secs(4),
    end: Duration::from_secs(10),
};
/// A lease that ends soon and is not renewed in the background. Every check renews it.
pub(super) const SHORT: Lease = Lease {
    renew: Duration::from_mins(10),
    fresh: Duration::ZERO,
    trust: Duration::ZERO,
    end: Duration::from_secs(2),
};

pub(super) fn key(rig: &Rig) -> LockKey {
    LockKey::of_cluster(&ClusterMark::of(&rig.bundle.cluster.id))
}

/// A request for the lock. Other runs cannot check whether its process runs, as for a run on another machine.
pub(super) fn request(rig: &Rig, host: &str, lease: Lease) -> LockRequest {
    let holder = Holder {
        cluster: "home".to_owned(),
        command: "up".to_owned(),
        user: "somebody".to_owned(),
        host: host.to_owned(),
        pid: 4711,
        run: format!("run-of-{host}"),
        since: "2026-11-17T04:20:00Z".to_owned(),
        process: None,
    };
    LockRequest {
        pve: rig.client(rig.token),
        key: key(rig),
        holder,
        lease,
        judge: Arc::new(|_| Life::Unknown),
        report_wait: Arc::new(|_| {}),
    }
}

/// The same request, for which the run on the host `dead` has provably ended.
pub(super) fn knowing(request: LockRequest, dead: &'static str) -> LockRequest {
    let judge = move |holder: &Holder| {
        if holder.host == dead { Life::Dead } else { Life::Unknown }
    };
    LockRequest { judge: Arc::new(judge), ..request }
}

/// The names of all lock pools.
pub(super) async fn pools(rig: &Rig) -> Vec<String> {
    let all = rig.client(ADMIN).send(&pool::list()).await.unwrap();
    let names = all.into_iter().map(|pool| pool.id.to_string());
    names.filter(|name| name.starts_with("talmox-lock/")).collect()
}

/// Takes the lock for a run on the same machine, which detects at once that another process runs.
pub(super) async fn take_beside(rig: &Rig, host: &str) -> Result<ClusterLock, TakeError> {
    let request = LockRequest { judge: Arc::new(|_| Life::Alive), ..request(rig, host, LIVING) };
    cluster_lock::take(request).await
}

pub(super) async fn run_with(rig: &Rig, text: &str, fence: Fence) -> CompletedRun {
    let plan = rig.plan(text).await;
    let mut context = rig.context(text, None);
    context.locks = vec![fence];
    rig.carry_out_in(plan, context).await
}

/// The control planes of the two folders are in different orders. Without a lock, each run would bootstrap its own first one.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_runs_from_two_folders_one_runs_and_the_other_names_it() {
    let rig = Rig::start();
    let reordered = format!(
        "{HEAD}\ncontrolplane:\n  - {{name: cp-3, ip: 10.0.0.13}}\n  - {{name: cp-1, ip: 10.0.0.11}}\n  \
         - {{name: cp-2, ip: 10.0.0.12}}\nworkers:\n  - {{name: wk-1, ip: 10.0.0.21}}\n  - {{name: wk-2, ip: 10.0.0.22}}\n"
    );
    let (one, other) = (home(), reordered);
    let (first, second) = tokio::join!(take_beside(&rig, "laptop"), take_beside(&rig, "desktop"));
    let (lock, rejected, host, text) = match (first, second) {
        (Ok(lock), Err(rejected)) => (lock, rejected, "laptop", one),
        (Err(rejected), Ok(lock)) => (lock, rejected, "desktop", other),
        both => panic!("{both:?}"),
    };
    run_with(&rig, &text, lock.fence()).await.assert_done();
    lock.release().await.unwrap();
    let who = format!(
        "the cluster is in use by `talmox up` of home by somebody@{host} (process 4711, since 2026-11-17T04:20:00Z)"
    );
    assert_eq!(rejected.to_string(), who);
    assert_eq!(rig.lab.etcd_clusters(), 1);
    assert_eq!(pools(&rig).await, Vec::<String>::new(), "nothing is left behind");
}

/// Many runs find the same dead run at the same time, and one of them takes its lock over.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_lock_is_taken_over_by_one_of_several_runs() {
    const HOSTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let rig = Rig::start();
    drop(cluster_lock::take(request(&rig, "dead", LIVING)).await.unwrap());
    let mut takes = JoinSet::new();
    for host in HOSTS {
        takes.spawn(cluster_lock::take(knowing(request(&rig, host, LIVING), "dead")));
    }
    let taken = takes.join_all().await;
    let (held, rejected): (Vec<_>, Vec<_>) = taken.into_iter().partition(Result::is_ok);
    assert_eq!((held.len(), rejected.len()), (1, HOSTS.len() - 1), "{rejected:?}");
    let lock: ClusterLock = held.into_iter().next().unwrap().unwrap();
    for rejected in rejected {
        assert!(matches!(rejected, Err(TakeError::Held(_))), "{rejected:?}");
    }
    assert_eq!(pools(&rig).await, [lock.pool()]);
    lock.release().await.unwrap();
    assert_eq!(pools(&rig).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_without_renewal_is_taken_over_after_its_lease_and_not_before() {
    let rig = Rig::start();
    let silent = cluster_lock::take(request(&rig, "silent", SHORT)).await.unwrap();
    let clock = Clock::real();
    let start = clock.moment();
    let next = cluster_lock::take(request(&rig, "next", SHORT)).await.unwrap();
    let passed = clock.moment().since(start);
    assert!(passed >= SHORT.end, "{passed:?}");
    // A run on a machine that was suspended must not change anything.
    let lost = silent.fence().check().await.unwrap_err();
    let Unconfirmed::Lost(LockLost::TakenOver(by)) = lost else { panic!("{lost:?}") };
    assert_eq!(by.host, "next");
    silent.release().await.unwrap();
    next.fence().check().await.unwrap();
    assert_eq!(pools(&rig).await, [next.pool()], "who lost its lock leaves that of others alone");
}

/// The lock is renewed, and a waiting run detects that.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_renewed_is_never_taken_over() {
    let rig = Rig::start();
    let lock = cluster_lock::take(request(&rig, "living", LIVING)).await.unwrap();
    let patient = Lease { renew: Duration::from_millis(500), ..LIVING };
    let rejected = cluster_lock::take(request(&rig, "other", patient)).await.unwrap_err();
    assert!(matches!(rejected, TakeError::Held(_)), "{rejected:?}");
    lock.fence().check().await.unwrap();
}

/// Another user breaks the lock and takes it while machines boot. The run stops, and does not bootstrap etcd.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_loses_its_lock_stops_before_its_next_change() {
    let rig = Rig::start();
    let lock = cluster_lock::take(request(&rig, "laptop", Lease::default())).await.unwrap();
    let plan = rig.plan(&home()).await;
    let mut context = rig.context(&home(), None);
    context.locks = vec![lock.fence()];
    let (events, mut heard) = Events::channel(rig.lab.clock());
    let breaking = async {
        while let Some(event) = heard.recv().await {
            if matches!(&event.what, Event::StepStarted { step } if step == "talos/cp-1/apply") {
                break;
            }
        }
        let request = knowing(request(&rig, "desktop", LIVING), "laptop");
        cluster_lock::take(request).await.unwrap()
    };
    let cancel = Cancel::default();
    let running = async {
        let outcome = execute(&plan, &context, &cancel, &events).await;
        drop(events);
        outcome
    };
    let (outcome, other) = tokio::join!(running, breaking);
    let failures: Vec<String> = outcome.failures().flat_map(|(_, error)| error.causes()).collect();
    assert!(failures.iter().any(|cause| cause.contains("taken over by")), "{failures:?}");
    assert_eq!(rig.lab.etcd_clusters(), 0);
    other.fence().check().await.unwrap();
    other.release().await.unwrap();
    // The next run resumes.
    let lock = cluster_lock::take(request(&rig, "desktop", LIVING)).await.unwrap();
    run_with(&rig, &home(), lock.fence()).await.assert_done();
    lock.release().await.unwrap();
    assert_eq!(rig.lab.etcd_clusters(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_an_unknown_kind_is_not_changed() {
    let rig = Rig::start();
    cluster_lock::take(request(&rig, "laptop", SHORT)).await.unwrap().release().await.unwrap();
    let locked = cluster_lock::take(request(&rig, "laptop", SHORT)).await.unwrap();
    let pool = locked.pool().parse().unwrap();
    let admin = rig.client(ADMIN);
    admin.send(&pool::set_comment(&pool, "do not touch, maintenance")).await.unwrap();
    let rejected = cluster_lock::take(request(&rig, "other", SHORT)).await.unwrap_err();
    assert!(
        matches!(&rejected, TakeError::Unreadable { pool } if *pool == locked.pool()),
        "{rejected:?}"
    );
    let lost = locked.fence().check_now().await.unwrap_err();
    assert!(matches!(&lost, Unconfirmed::Lost(LockLost::Replaced(_))), "{lost:?}");
    let name = locked.pool();
    locked.release().await.unwrap();
    assert_eq!(pools(&rig).await, [name]);
    let comment = admin.send(&pool::get(&pool)).await.unwrap().comment;
    assert_eq!(comment.as_deref(), Some("do not touch, maintenance"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_the_right_is_reported_and_takes_no_lock() {
    for release in ["9.2", "8.4"] {
        let with = vec![("Pool.Allocate, Pool.Audit]", "Pool.Audit]".to_owned())];
        let rig = Rig::of(LabOptions { release, with, ..LabOptions::default() });
        let rejected = cluster_lock::take(request(&rig, "laptop", SHORT)).await.unwrap_err();
        assert!(matches!(rejected, TakeError::Forbidden(_)), "{rejected:?}");
        assert_eq!(pools(&rig).await, Vec::<String>::new());
    }
}

/// The right is granted on the parent pool of the locks. The parent pool is never deleted, because Proxmox deletes the access
/// entries of a pool with the pool.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_costs_five_requests_and_can_be_taken_again() {
    for release in ["9.2", "8.4"] {
        let rig = Rig::of(LabOptions { release, ..LabOptions::default() });
        for costs in [7, 5, 5] {
            let before = rig.recorded_requests().len();
            let lock = cluster_lock::take(request(&rig, "laptop", LIVING)).await.unwrap();
            lock.release().await.unwrap();
            let asked = rig.recorded_requests().split_off(before);
            assert!(asked.len() <= costs, "{asked:?}");
        }
    }
}

/// Requests whose answers are lost may have been carried out.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_leaves_no_second_lock() {
    let rig = Rig::start();
    rig.inject_fault("POST", "/pools", 1, talmox_lab::pve::Action::CutAfter);
    let lock = cluster_lock::take(request(&rig, "laptop", LIVING)).await.unwrap();
    assert_eq!(pools(&rig).await, [lock.pool()]);
}

/// A run that could not reach Proxmox for too long does not rely on an old read of its lock.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_confirmation_is_not_trusted() {
    let rig = Rig::start();
    let trust = Duration::from_millis(300);
    let lease = Lease { trust, ..SHORT };
    let lock = cluster_lock::take(request(&rig, "laptop", lease)).await.unwrap();
    let before = rig.recorded_requests().len();
    Clock::real().sleep(trust * 2).await;
    let message = "got lock request timeout".to_owned();
    let busy = talmox_lab::pve::Action::Reject { status: 500, message };
    rig.inject_fault("PUT", "/pools", 1, busy);
    let unsure = lock.fence().check().await.unwrap_err();
    assert!(matches!(unsure, Unconfirmed::Unanswered(_)), "{unsure:?}");
    lock.fence().check().await.unwrap();
    let asked = rig.recorded_requests().split_off(before);
    let renewal = ["GET /pools", "PUT /pools"];
    assert_eq!(asked, [&renewal[..], &renewal, &["GET /pools"]].concat());
}

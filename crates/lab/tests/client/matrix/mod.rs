//! Tests of every operation under every fault. The client must report the expected class of result. A caller that reads the
//! state before each retry must reach the same state as a run without faults. The operation must not be applied twice.

mod fault;
mod operation;
mod reading;
mod state_lines;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fault::{Class, FaultKind};
use operation::{IMAGE, Operation};
use state_lines::state_lines;
use talmox_lab::Settings;
use talmox_pve::Client;
use talmox_pve::api::qemu;
use tokio::sync::{Mutex, OnceCell};

use crate::rig::{RELEASES, Rig, TIMEOUT, WORKER, test_scenario, vm};
use crate::server;

/// Maximum number of attempts of an operation.
const TRIES: u32 = 100;

struct Cell {
    rig: Rig,
    /// Client that reads the state. Faults do not affect it.
    admin: Client,
    /// Client that runs the operation. A fault may revoke its token.
    worker: Client,
}

impl Cell {
    async fn new(release: &str, operation: &Operation, files: SocketAddr) -> Self {
        let reach = BTreeMap::from([("factory.example:80".to_owned(), files)]);
        let rig = Rig::start(Settings { reach, ..test_scenario(release) });
        let (admin, worker) = (rig.admin(), rig.token(WORKER));
        let cell = Self { rig, admin, worker };
        cell.prepare(operation).await;
        cell
    }

    async fn prepare(&self, operation: &Operation) {
        if let Some(before) = &operation.before {
            before.take(&self.admin).await.unwrap();
        }
    }

    /// Waits until the host is online again, and starts the VMs that ran on it.
    async fn restore_host(&self, operation: &Operation) {
        let lost = vm(102);
        while let Err(error) = self.admin.send(&qemu::current(&lost)).await {
            assert!(error.is_node_scoped(), "{error:?}");
            self.pause().await;
        }
        self.admin.run(&qemu::start(&lost), TIMEOUT).await.unwrap();
        if operation.step.is_proxied() {
            self.prepare(operation).await;
        }
    }

    /// State of the lab after all running tasks have ended.
    async fn state(&self) -> Vec<String> {
        self.rig.settle(&self.admin, &["pve1", "pve2"]).await;
        state_lines(&self.admin).await
    }

    async fn pause(&self) {
        self.rig.lab.clock().sleep(Duration::from_secs(5)).await;
    }
}

/// State before and after an operation without faults.
#[derive(Clone)]
struct ReferenceRun {
    before: Vec<String>,
    after: Vec<String>,
}

/// Results of the runs without faults, by release and operation. All faults share them.
static REFERENCE_RUNS: Mutex<BTreeMap<String, Arc<OnceCell<ReferenceRun>>>> =
    Mutex::const_new(BTreeMap::new());

async fn reference_run(release: &str, operation: &Operation, files: SocketAddr) -> ReferenceRun {
    let name = format!("{release} {}", operation.name);
    let cell = Arc::clone(REFERENCE_RUNS.lock().await.entry(name).or_default());
    let run = async || {
        let cell = Cell::new(release, operation, files).await;
        let before = cell.state().await;
        operation.step.take(&cell.worker).await.unwrap();
        ReferenceRun { before, after: cell.state().await }
    };
    cell.get_or_init(run).await.clone()
}

/// Runs one operation with one fault, and checks the result.
async fn run_under_fault(
    release: &str,
    fault_kind: FaultKind,
    operation: &Operation,
    files: SocketAddr,
) -> Result<(), String> {
    let ReferenceRun { before, after } = reference_run(release, operation, files).await;
    let cell = Cell::new(release, operation, files).await;
    cell.rig.lab.faults().add(fault_kind.fault(operation));
    let mut result = operation.step.take(&cell.worker).await;
    let (expected, class) = (fault_kind.class(operation), Class::of(&result));
    if class != expected {
        return Err(format!("expected {expected:?}, got {result:?}"));
    }
    if fault_kind == FaultKind::HostDown {
        cell.restore_host(operation).await;
    }
    for _ in 0..TRIES {
        let Err(error) = &result else { break };
        fault_kind.check(error);
        let found = cell.state().await;
        if class == Class::MaybeApplied && found == after {
            break;
        }
        if let (FaultKind::TaskFails, Some(mark)) = (fault_kind, operation.stuck_at) {
            return check_stuck(&cell, operation, mark, &before, &found).await;
        }
        if found != before {
            return Err(format!("half done: {}", difference(&before, &found)));
        }
        // The error was reported, and its cause is removed now. So the caller retries.
        cell.pause().await;
        let by = if fault_kind == FaultKind::TokenRevoked { &cell.admin } else { &cell.worker };
        result = operation.step.take(by).await;
        if fault_kind == FaultKind::StorageFull {
            // The storage is still full, so the retry must fail in the same way.
            let is_same = Class::of(&result) == class && cell.state().await == before;
            return if is_same { Ok(()) } else { Err(format!("at last {result:?}")) };
        }
    }
    let found = cell.state().await;
    if found == after {
        return Ok(());
    }
    Err(format!("not as undisturbed: {}", difference(&after, &found)))
}

/// Checks that a failed task left its mark in the VM config. Retries must be rejected and must not change the state.
async fn check_stuck(
    cell: &Cell,
    operation: &Operation,
    mark: &str,
    before: &[String],
    found: &[String],
) -> Result<(), String> {
    let more = found.iter().filter(|line| !before.contains(line));
    if let Some(line) = more.clone().find(|line| !line.contains(mark)) {
        return Err(format!("half done without `{mark}`: {line}"));
    }
    let again = operation.step.take(&cell.worker).await;
    let is_rejected = matches!(Class::of(&again), Class::Rejected | Class::TaskFailed);
    let same = cell.state().await == found;
    if more.count() > 0 && is_rejected && same {
        return Ok(());
    }
    Err(format!("not stuck at `{mark}`: {again:?}"))
}

/// Lines that are in only one of the two lists.
fn difference(wanted: &[String], found: &[String]) -> String {
    let missing = wanted.iter().filter(|line| !found.contains(line)).map(|line| format!("-{line}"));
    let more = found.iter().filter(|line| !wanted.contains(line)).map(|line| format!("+{line}"));
    missing.chain(more).collect::<Vec<_>>().join("\n    ")
}

async fn row(fault_kind: FaultKind) {
    let files = server::files(IMAGE);
    let mut wrong = vec![];
    for release in RELEASES {
        let changes = operation::common().into_iter().chain(operation::own(release));
        let reads = reading::common().into_iter().chain(reading::own(release));
        for operation in changes.chain(reads) {
            if let Err(text) = run_under_fault(release, fault_kind, &operation, files).await {
                wrong.push(format!("{release} {}: {text}", operation.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{fault_kind:?}\n{}", wrong.join("\n"));
}

/// Defines a test for each fault, so that the faults are tested concurrently.
macro_rules! rows {
    ($($name:ident: $fault_kind:ident,)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                row(FaultKind::$fault_kind).await;
            }
        )*
    };
}

rows! {
    rejected: Rejected,
    forbidden: Forbidden,
    late: Late,
    cut_before: CutBefore,
    cut_after: CutAfter,
    timed_out: TimedOut,
    task_fails: TaskFails,
    lock_lost: LockLost,
    lock_lost_in_task: LockLostInTask,
    storage_full: StorageFull,
    host_down: HostDown,
    token_revoked: TokenRevoked,
}

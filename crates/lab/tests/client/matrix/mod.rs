//! Every operation under every fault: the client says what happened by rule, and whoever looks before
//! trying again gets what an undisturbed run gets, once.

mod fault;
mod operation;
mod picture;
mod reading;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fault::{Class, Trouble};
use operation::{IMAGE, Operation};
use picture::picture;
use talmox_lab::Settings;
use talmox_pve::Client;
use talmox_pve::api::qemu;
use tokio::sync::{Mutex, OnceCell};

use crate::rig::{PATIENCE, RELEASES, Rig, WORKER, vm, yard};
use crate::server;

/// How often an operation is tried before it counts as impossible.
const TRIES: u32 = 100;

struct Cell {
    rig: Rig,
    /// Looks, undisturbed.
    admin: Client,
    /// Acts, and may lose its token.
    worker: Client,
}

impl Cell {
    async fn new(release: &str, operation: &Operation, files: SocketAddr) -> Self {
        let reach = BTreeMap::from([("factory.example:80".to_owned(), files)]);
        let rig = Rig::start(Settings { reach, ..yard(release) });
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

    /// Waits for the host that went down, and starts what ran on it.
    async fn bring_back(&self, operation: &Operation) {
        let lost = vm(102);
        while let Err(error) = self.admin.send(&qemu::current(&lost)).await {
            assert!(error.is_node_scoped(), "{error:?}");
            self.pause().await;
        }
        self.admin.run(&qemu::start(&lost), PATIENCE).await.unwrap();
        if operation.step.is_proxied() {
            self.prepare(operation).await;
        }
    }

    /// What there is once everything that runs has ended.
    async fn look(&self) -> Vec<String> {
        self.rig.settle(&self.admin, &["pve1", "pve2"]).await;
        picture(&self.admin).await
    }

    async fn pause(&self) {
        self.rig.lab.clock().sleep(Duration::from_secs(5)).await;
    }
}

/// What there is before and after an operation that nothing disturbs.
#[derive(Clone)]
struct Course {
    before: Vec<String>,
    after: Vec<String>,
}

/// Courses, by release and operation: they are the same for all faults.
static COURSES: Mutex<BTreeMap<String, Arc<OnceCell<Course>>>> = Mutex::const_new(BTreeMap::new());

async fn course(release: &str, operation: &Operation, files: SocketAddr) -> Course {
    let name = format!("{release} {}", operation.name);
    let cell = Arc::clone(COURSES.lock().await.entry(name).or_default());
    let run = async || {
        let cell = Cell::new(release, operation, files).await;
        let before = cell.look().await;
        operation.step.take(&cell.worker).await.unwrap();
        Course { before, after: cell.look().await }
    };
    cell.get_or_init(run).await.clone()
}

/// One operation under one fault.
async fn strike(
    release: &str,
    trouble: Trouble,
    operation: &Operation,
    files: SocketAddr,
) -> Result<(), String> {
    let Course { before, after } = course(release, operation, files).await;
    let cell = Cell::new(release, operation, files).await;
    cell.rig.lab.faults().add(trouble.fault(operation));
    let mut result = operation.step.take(&cell.worker).await;
    let (expected, class) = (trouble.class(operation), Class::of(&result));
    if class != expected {
        return Err(format!("expected {expected:?}, got {result:?}"));
    }
    if trouble == Trouble::HostDown {
        cell.bring_back(operation).await;
    }
    for _ in 0..TRIES {
        let Err(error) = &result else { break };
        trouble.check(error);
        let found = cell.look().await;
        if class == Class::MaybeApplied && found == after {
            break;
        }
        if let (Trouble::TaskFails, Some(mark)) = (trouble, operation.stuck) {
            return stuck(&cell, operation, mark, &before, &found).await;
        }
        if found != before {
            return Err(format!("half done: {}", difference(&before, &found)));
        }
        // What was refused is reported. Here the cause goes away, and somebody tries again.
        cell.pause().await;
        let by = if trouble == Trouble::TokenRevoked { &cell.admin } else { &cell.worker };
        result = operation.step.take(by).await;
        if trouble == Trouble::StorageFull {
            // No cause goes away by itself here, and trying harder does not help.
            let is_same = Class::of(&result) == class && cell.look().await == before;
            return if is_same { Ok(()) } else { Err(format!("at last {result:?}")) };
        }
    }
    let found = cell.look().await;
    if found == after {
        return Ok(());
    }
    Err(format!("not as undisturbed: {}", difference(&after, &found)))
}

/// A task that failed half way left its mark. Trying again is refused and makes nothing worse.
async fn stuck(
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
    let is_refused = matches!(Class::of(&again), Class::Rejected | Class::TaskFailed);
    let same = cell.look().await == found;
    if more.count() > 0 && is_refused && same {
        return Ok(());
    }
    Err(format!("not stuck at `{mark}`: {again:?}"))
}

/// What the one has and the other has not.
fn difference(wanted: &[String], found: &[String]) -> String {
    let missing = wanted.iter().filter(|line| !found.contains(line)).map(|line| format!("-{line}"));
    let more = found.iter().filter(|line| !wanted.contains(line)).map(|line| format!("+{line}"));
    missing.chain(more).collect::<Vec<_>>().join("\n    ")
}

async fn row(trouble: Trouble) {
    let files = server::files(IMAGE);
    let mut wrong = vec![];
    for release in RELEASES {
        let changes = operation::common().into_iter().chain(operation::own(release));
        let reads = reading::common().into_iter().chain(reading::own(release));
        for operation in changes.chain(reads) {
            if let Err(text) = strike(release, trouble, &operation, files).await {
                wrong.push(format!("{release} {}: {text}", operation.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{trouble:?}\n{}", wrong.join("\n"));
}

/// One test for every fault, so that they run side by side.
macro_rules! rows {
    ($($name:ident: $trouble:ident,)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                row(Trouble::$trouble).await;
            }
        )*
    };
}

rows! {
    refused: Refused,
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

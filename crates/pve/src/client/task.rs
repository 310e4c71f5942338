//! Tasks of Proxmox: starting a task, waiting for its end, and its result.

use std::convert::Infallible;
use std::time::Duration;

use talmox_clock::{Clock, Deadline, Wait};
use talmox_pve_types::api::task::{self, TaskState};
use talmox_pve_types::id::Upid;
use talmox_pve_types::request::{Request, Scope};

use super::{Client, Permits, trace};
use crate::error::{Lost, PveError, TaskFailure};

/// Shortest and longest interval between two status requests of a task.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(3);
/// The interval is the duration of the task so far, divided by this number. A short task is not delayed by a long
/// interval, and a long task does not cause many requests.
const SHARE: u32 = 10;
/// Time for which a new task may be unknown, or an ended task may lack its exit status. `LOOKS` is the minimum number
/// of status requests, because on a fast clock this time is over before the first answer.
const GRACE: Duration = Duration::from_secs(15);
const LOOKS: u32 = 6;
/// Time for which a task counts against the limits. A task that runs longer waits for something other than a disk, and
/// must not delay other tasks.
const LONGEST_PERMIT: Duration = Duration::from_mins(5);
/// Number of log lines that the error of a failed task contains.
const TAIL: u64 = 25;

/// Task that was started. It counts against the limits of its host and storages until this value is dropped. While a
/// caller waits for the task, it counts for `LONGEST_PERMIT` at most.
#[derive(Debug)]
pub struct Running {
    pub upid: Upid,
    pub(super) operation: String,
    pub(super) permits: Permits,
}

/// Successful task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDone {
    pub upid: Upid,
    pub warnings: u32,
}

impl Client {
    /// Waits for permits, sends the request, and waits for the end of the task.
    ///
    /// If a task was started and its result is unknown, the `MaybeApplied` error contains the UPID.
    pub async fn run(
        &self,
        request: &Request<Upid>,
        limit: Duration,
    ) -> Result<TaskDone, PveError> {
        let running = self.start(request).await?;
        Box::pin(self.finish(running, limit)).await
    }

    /// Waits for permits, and sends the request that starts the task.
    pub async fn start(&self, request: &Request<Upid>) -> Result<Running, PveError> {
        let room = self.room(request.scope()).await;
        self.start_in(room, request).await
    }

    /// Waits until the host and the storages of `scope` are below their limits.
    pub async fn room(&self, scope: &Scope) -> Permits {
        self.0.limiter.acquire(scope).await
    }

    /// Sends the request that starts a task. The task keeps the permits.
    pub async fn start_in(
        &self,
        permits: Permits,
        request: &Request<Upid>,
    ) -> Result<Running, PveError> {
        let upid = self.send_now(request).await?;
        Ok(Running { upid, operation: request.operation(), permits })
    }

    /// Waits for a started task, at most for `limit`.
    pub async fn finish(&self, running: Running, limit: Duration) -> Result<TaskDone, PveError> {
        Box::pin(self.finish_with(running, self.task_wait(limit))).await
    }

    /// Waits for a started task. `wait` reports if the state of the task cannot be read.
    pub async fn finish_with(
        &self,
        running: Running,
        wait: Wait<'_>,
    ) -> Result<TaskDone, PveError> {
        let Running { upid, operation, permits } = running;
        let release = async move {
            self.0.clock.sleep(LONGEST_PERMIT).await;
            drop(permits);
            std::future::pending::<Infallible>().await
        };
        let wait = wait.awaiting(format!("the task {} on {}", upid.kind(), upid.node()));
        tokio::select! {
            biased;
            done = self.follow(&upid, &operation, wait) => done,
            never = release => match never {},
        }
    }

    /// Waits at most `limit` for a task of which only the UPID is known, such as a task from before a crash.
    pub async fn wait(&self, upid: &Upid, limit: Duration) -> Result<TaskDone, PveError> {
        self.wait_with(upid, self.task_wait(limit)).await
    }

    /// Waits for a task of which only the UPID is known, such as a task of an earlier run.
    pub async fn wait_with(&self, upid: &Upid, wait: Wait<'_>) -> Result<TaskDone, PveError> {
        let operation = format!("{} {}", upid.kind(), upid.id());
        let wait = wait.awaiting(format!("the earlier task {} on {}", upid.kind(), upid.node()));
        Box::pin(self.follow(upid, &operation, wait)).await
    }

    fn task_wait(&self, limit: Duration) -> Wait<'static> {
        let clock = self.0.clock;
        Wait::new(clock, clock.deadline(limit), "a task")
    }

    async fn follow(
        &self,
        upid: &Upid,
        operation: &str,
        wait: Wait<'_>,
    ) -> Result<TaskDone, PveError> {
        let result = self.follow_to_end(upid, operation, wait).await;
        trace::task_ended(upid, operation, &result);
        result
    }

    async fn follow_to_end(
        &self,
        upid: &Upid,
        operation: &str,
        wait: Wait<'_>,
    ) -> Result<TaskDone, PveError> {
        let clock = self.0.clock;
        let chance = self.0.chance.of(upid.as_str(), 0);
        let mut wait = wait.pausing_longer(SHARE, SHORTEST, LONGEST, chance);
        let mut unknown = Grace::new(clock);
        let mut undecided = Grace::new(clock);
        wait.announce("");
        loop {
            let unread = match self.send(&task::status(upid)).await {
                Ok(TaskState::Done { warnings }) => {
                    return Ok(TaskDone { upid: upid.clone(), warnings });
                }
                Ok(TaskState::Failed { exit }) => {
                    return Err(self.failure(upid, operation, exit).await);
                }
                Ok(TaskState::Undecided) if undecided.is_over() => {
                    let exit = "the task stopped without an exit status".to_owned();
                    return Err(self.failure(upid, operation, exit).await);
                }
                Ok(TaskState::Running | TaskState::Undecided) => None,
                Err(error) if is_passing(&error, &mut unknown) => Some(error),
                Err(error) => return Err(unwatched(upid, operation, error)),
            };
            let waited = match &unread {
                None => wait.not_yet("").await,
                Some(error) => wait.no_answer(silence(error)).await,
            };
            if waited.is_err() {
                return Err(match unread {
                    Some(error) => unwatched(upid, operation, error),
                    None => PveError::lost(operation, Lost::Unfinished { upid: upid.clone() }),
                });
            }
        }
    }

    async fn failure(&self, upid: &Upid, operation: &str, exit: String) -> PveError {
        let log_tail = self.log_tail(upid).await.unwrap_or_default();
        TaskFailure { operation: operation.to_owned(), upid: upid.clone(), exit, log_tail }.into()
    }

    /// Last lines of a task log. The server counts lines from the start, so the number of lines is requested first.
    async fn log_tail(&self, upid: &Upid) -> Result<Vec<String>, PveError> {
        let first = self.send(&task::log(upid, 0, TAIL)).await?;
        match first.total {
            Some(total) if total > TAIL => {
                Ok(self.send(&task::log(upid, total - TAIL, TAIL)).await?.lines)
            }
            _ => Ok(first.lines),
        }
    }
}

/// Time for which an unexpected answer is tolerated. It starts at the first unexpected answer.
struct Grace {
    clock: Clock,
    until: Option<Deadline>,
    looks: u32,
}

impl Grace {
    fn new(clock: Clock) -> Self {
        Self { clock, until: None, looks: 0 }
    }

    /// Whether the time is over. Call this once for every unexpected answer.
    fn is_over(&mut self) -> bool {
        self.looks += 1;
        let until = self.until.get_or_insert_with(|| self.clock.deadline(GRACE));
        self.looks > LOOKS && until.has_passed()
    }
}

/// Reason why the state of a task could not be read.
fn silence(error: &PveError) -> String {
    match error.silent_node() {
        Some(host) => format!("the host {host} does not answer"),
        None => error.to_string(),
    }
}

/// Whether the next status request may succeed: the connection to the node failed, or the node does not list the new
/// task yet.
fn is_passing(error: &PveError, unknown: &mut Grace) -> bool {
    match error {
        PveError::NotSent { .. } | PveError::MaybeApplied { .. } => true,
        PveError::Rejected(_) => error.is_not_found() && !unknown.is_over(),
        PveError::TaskFailed(_) => false,
    }
}

fn unwatched(upid: &Upid, operation: &str, source: PveError) -> PveError {
    PveError::lost(operation, Lost::Unwatched { upid: upid.clone(), source: Box::new(source) })
}

//! Context of steps.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use talmox_clock::{Cancel, Clock, PausableDeadline, Wait, WaitDeadline};
use talmox_plan::plan::StepId;
use talmox_pve::Client;

use super::vm_cache::VmCache;
use super::{ErrorKind, StepCode, StepError, UnfinishedSteps};
use crate::access::ClusterAccess;
use crate::cluster_lock::{Fence, Unconfirmed};
use crate::event::{Event, Events};
use crate::timeouts::NODE_PAUSE;
use crate::web::Web;

/// Context that all steps of a run share.
#[derive(Clone)]
pub struct Context {
    pub clock: Clock,
    pub pve: Client,
    pub web: Web,
    /// Access to Talos and Kubernetes. None for a plan that concerns only VMs.
    pub cluster: Option<ClusterAccess>,
    /// Locks of the run in Proxmox. The run must hold all of them at every change.
    pub locks: Vec<Fence>,
    /// Seed of the random part of pauses.
    pub seed: u64,
    /// Hook with which tests end a run at a certain point.
    pub cut: Option<CutHook>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("pve", &self.pve).finish_non_exhaustive()
    }
}

/// Function with which tests decide whether a step continues at a certain point.
pub type CutHook = Arc<dyn Fn(&StepId, Moment) -> Cut + Send + Sync>;

/// A point in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// The step starts, and has not read anything yet.
    Begin,
    /// Before a change.
    BeforeAct,
    /// After a change, before the step handles its result.
    AfterAct,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Go,
    /// The run ends at once, as if the process had been killed.
    Crash,
    /// The step fails.
    Fail,
}

/// How the locks of the run are checked before a change.
#[derive(Clone, Copy, Debug)]
enum LockCheck {
    /// The result of an earlier read of the locks is used if that read started at most `Lease::fresh` ago.
    Shared,
    /// The locks are read now.
    Own,
}

/// Context of one step.
#[derive(Clone, Debug)]
pub struct StepContext {
    pub run: Context,
    pub step: StepId,
    /// Deadline of all attempts together.
    pub deadline: PausableDeadline,
    /// Number of this attempt, counted from 1.
    pub attempt: u32,
    /// The reason of the wait that was reported last. Empty if no wait was reported.
    pub(crate) last_wait: Arc<Mutex<String>>,
    /// The request that Proxmox has not answered yet.
    pub(crate) open_request: Arc<Mutex<Option<String>>>,
    /// Whether a task may be running in Proxmox for this step.
    pub(crate) has_task: Arc<AtomicBool>,
    pub(crate) vm_cache: VmCache,
    pub(crate) unfinished: UnfinishedSteps,
    pub(crate) events: Events,
    pub(crate) cancel: Cancel,
}

impl StepContext {
    pub(super) fn cluster(&self) -> Result<&ClusterAccess, StepError> {
        let access = self.run.cluster.as_ref();
        access.ok_or_else(|| {
            StepError::failed(
                StepCode::SecretsUnusable,
                "the secrets of the cluster are not available",
            )
        })
    }

    /// Reports that the step waits for `what`, such as `Proxmox to answer`.
    pub(super) fn waits_for(&self, what: impl Into<String>) {
        self.report_wait(&format!("waiting for {}", what.into()));
    }

    /// Reports the line of a [`Wait`].
    pub(super) fn report_wait(&self, line: &str) {
        let (step, reason) = (self.step.to_string(), line.to_owned());
        self.last_wait.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&reason);
        *self.open_request.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.events.send(Event::StepWaits { step, reason });
    }

    /// Runs `work`, which only reads, and reports a wait for `what` meanwhile. This does not count as a wait: a step that made no change
    /// and did not wait has the result `already`.
    pub(super) async fn asks<T>(
        &self,
        what: impl Into<String>,
        work: impl Future<Output = T>,
    ) -> Result<T, StepError> {
        let before = self.last_reason();
        self.waits_for(what);
        let answer = self.wait(work).await?;
        *self.last_wait.lock().unwrap_or_else(PoisonError::into_inner) = before;
        Ok(answer)
    }

    /// The reason of the wait that was reported last. Empty if no wait was reported.
    pub fn last_reason(&self) -> String {
        self.last_wait.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores a request to Proxmox until it is answered. The request is not reported as a wait, because answers are quick. If
    /// no answer comes, the request is the reason of the timeout.
    pub(super) async fn answered<T>(&self, operation: String, call: impl Future<Output = T>) -> T {
        *self.open_request.lock().unwrap_or_else(PoisonError::into_inner) = Some(operation);
        let answer = call.await;
        *self.open_request.lock().unwrap_or_else(PoisonError::into_inner) = None;
        answer
    }

    /// The request that is not answered. If there is none, the reason of the last wait. Empty if there is neither.
    pub(crate) fn unanswered_or_last_reason(&self) -> String {
        let asked = self.open_request.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match asked {
            Some(operation) => format!("Proxmox does not answer {operation}"),
            None => self.last_reason(),
        }
    }

    /// Returns an error if one of these steps failed or was skipped, because it is useless to wait for the effect of that
    /// step.
    pub(super) fn still_needs(&self, steps: &[StepId]) -> Result<(), StepError> {
        match steps.iter().find(|step| self.unfinished.has(step)) {
            Some(step) => Err(StepError::blocked(step.clone())),
            None => Ok(()),
        }
    }

    /// Reports information about the running step.
    pub fn note(&self, text: impl Into<String>) {
        let (step, text) = (self.step.to_string(), text.into());
        self.events.send(Event::StepNote { step, text });
    }

    /// Reports the progress of a transfer. Most calls of the returned function report nothing, so it may be called often.
    pub fn progress(&self, total: Option<u64>) -> impl FnMut(u64) + Send + 'static {
        let (events, step) = (self.events.clone(), self.step.to_string());
        let grain = total.map_or(16 << 20, |total| (total / 100).max(1 << 20));
        let mut reported = None;
        move |bytes| {
            let is_end = Some(bytes) == total;
            if is_end || reported.is_none_or(|reported| bytes >= reported + grain) {
                reported = Some(bytes);
                events.send(Event::StepProgress { step: step.clone(), bytes, total });
            }
        }
    }

    /// Makes a change, after a check of the locks. Changes at about the same time share one check. Cancelling does not interrupt
    /// a change that has started, so `act` must not wait for long. Tests may end the run before and after the change.
    pub fn act<T>(
        &self,
        act: impl Future<Output = Result<T, StepError>>,
    ) -> impl Future<Output = Result<T, StepError>> {
        self.act_after(LockCheck::Shared, act)
    }

    /// Makes a change that two runs must never make both. The locks are read for this change alone.
    pub fn act_alone<T>(
        &self,
        act: impl Future<Output = Result<T, StepError>>,
    ) -> impl Future<Output = Result<T, StepError>> {
        self.act_after(LockCheck::Own, act)
    }

    async fn act_after<T>(
        &self,
        check: LockCheck,
        act: impl Future<Output = Result<T, StepError>>,
    ) -> Result<T, StepError> {
        if self.cancel.is_cancelled() {
            return Err(StepError::cancelled());
        }
        let checking = Box::pin(self.check_locks(check));
        tokio::select! {
            biased;
            // The check is polled first, because a lost lock also cancels the steps, and the reason of the loss must be
            // reported.
            checked = checking => checked?,
            () = self.cancel.cancelled() => return Err(StepError::cancelled()),
        }
        self.cut(Moment::BeforeAct)?;
        let done = act.await?;
        self.cut(Moment::AfterAct)?;
        Ok(done)
    }

    /// Checks that the run still holds its locks. A run that lost a lock must not change anything, because another run may
    /// work on the cluster.
    async fn check_locks(&self, check: LockCheck) -> Result<(), StepError> {
        for lock in &self.run.locks {
            let checked = match check {
                LockCheck::Shared => lock.check().await,
                LockCheck::Own => lock.check_now().await,
            };
            match checked {
                Ok(()) => {}
                Err(Unconfirmed::Lost(lost)) => return Err(StepError::lock_lost(lost)),
                // The step is retried and asks Proxmox again, until its deadline.
                Err(unconfirmed) => {
                    return Err(StepError::locked(
                        StepCode::ClusterLockUnconfirmed,
                        "this run must know that it holds its lock",
                    )
                    .caused_by(unconfirmed));
                }
            }
        }
        Ok(())
    }

    /// A wait for `what`, a condition of a node or of the cluster. Cancelling the run ends the wait.
    pub(super) fn cancellable_wait(
        &self,
        deadline: impl Into<WaitDeadline>,
        what: impl Into<String>,
    ) -> Wait<'_> {
        Wait::new(self.run.clock, deadline, what)
            .pausing(NODE_PAUSE)
            .cancelled_by(&self.cancel)
            .reporting(move |line| self.report_wait(line))
    }

    /// Runs a future that changes nothing, until the run is cancelled.
    pub async fn wait<T>(&self, waiting: impl Future<Output = T>) -> Result<T, StepError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(StepError::cancelled()),
            done = waiting => Ok(done),
        }
    }

    /// Runs a future that reads the result of a change. Cancelling does not end it if a task may be running in Proxmox for this step.
    pub(super) async fn see<T>(&self, looking: impl Future<Output = T>) -> Result<T, StepError> {
        let given_up = async {
            if self.has_started_task() {
                std::future::pending::<()>().await;
            }
            self.cancel.cancelled().await;
        };
        tokio::select! {
            biased;
            () = given_up => Err(StepError::cancelled()),
            done = looking => Ok(done),
        }
    }

    /// Stores whether a task may be running in Proxmox for this step.
    pub(super) fn set_started_task(&self, has_started_task: bool) {
        self.has_task.store(has_started_task, Ordering::Relaxed);
    }

    pub(super) fn has_started_task(&self) -> bool {
        self.has_task.load(Ordering::Relaxed)
    }

    /// Pauses, at most until the deadline.
    pub async fn pause(&self, time: Duration) -> Result<(), StepError> {
        self.wait(self.run.clock.sleep(time.min(self.deadline.left()))).await
    }

    /// Pauses between two reads of the result of a change.
    pub(crate) async fn pause_to_see(&self, time: Duration) -> Result<(), StepError> {
        self.see(self.run.clock.sleep(time.min(self.deadline.left()))).await
    }

    pub(crate) fn cut(&self, moment: Moment) -> Result<(), StepError> {
        match self.run.cut.as_ref().map_or(Cut::Go, |cut| cut(&self.step, moment)) {
            Cut::Go => Ok(()),
            Cut::Crash => Err(StepError {
                kind: ErrorKind::Cut,
                ..StepError::failed(StepCode::InjectedFault, "cut off")
            }),
            Cut::Fail => Err(StepError::failed(StepCode::InjectedFault, "failed by a test")),
        }
    }
}

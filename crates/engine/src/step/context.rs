//! What steps work with.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use talmox_clock::Clock;
use talmox_plan::plan::StepId;
use talmox_pve::Client;

use super::vm_cache::VmCache;
use super::{ErrorKind, StepCode, StepDeadline, StepError, UnfinishedSteps};
use crate::access::ClusterAccess;
use crate::cancel::Cancel;
use crate::cluster_lock::{Fence, Unconfirmed};
use crate::event::{Event, Events};
use crate::web::Web;

/// What all steps of a run share.
#[derive(Clone)]
pub struct Context {
    pub clock: Clock,
    pub pve: Client,
    pub web: Web,
    /// How the cluster itself is spoken to; nothing where a plan is about VMs alone.
    pub cluster: Option<ClusterAccess>,
    /// The locks of the run in Proxmox. Each must be held at every change.
    pub locks: Vec<Fence>,
    /// What jitter is drawn from.
    pub seed: u64,
    /// For tests that cut a run off at a certain point.
    pub cut: Option<CutHook>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("pve", &self.pve).finish_non_exhaustive()
    }
}

/// Says what becomes of a step at a certain point in it.
pub type CutHook = Arc<dyn Fn(&StepId, Moment) -> Cut + Send + Sync>;

/// A point in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// The step begins, and has not looked at anything yet.
    Begin,
    /// Something is about to be changed.
    BeforeAct,
    /// Something was changed, and the step is about to learn of it.
    AfterAct,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Go,
    /// Everything ends here and now, as if the process had been killed.
    Crash,
    /// The step fails.
    Fail,
}

/// What one step works with.
#[derive(Clone, Debug)]
pub struct StepContext {
    pub run: Context,
    pub step: StepId,
    /// Until when the step must be done, all attempts together.
    pub deadline: StepDeadline,
    /// Which attempt this is, counted from 1.
    pub attempt: u32,
    /// What it said last about what it waits for.
    pub(crate) told: Arc<Mutex<String>>,
    /// What Proxmox was asked and has not answered yet.
    pub(crate) asked: Arc<Mutex<Option<String>>>,
    /// Whether Proxmox was made to do something, and did not say no.
    pub(crate) begun: Arc<AtomicBool>,
    pub(crate) seen: VmCache,
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
                "the secrets of the cluster are not at hand",
            )
        })
    }

    /// Says what is waited for now.
    pub fn waits(&self, reason: impl Into<String>) {
        let (step, reason) = (self.step.to_string(), reason.into());
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&reason);
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.events.send(Event::StepWaits { step, reason });
    }

    /// Says what is waited for while something is only asked. That makes a step no less `already` done: nothing
    /// came about meanwhile that was not there before.
    pub(super) async fn asks<T>(
        &self,
        reason: impl Into<String>,
        work: impl Future<Output = T>,
    ) -> Result<T, StepError> {
        let before = self.last_reason();
        self.waits(reason);
        let answer = self.wait(work).await?;
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = before;
        Ok(answer)
    }

    /// What it said last about what it waits for; nothing if it did not say.
    pub fn last_reason(&self) -> String {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers what Proxmox is asked until it answers. That is quick, and not worth a word each time; but where no
    /// answer comes, it is the reason.
    pub(super) async fn answered<T>(&self, operation: String, call: impl Future<Output = T>) -> T {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(operation);
        let answer = call.await;
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = None;
        answer
    }

    /// Why it goes on no further: a question without an answer, or else what it said last; nothing if it did not
    /// say.
    pub(crate) fn unanswered_or_last_reason(&self) -> String {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match asked {
            Some(operation) => format!("Proxmox does not answer {operation}"),
            None => self.last_reason(),
        }
    }

    /// Waiting makes no sense once one of these steps did not get done.
    pub(super) fn still_needs(&self, steps: &[StepId]) -> Result<(), StepError> {
        match steps.iter().find(|step| self.unfinished.has(step)) {
            Some(step) => Err(StepError::blocked(step.clone())),
            None => Ok(()),
        }
    }

    /// Says something that a person should know, though the step goes on.
    pub fn note(&self, text: impl Into<String>) {
        let (step, text) = (self.step.to_string(), text.into());
        self.events.send(Event::StepNote { step, text });
    }

    /// Says how much of a transfer is done. Whoever calls this often is heard now and then.
    pub fn progress(&self, total: Option<u64>) -> impl FnMut(u64) + Send + 'static {
        let (events, step) = (self.events.clone(), self.step.to_string());
        let grain = total.map_or(16 << 20, |total| (total / 100).max(1 << 20));
        let mut told = None;
        move |bytes| {
            let is_end = Some(bytes) == total;
            if is_end || told.is_none_or(|told| bytes >= told + grain) {
                told = Some(bytes);
                events.send(Event::StepProgress { step: step.clone(), bytes, total });
            }
        }
    }

    /// Changes something. It is never broken off by us once it has begun, so it must not wait for
    /// long; tests may cut the run before and after it.
    pub async fn act<T>(
        &self,
        act: impl Future<Output = Result<T, StepError>>,
    ) -> Result<T, StepError> {
        if self.cancel.is_cancelled() {
            return Err(StepError::cancelled());
        }
        Box::pin(self.check_locks()).await?;
        self.cut(Moment::BeforeAct)?;
        let done = act.await?;
        self.cut(Moment::AfterAct)?;
        Ok(done)
    }

    /// Keeps a run that lost its lock from changing anything: another run works on the cluster.
    async fn check_locks(&self) -> Result<(), StepError> {
        for lock in &self.run.locks {
            match lock.check().await {
                Ok(()) => {}
                Err(Unconfirmed::Lost(lost)) => return Err(StepError::lock_lost(lost)),
                // Proxmox is asked again for as long as the step has time.
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

    /// Waits for something that goes on without us, until somebody wants to stop.
    pub async fn wait<T>(&self, waiting: impl Future<Output = T>) -> Result<T, StepError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(StepError::cancelled()),
            done = waiting => Ok(done),
        }
    }

    /// Looks what became of what was begun: that is seen to its end, also by who wants to stop. Where nothing was begun it
    /// is given up like any other wait.
    pub(super) async fn see<T>(&self, looking: impl Future<Output = T>) -> Result<T, StepError> {
        let given_up = async {
            if self.has_begun() {
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

    /// From here on Proxmox may be at work for this step, or not any more.
    pub(super) fn set_begun(&self, has_begun: bool) {
        self.begun.store(has_begun, Ordering::Relaxed);
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Waits a little, but not past the deadline.
    pub async fn pause(&self, time: Duration) -> Result<(), StepError> {
        self.wait(self.run.clock.sleep(time.min(self.deadline.left()))).await
    }

    /// The same between two looks at what was begun.
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
            Cut::Fail => Err(StepError::failed(StepCode::InjectedFault, "failed on order")),
        }
    }
}

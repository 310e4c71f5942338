//! The executor runs the steps of a plan, as many at the same time as possible.
//!
//! The executor makes no decisions. A step starts as soon as all steps that it depends on are done. The Proxmox client limits
//! the load of hosts and storages. If a step fails, the steps that depend on it are skipped. No change is undone: a run that
//! failed or was killed is resumed with a new plan.

mod attempt;
mod cleanup;
mod graph;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};

use talmox_clock::PausableDeadline;
use talmox_plan::plan::{Plan, Step, StepId};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tracing::{Instrument as _, info_span};

use crate::cluster_lock::{self, LockLost};
use crate::event::{Event, Events, RunEnd, StepEnd, StepInfo};
use crate::step::{
    Context, Done, ErrorKind, StepCode, StepContext, StepError, UnfinishedSteps, VmCache,
};
use graph::Graph;

pub use talmox_clock::Cancel;

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    pub end: RunEnd,
    /// The steps with their results, in the order of the plan.
    pub steps: Vec<(StepId, StepResult)>,
}

/// Result of a step.
#[derive(Debug)]
pub enum StepResult {
    Done,
    /// The step had nothing to do.
    Already,
    Failed(StepError),
    /// A step that this step depends on failed or was skipped.
    Blocked {
        by: StepId,
    },
    /// The run was cancelled before the step was done, or before it started.
    Cancelled,
}

impl Outcome {
    pub fn is_done(&self) -> bool {
        self.end == RunEnd::Done
    }

    /// The steps that failed, with their errors.
    pub fn failures(&self) -> impl Iterator<Item = (&StepId, &StepError)> {
        self.steps.iter().filter_map(|(step, result)| match result {
            StepResult::Failed(error) => Some((step, error)),
            _ => None,
        })
    }

    /// Number of skipped steps.
    pub fn blocked(&self) -> usize {
        self.steps.iter().filter(|(_, result)| matches!(result, StepResult::Blocked { .. })).count()
    }
}

/// Runs a plan.
pub async fn execute(plan: &Plan, context: &Context, cancel: &Cancel, events: &Events) -> Outcome {
    let started = context.clock.moment();
    let steps: Vec<Arc<Step>> = plan.steps.iter().cloned().map(Arc::new).collect();
    events.send(Event::RunStarted {
        cluster: plan.cluster.clone(),
        steps: plan.steps.iter().map(info).collect(),
    });
    let mut run = Run {
        context,
        cancel,
        events,
        vm_cache: VmCache::default(),
        unfinished: UnfinishedSteps::default(),
        stop: Cancel::default(),
        lost: None,
        quorum: Arc::default(),
        graph: Graph::new(plan.steps.iter().map(|step| (&step.id, step.after.as_slice()))),
        results: steps.iter().map(|_| None).collect(),
        held: vec![],
        steps,
        running: JoinSet::new(),
    };
    let is_killed = run.run_steps().await;
    if !is_killed {
        run.clean_up().await;
    }
    let outcome = run.outcome();
    let seconds = context.clock.moment().since(started).as_secs_f64();
    events.send(Event::RunEnded { end: outcome.end, seconds });
    outcome
}

fn info(step: &Step) -> StepInfo {
    StepInfo {
        step: step.id.to_string(),
        node: step.node.clone(),
        after: step.after.iter().map(ToString::to_string).collect(),
    }
}

/// A plan that is running.
struct Run<'a> {
    context: &'a Context,
    cancel: &'a Cancel,
    events: &'a Events,
    vm_cache: VmCache,
    unfinished: UnfinishedSteps,
    /// Cancels the running steps. Set after a cancellation was reported, or when the run has lost its lock.
    stop: Cancel,
    /// Why the run lost its lock. None while the run holds it. After the loss, the run makes no more changes, because another
    /// run may change the cluster.
    lost: Option<LockLost>,
    /// Mutex that a step holds while it changes the voting members of etcd.
    quorum: Arc<Mutex<()>>,
    steps: Vec<Arc<Step>>,
    graph: Graph,
    results: Vec<Option<StepResult>>,
    /// Skipped steps that may have to run at the end of a failed run, each with its result if it does not run.
    held: Vec<(usize, StepResult)>,
    running: JoinSet<(usize, Result<Done, StepError>)>,
}

impl Run<'_> {
    /// Runs the steps until none is left. Returns whether a test killed the run.
    async fn run_steps(&mut self) -> bool {
        let locks = self.context.locks.clone();
        let mut losing = std::pin::pin!(cluster_lock::lost(&locks));
        loop {
            if let Some(lost) = &self.lost {
                let mut failed = Some(StepError::lock_lost(lost.clone()));
                self.stop.cancel();
                for step in self.graph.give_up() {
                    let failed = failed.take().map(StepResult::Failed);
                    self.end(step, failed.unwrap_or(StepResult::Cancelled));
                }
            }
            if self.cancel.is_cancelled() {
                if !self.stop.is_cancelled() {
                    self.events.send(Event::RunStopping);
                    self.stop.cancel();
                }
                for step in self.graph.give_up() {
                    self.end(step, StepResult::Cancelled);
                }
            }
            while let Some(step) = self.graph.take() {
                self.begin(step);
            }
            let ended = tokio::select! {
                ended = self.running.join_next() => ended,
                // A cancellation is handled once: afterwards there is no step left to cancel.
                () = self.cancel.cancelled(), if !self.cancel.is_cancelled() => continue,
                lost = &mut losing, if self.lost.is_none() => {
                    self.lost = Some(lost);
                    continue;
                }
            };
            // Joining a step does not fail: panics of steps are caught, and only a test aborts steps.
            let Some(Ok((step, result))) = ended else { return false };
            if matches!(&result, Err(error) if error.kind == ErrorKind::Cut) {
                self.running.abort_all();
                self.results[step] = result.err().map(StepResult::Failed);
                return true;
            }
            self.take_result(step, result);
        }
    }

    /// Runs skipped steps that remove secrets from a storage. A run that was cancelled, or that lost its lock, makes no more
    /// changes; the next run removes the secrets then.
    async fn clean_up(&mut self) {
        for (step, result) in std::mem::take(&mut self.held) {
            let results = &self.results;
            let is_done =
                |at: usize| matches!(results[at], Some(StepResult::Done | StepResult::Already));
            let is_skipped = |at: usize| matches!(results[at], Some(StepResult::Blocked { .. }));
            let may_run = !self.cancel.is_cancelled() && self.lost.is_none();
            if may_run && cleanup::is_needed(&self.steps, step, is_done, is_skipped) {
                self.begin(step);
            } else {
                self.end(step, result);
            }
        }
        while let Some(Ok((step, result))) = self.running.join_next().await {
            self.take_result(step, result);
        }
    }

    fn begin(&mut self, number: usize) {
        let step = Arc::clone(&self.steps[number]);
        let quorum = step.action.burden().quorum.then(|| Arc::clone(&self.quorum));
        let events = self.events.clone();
        let (run, vm_cache) = (self.context.clone(), self.vm_cache.clone());
        let cancel = self.stop.clone();
        let unfinished = self.unfinished.clone();
        // API calls of a step are traced in the span of that step.
        let span = info_span!(target: "talmox::run", "step", step = step.id.as_str());
        let work = async move {
            let _turn = match quorum {
                Some(quorum) => Some(quorum.lock_owned().await),
                None => None,
            };
            events.send(Event::StepStarted { step: step.id.to_string() });
            let started = run.clock.moment();
            let clock = run.clock;
            let context = StepContext {
                deadline: PausableDeadline::new(clock, step.action.deadline()),
                step: step.id.clone(),
                attempt: 1,
                last_wait: Arc::default(),
                open_request: Arc::default(),
                has_task: Arc::default(),
                run,
                vm_cache,
                unfinished,
                cancel,
                events: events.clone(),
            };
            let last_wait = Arc::clone(&context.last_wait);
            let attempts = attempt::attempt(&step.action, context);
            let result = Box::pin(caught(attempts)).await;
            let has_waited = !last_wait.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            let end = match &result {
                // A step that waited was not already done.
                Ok(Done::Already) if has_waited => StepEnd::Done,
                Ok(Done::Acted) => StepEnd::Done,
                Ok(Done::Already) => StepEnd::Already,
                Err(error) => error.end(),
            };
            let seconds = clock.moment().since(started).as_secs_f64();
            events.send(Event::StepEnded { step: step.id.to_string(), end, seconds });
            (number, result)
        };
        self.running.spawn(work.instrument(span));
    }

    fn take_result(&mut self, step: usize, result: Result<Done, StepError>) {
        let result = match result {
            Ok(done) => {
                self.graph.succeeded(step);
                match done {
                    Done::Acted => StepResult::Done,
                    Done::Already => StepResult::Already,
                }
            }
            Err(error) => {
                let is_cancelled = error.kind == ErrorKind::Cancelled;
                self.unfinished.add(self.steps[step].id.clone());
                for (blocked, cause) in self.graph.failed(step) {
                    let result = if is_cancelled {
                        StepResult::Cancelled
                    } else {
                        StepResult::Blocked { by: self.steps[cause].id.clone() }
                    };
                    self.unfinished.add(self.steps[blocked].id.clone());
                    if cleanup::is_cleanup(&self.steps[blocked]) {
                        self.held.push((blocked, result));
                    } else {
                        self.end(blocked, result);
                    }
                }
                match error.kind {
                    ErrorKind::Cancelled => StepResult::Cancelled,
                    ErrorKind::Blocked { by } => StepResult::Blocked { by },
                    _ => StepResult::Failed(error),
                }
            }
        };
        self.results[step] = Some(result);
    }

    /// Ends a step that was not started.
    fn end(&mut self, step: usize, result: StepResult) {
        let end = match &result {
            StepResult::Blocked { by } => StepEnd::Blocked { by: by.to_string() },
            StepResult::Failed(error) => error.end(),
            _ => StepEnd::Cancelled,
        };
        let id = self.steps[step].id.to_string();
        self.events.send(Event::StepEnded { step: id, end, seconds: 0.0 });
        self.results[step] = Some(result);
    }

    fn outcome(self) -> Outcome {
        let mut results: Vec<StepResult> = self
            .results
            .into_iter()
            .map(|result| result.unwrap_or(StepResult::Cancelled))
            .collect();
        // Steps that were running when the lock was lost are only marked as cancelled, so one of them gets the error.
        let is_failed = results.iter().any(|result| matches!(result, StepResult::Failed(_)));
        let stopped = results.iter_mut().find(|result| matches!(result, StepResult::Cancelled));
        if let (Some(lost), Some(stopped), false) = (self.lost, stopped, is_failed) {
            *stopped = StepResult::Failed(StepError::lock_lost(lost));
        }
        let steps: Vec<_> = self.steps.iter().map(|step| step.id.clone()).zip(results).collect();
        let any = |is: fn(&StepResult) -> bool| steps.iter().any(|(_, result)| is(result));
        let end = if any(|result| matches!(result, StepResult::Failed(_))) {
            RunEnd::Failed
        } else if any(|result| matches!(result, StepResult::Cancelled)) {
            RunEnd::Cancelled
        } else {
            RunEnd::Done
        };
        Outcome { end, steps }
    }
}

/// Turns a panic into an error of the step, so that the other steps continue.
async fn caught(work: impl Future<Output = Result<Done, StepError>>) -> Result<Done, StepError> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| std::task::Poll::Ready(Err(bug(panic.as_ref()))))
    })
    .await
}

fn bug(panic: &(dyn Any + Send)) -> StepError {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "a panic without a message".to_owned());
    StepError::failed(StepCode::Bug, format!("this is a bug in talmox: {text}"))
        .hint("report it; the other steps were not affected")
}

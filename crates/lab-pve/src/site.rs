//! The running simulation: the world, and all that calls and tasks share.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value as Json;
use talmox_clock::{Chance, Clock};
use talmox_lab_environment::{Environment, Work};
use tokio::task::AbortHandle;

use super::Refusal;
use super::call::{Outcome, Reply};
use super::guest::Guests;
use super::lock::Locks;
use super::task::TaskHandle;
use super::world::{Caller, World};
use super::{ha, sampler};
use crate::blob::Blobs;

pub struct Site {
    pub clock: Clock,
    pub blobs: Blobs,
    pub(crate) locks: Locks,
    pub environment: Arc<Environment>,
    pub guests: Guests,
    world: Mutex<World>,
    /// What runs now, by UPID.
    running: Mutex<HashMap<String, AbortHandle>>,
    /// UPIDs of tasks that could not be started, until their callers have the error.
    unstarted: Mutex<HashSet<String>>,
    /// Of the certificate that the hosts show.
    fingerprint: String,
}

impl Site {
    pub fn new(world: World, blobs: Blobs, environment: Arc<Environment>) -> Self {
        let clock = environment.clock;
        Self {
            clock,
            blobs,
            locks: Locks::new(clock),
            environment,
            guests: Guests::default(),
            world: Mutex::new(world),
            running: Mutex::default(),
            unstarted: Mutex::default(),
            fingerprint: String::new(),
        }
    }

    #[must_use]
    pub fn with_fingerprint(self, fingerprint: String) -> Self {
        Self { fingerprint, ..self }
    }

    /// SHA-256 of the certificate that the hosts show, as `/nodes` has it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Starts what runs on the hosts by itself: the status daemon and the HA manager. They end with
    /// the site.
    pub fn start_daemons(self: &Arc<Self>) {
        tokio::spawn(sampler::run(Arc::downgrade(self)));
        tokio::spawn(ha::run(Arc::downgrade(self)));
    }

    /// The world, for as long as it takes to look or to change something; never across a wait.
    pub fn world(&self) -> MutexGuard<'_, World> {
        // A task that panicked leaves a world that is still good: changes are made at the end of a step.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seconds since 1970.
    pub fn now(&self) -> u64 {
        self.clock.unix()
    }

    /// Chance for the next operation on an object.
    pub(crate) fn chance(&self, object: &str) -> Chance {
        self.environment.chance(object)
    }

    /// Lets as much time pass as this work takes on the simulated machines.
    pub(crate) async fn wait(&self, work: Work, object: &str) {
        self.environment.wait(work, object).await;
    }

    /// How long this work takes, without chance.
    pub(crate) fn time(&self, work: Work) -> Duration {
        self.environment.time(work)
    }

    /// Begins a task on a host and gives its UPID; `work` runs on by itself.
    pub(crate) fn start<F, W>(
        self: &Arc<Self>,
        node: &str,
        kind: &str,
        id: &str,
        caller: &Caller,
        work: W,
    ) -> String
    where
        W: FnOnce(TaskHandle) -> F,
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let upid = self.world().tasks.begin(node, kind, id, &caller.to_string(), self.now());
        let trouble = self.trouble(node, kind, id);
        if trouble.is_unstarted() {
            self.world().tasks.forget(&upid);
            self.unstarted().insert(upid.clone());
            return upid;
        }
        let handle = TaskHandle::new(Arc::clone(self), upid.clone(), trouble);
        let running = tokio::spawn(work(handle.clone()));
        self.running().insert(upid.clone(), running.abort_handle());
        if self.world().hosts.get(node).is_some_and(|host| !host.online) {
            running.abort();
        }
        tokio::spawn(async move {
            match running.await {
                Ok(result) => handle.end(result),
                Err(_) => handle.vanish(),
            }
            handle.site.running().remove(&handle.upid);
        });
        upid
    }

    /// Answer to a call that starts a task: an error where the host could not start it.
    pub(super) fn only_started(&self, outcome: Outcome) -> Outcome {
        match &outcome {
            Ok(Reply::Data(Json::String(upid))) if self.unstarted().remove(upid) => {
                Err(Refusal::failed("got no worker upid - start worker failed"))
            }
            _ => outcome,
        }
    }

    fn unstarted(&self) -> MutexGuard<'_, HashSet<String>> {
        self.unstarted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tasks of a host that loses its power stop in the middle, and nobody tidies up after them.
    pub(crate) fn lose_tasks(&self, node: &str) {
        let of_node = format!("UPID:{node}:");
        for (upid, running) in self.running().iter() {
            if upid.starts_with(&of_node) {
                running.abort();
            }
        }
    }

    pub fn has_tasks(&self) -> bool {
        !self.running().is_empty()
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, AbortHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("clock", &self.clock).finish_non_exhaustive()
    }
}

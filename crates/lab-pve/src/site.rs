//! Running simulation of Proxmox: its state, and the services that calls and tasks share.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value as Json;
use talmox_clock::{Chance, Clock};
use talmox_lab_environment::{Environment, Work};
use tokio::task::AbortHandle;

use super::ApiError;
use super::call::{Outcome, Reply};
use super::guest::Guests;
use super::lock::Locks;
use super::pve_state::{Caller, PveState};
use super::pve_state_guard::{self, PveStateGuard, PveStateObservers};
use super::task::TaskHandle;
use super::{ha, status_daemon};
use crate::blob::Blobs;

/// Running simulated Proxmox VE cluster.
pub struct Site {
    pub clock: Clock,
    pub blobs: Blobs,
    pub(crate) locks: Locks,
    pub environment: Arc<Environment>,
    pub guests: Guests,
    pve_state: Mutex<PveState>,
    observers: PveStateObservers,
    /// Abort handles of the running tasks, by UPID.
    running: Mutex<HashMap<String, AbortHandle>>,
    /// UPIDs of tasks that could not be started. A UPID is removed when its caller gets the error.
    failed_starts: Mutex<HashSet<String>>,
    /// Fingerprint of the certificate of the hosts.
    fingerprint: String,
}

impl Site {
    pub fn new(pve_state: PveState, blobs: Blobs, environment: Arc<Environment>) -> Self {
        let clock = environment.clock;
        Self {
            clock,
            blobs,
            locks: Locks::new(clock),
            environment,
            guests: Guests::default(),
            pve_state: Mutex::new(pve_state),
            observers: PveStateObservers::default(),
            running: Mutex::default(),
            failed_starts: Mutex::default(),
            fingerprint: String::new(),
        }
    }

    #[must_use]
    pub fn with_fingerprint(self, fingerprint: String) -> Self {
        Self { fingerprint, ..self }
    }

    /// SHA-256 fingerprint of the certificate of the hosts, as `/nodes` returns it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Starts the background services of the hosts: status daemon and HA manager. The services end when the site is dropped.
    pub fn start_daemons(self: &Arc<Self>) {
        tokio::spawn(status_daemon::run(Arc::downgrade(self)));
        tokio::spawn(ha::run(Arc::downgrade(self)));
    }

    /// Locks the simulated state, for reading or changing. The lock must not be held across an `await`.
    pub fn pve_state(&self) -> PveStateGuard<'_> {
        // A panic in a task leaves the state consistent, because each change is a single operation.
        let pve_state = self.pve_state.lock().unwrap_or_else(PoisonError::into_inner);
        PveStateGuard::new(pve_state, &self.observers)
    }

    /// Calls `observer` after every change of the state. The second argument is the caller whose request or task made the
    /// change, or `None` for a change by the simulation itself. The state is locked during the call, so the observer must not
    /// lock it.
    pub fn observe(&self, observer: impl Fn(&PveState, Option<&Caller>) + Send + Sync + 'static) {
        self.observers.add(observer);
    }

    /// Lab time in seconds since 1970.
    pub fn now(&self) -> u64 {
        self.clock.unix()
    }

    /// Random source for the next operation on an object.
    pub(crate) fn chance(&self, object: &str) -> Chance {
        self.environment.chance(object)
    }

    /// Waits for the time that this work takes, with jitter.
    pub(crate) async fn wait(&self, work: Work, object: &str) {
        self.environment.wait(work, object).await;
    }

    /// Time that this work takes, without jitter.
    pub(crate) fn time(&self, work: Work) -> Duration {
        self.environment.time(work)
    }

    /// Starts a task on a host, and returns its UPID. `work` runs in the background.
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
        let upid = self.pve_state().tasks.begin(node, kind, id, &caller.to_string(), self.now());
        let fault = self.task_fault(node, kind, id);
        if fault.prevents_start() {
            self.pve_state().tasks.remove(&upid);
            self.failed_starts().insert(upid.clone());
            return upid;
        }
        let handle = TaskHandle::new(Arc::clone(self), upid.clone(), fault);
        let running = tokio::spawn(pve_state_guard::made_by(caller.clone(), work(handle.clone())));
        self.running().insert(upid.clone(), running.abort_handle());
        if self.pve_state().hosts.get(node).is_some_and(|host| !host.online) {
            running.abort();
        }
        tokio::spawn(async move {
            match running.await {
                Ok(result) => handle.end(result),
                Err(_) => handle.end_with_unknown_status(),
            }
            handle.site.running().remove(&handle.upid);
        });
        upid
    }

    /// Returns the outcome of a call that started a task, or an error if the host could not start that task.
    pub(super) fn check_started(&self, outcome: Outcome) -> Outcome {
        match &outcome {
            Ok(Reply::Data(Json::String(upid))) if self.failed_starts().remove(upid) => {
                Err(ApiError::failed("got no worker upid - start worker failed"))
            }
            _ => outcome,
        }
    }

    fn failed_starts(&self) -> MutexGuard<'_, HashSet<String>> {
        self.failed_starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Aborts all tasks of a host that failed. The tasks do not clean up.
    pub(crate) fn abort_tasks(&self, node: &str) {
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

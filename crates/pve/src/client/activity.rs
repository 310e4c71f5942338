//! Counters of the requests of a client, for the progress display.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of requests of a client so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Number of hosts in the paths of all requests.
    pub hosts: usize,
    /// Number of VMs in the paths of all requests. `vms_read` is the number of those VMs that have no pending request.
    pub vms: usize,
    pub vms_read: usize,
    /// Number of requests that are not answered yet.
    pub waiting: usize,
}

#[derive(Debug, Default)]
pub(super) struct Tracker(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    hosts: BTreeSet<String>,
    /// Number of pending requests, by host and vmid.
    vms: BTreeMap<String, usize>,
    waiting: usize,
}

impl Tracker {
    pub(super) fn now(&self) -> Activity {
        let state = self.state();
        Activity {
            hosts: state.hosts.len(),
            vms: state.vms.len(),
            vms_read: state.vms.values().filter(|waiting| **waiting == 0).count(),
            waiting: state.waiting,
        }
    }

    /// Counts a request. The request is pending until the returned guard is dropped.
    pub(super) fn begin(&self, path: &str) -> PendingRequest<'_> {
        let mut state = self.state();
        let (host, vm) = subject(path);
        state.waiting += 1;
        state.hosts.extend(host);
        if let Some(vm) = &vm {
            *state.vms.entry(vm.clone()).or_default() += 1;
        }
        PendingRequest { tracker: self, vm }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of a pending request.
#[derive(Debug)]
pub(super) struct PendingRequest<'a> {
    tracker: &'a Tracker,
    vm: Option<String>,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        let mut state = self.tracker.state();
        state.waiting -= 1;
        if let Some(waiting) = self.vm.as_ref().and_then(|vm| state.vms.get_mut(vm)) {
            *waiting -= 1;
        }
    }
}

/// Host and VM in a path such as `/nodes/pve1/qemu/300/config`.
fn subject(path: &str) -> (Option<String>, Option<String>) {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["", "nodes", host, "qemu", vmid, ..] => {
            (Some((*host).to_owned()), Some(format!("{host}/{vmid}")))
        }
        ["", "nodes", host, ..] => (Some((*host).to_owned()), None),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_vms_are_counted_once() {
        let tracker = Tracker::default();
        let all = tracker.begin("/cluster/resources");
        assert_eq!(tracker.now(), Activity { waiting: 1, ..Activity::default() });
        drop(all);
        let first = tracker.begin("/nodes/pve1/qemu/300/pending");
        let second = tracker.begin("/nodes/pve1/qemu/300/status/current");
        let other = tracker.begin("/nodes/pve2/qemu/301/pending");
        let storage = tracker.begin("/nodes/pve2/storage");
        drop((first, other));
        let now = Activity { hosts: 2, vms: 2, vms_read: 1, waiting: 2 };
        assert_eq!(tracker.now(), now, "one answer about VM 300 is missing");
        drop((second, storage));
        assert_eq!(tracker.now(), Activity { hosts: 2, vms: 2, vms_read: 2, waiting: 0 });
    }
}

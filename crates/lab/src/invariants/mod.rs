//! Continuous check of invariants that no run may violate.
//!
//! The checks run inside every change of the simulated state (VMs, nodes, etcd members and pods). So they also find a violation
//! that lasts only for a moment. The checks are independent of the program under test. They distinguish its changes from the
//! changes of users by the API token.

mod check;
mod violation;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use talmox_lab_kube::BrokenBudget;
use talmox_lab_pve::pve_state::{Caller, PveState};
use talmox_lab_talos::StateFacts;

use crate::Lab;
use check::Checks;
pub use violation::Violation;

/// Tokens and VMs that a [`Watcher`] checks.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Ids of the API tokens (`user@realm!name`) whose changes of VMs are checked. All other callers count as users, who may
    /// stop and delete any VM.
    pub tokens: BTreeSet<String>,
    /// vmids of the VMs that these tokens must not change.
    pub foreign: BTreeSet<u32>,
}

/// Running check of the invariants of a lab. Dropping the watcher ends the check.
#[derive(Debug)]
pub struct Watcher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// This lock must be acquired last, because the checks run while the locks of the simulated state are held.
    checks: Mutex<Checks>,
}

impl Shared {
    fn checks(&self) -> MutexGuard<'_, Checks> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pve_state_changed(&self, pve_state: &PveState, caller: Option<&Caller>) {
        self.checks().check_pve_state(pve_state, caller);
    }

    fn state_changed(self: &Arc<Self>, facts: &StateFacts) {
        let new = self.checks().check_state(facts);
        for etcd in facts.etcds.iter().filter(|etcd| new.contains(&etcd.id)) {
            let shared = Arc::downgrade(self);
            etcd.store.observe_budgets(move |broken| {
                if let Some(shared) = shared.upgrade() {
                    shared.budget_broken(broken);
                }
            });
        }
    }

    fn budget_broken(&self, broken: &BrokenBudget) {
        self.checks().add(Violation::BudgetBroken {
            budget: format!("{}/{}", broken.namespace, broken.budget),
            pod: broken.pod.clone(),
            healthy: broken.healthy,
            required: broken.required,
        });
    }
}

impl Watcher {
    /// Violations since the watcher was created, oldest first.
    pub fn violations(&self) -> Vec<Violation> {
        self.shared.checks().violations().to_vec()
    }

    /// Panics if an invariant was violated.
    #[track_caller]
    pub fn assert_none(&self) {
        let violations = self.violations();
        let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "violated invariants:\n{}", lines.join("\n"));
    }

    /// Records that a user or a fault stops this VM. The record ends when the etcd member of the VM runs again. A stop through
    /// the Proxmox API by an unchecked token is recorded automatically.
    pub fn expect_down(&self, vmid: u32) {
        self.shared.checks().expect_down(vmid);
    }
}

impl Lab {
    /// Starts a watcher, which checks all later changes.
    pub fn watch_invariants(&self, watched: Watched) -> Watcher {
        let checks = Checks::new(watched, &self.site.pve_state());
        let shared = Arc::new(Shared { checks: Mutex::new(checks) });
        let weak = Arc::downgrade(&shared);
        self.site.observe(move |pve_state, caller| {
            if let Some(shared) = weak.upgrade() {
                shared.pve_state_changed(pve_state, caller);
            }
        });
        let weak = Arc::downgrade(&shared);
        self.simulation().observe(move |facts| {
            if let Some(shared) = weak.upgrade() {
                shared.state_changed(facts);
            }
        });
        Watcher { shared }
    }

    /// vmids of the VMs that exist now.
    pub fn vmids(&self) -> BTreeSet<u32> {
        self.site.pve_state().vms.keys().copied().collect()
    }
}

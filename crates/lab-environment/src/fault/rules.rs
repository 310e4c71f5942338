//! Fault rules of a running lab.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Action, Fault, FaultEvent};

/// Fault rules, and the queue of faults that are due without a call.
#[derive(Debug)]
pub struct Faults {
    rules: Mutex<Vec<Rule>>,
    sender: UnboundedSender<ScheduledFault>,
    /// Receiving end of the queue, until [`Self::scheduled_faults`] takes it.
    receiver: Mutex<Option<UnboundedReceiver<ScheduledFault>>>,
}

#[derive(Debug)]
struct Rule {
    fault: Fault,
    matches: MatchCount,
}

/// Number of events that a fault rule has matched.
#[derive(Clone, Debug, Default)]
pub struct MatchCount(Arc<AtomicU64>);

impl MatchCount {
    /// Adds 1 to the number of matches, and returns the new number.
    pub fn count(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Fault that the simulation of the nodes applies after a delay, independent of any call.
#[derive(Debug)]
pub struct ScheduledFault {
    pub after: Duration,
    /// Node that the fault applies to, if the action does not name one.
    pub node: Option<String>,
    pub action: Action,
    /// Match counter of the rule, which is incremented when the fault is applied.
    pub matches: MatchCount,
}

impl Default for Faults {
    fn default() -> Self {
        let (sender, receiver) = unbounded_channel();
        Self { rules: Mutex::default(), sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl Faults {
    pub fn add(&self, fault: Fault) {
        let matches = MatchCount::default();
        if let Some(after) = fault.when.after {
            let (node, action) = (fault.when.node.clone(), fault.action.clone());
            self.schedule(ScheduledFault { after, node, action, matches: matches.clone() });
        }
        locked(&self.rules).push(Rule { fault, matches });
    }

    /// File and line of each rule that has not acted yet. Rules that were not read from a file are omitted.
    pub fn idle(&self) -> Vec<String> {
        let rules = locked(&self.rules);
        let idle = rules.iter().filter(|rule| rule.matches.get() < rule.fault.nth.max(1));
        idle.filter_map(|rule| rule.fault.written.clone()).collect()
    }

    pub fn clear(&self) {
        locked(&self.rules).clear();
    }

    /// Actions for an event, in the order of the rules.
    pub fn matching_actions(&self, event: &FaultEvent<'_>) -> Vec<Action> {
        let mut actions = vec![];
        for rule in locked(&self.rules).iter() {
            let Fault { when, nth, times, action, .. } = &rule.fault;
            if !when.matches(event) {
                continue;
            }
            let matches = rule.matches.count();
            let acted = matches.saturating_sub((*nth).max(1));
            if matches >= *nth && times.is_none_or(|times| acted < times) {
                actions.push(action.clone());
            }
        }
        actions
    }

    pub fn schedule(&self, fault: ScheduledFault) {
        // Sending fails without a receiver. Then the lab has no simulated nodes, and the fault has no target.
        drop(self.sender.send(fault));
    }

    /// Receiving end of the queue, for the simulation that applies the faults; `None` if it was taken before.
    pub fn scheduled_faults(&self) -> Option<UnboundedReceiver<ScheduledFault>> {
        locked(&self.receiver).take()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

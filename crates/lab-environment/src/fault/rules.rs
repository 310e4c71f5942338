//! Fault rules of a running lab.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Action, Fault, Sight};

/// Fault rules, and the queue of faults that are due without a call.
#[derive(Debug)]
pub struct Faults {
    rules: Mutex<Vec<Rule>>,
    orders: UnboundedSender<Order>,
    /// Receiving end of the queue, until [`Self::orders`] takes it.
    ordered: Mutex<Option<UnboundedReceiver<Order>>>,
}

#[derive(Debug)]
struct Rule {
    fault: Fault,
    seen: Seen,
}

/// Number of events that a fault rule has matched.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<AtomicU64>);

impl Seen {
    /// Adds 1 to the number of matches, and returns the new number.
    pub fn count(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Fault that the simulation of the nodes applies after a delay, independent of any call.
#[derive(Debug)]
pub struct Order {
    pub after: Duration,
    /// Node that the fault applies to, if the action does not name one.
    pub node: Option<String>,
    pub action: Action,
    /// Match counter of the rule, which is incremented when the fault is applied.
    pub seen: Seen,
}

impl Default for Faults {
    fn default() -> Self {
        let (orders, ordered) = unbounded_channel();
        Self { rules: Mutex::default(), orders, ordered: Mutex::new(Some(ordered)) }
    }
}

impl Faults {
    pub fn add(&self, fault: Fault) {
        let seen = Seen::default();
        if let Some(after) = fault.when.after {
            let (node, action) = (fault.when.node.clone(), fault.action.clone());
            self.order(Order { after, node, action, seen: seen.clone() });
        }
        locked(&self.rules).push(Rule { fault, seen });
    }

    /// File and line of each rule that has not acted yet. Rules that were not read from a file are omitted.
    pub fn idle(&self) -> Vec<String> {
        let rules = locked(&self.rules);
        let idle = rules.iter().filter(|rule| rule.seen.so_far() < rule.fault.nth.max(1));
        idle.filter_map(|rule| rule.fault.written.clone()).collect()
    }

    pub fn clear(&self) {
        locked(&self.rules).clear();
    }

    /// Actions for an event, in the order of the rules.
    pub fn strike(&self, sight: &Sight<'_>) -> Vec<Action> {
        let mut actions = vec![];
        for rule in locked(&self.rules).iter() {
            let Fault { when, nth, times, action, .. } = &rule.fault;
            if !when.fits(sight) {
                continue;
            }
            let seen = rule.seen.count();
            let acted = seen.saturating_sub((*nth).max(1));
            if seen >= *nth && times.is_none_or(|times| acted < times) {
                actions.push(action.clone());
            }
        }
        actions
    }

    pub fn order(&self, order: Order) {
        // Sending fails without a receiver. Then the lab has no simulated nodes, and the fault has no target.
        drop(self.orders.send(order));
    }

    /// Receiving end of the queue, for the simulation that applies the faults; `None` if it was taken before.
    pub fn orders(&self) -> Option<UnboundedReceiver<Order>> {
        locked(&self.ordered).take()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

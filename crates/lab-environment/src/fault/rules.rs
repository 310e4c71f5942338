//! Fault rules of a running lab.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Action, Fault, Sight};

/// Fault rules, with the queue of node faults to apply.
#[derive(Debug)]
pub struct Faults {
    rules: Mutex<Vec<Rule>>,
    orders: UnboundedSender<Order>,
    /// Receiver of the queue, until [`Self::orders`] takes it.
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
    /// Increments the number of matches and returns it.
    pub fn count(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Fault that is due without a call to apply it to.
#[derive(Debug)]
pub struct Order {
    pub after: Duration,
    /// Node to apply it to, if the action does not name one.
    pub node: Option<String>,
    pub action: Action,
    /// Match counter of the rule, incremented when the fault is due.
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

    /// File and line of the rules that have not acted yet.
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
        // Without a receiver there are no simulated nodes.
        drop(self.orders.send(order));
    }

    /// Queue of node faults, for the simulation that applies them; `None` if it was taken.
    pub fn orders(&self) -> Option<UnboundedReceiver<Order>> {
        locked(&self.ordered).take()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

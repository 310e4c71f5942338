//! The rules of a running lab.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Action, Fault, Sight};

/// The rules, and what waits to be carried out.
#[derive(Debug)]
pub struct Faults {
    rules: Mutex<Vec<Rule>>,
    orders: UnboundedSender<Order>,
    /// Until somebody takes it to carry orders out.
    ordered: Mutex<Option<UnboundedReceiver<Order>>>,
}

#[derive(Debug)]
struct Rule {
    fault: Fault,
    seen: Seen,
}

/// How many fitted a rule so far.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<AtomicU64>);

impl Seen {
    /// One more. How many that makes.
    pub fn count(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Something that is to happen without a call that it could happen to.
#[derive(Debug)]
pub struct Order {
    pub after: Duration,
    /// Whom it is about, where the action does not say.
    pub node: Option<String>,
    pub action: Action,
    /// Counted when its time has come.
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

    /// Where the rules are written that nothing has happened by so far.
    pub fn idle(&self) -> Vec<String> {
        let rules = locked(&self.rules);
        let idle = rules.iter().filter(|rule| rule.seen.so_far() < rule.fault.nth.max(1));
        idle.filter_map(|rule| rule.fault.written.clone()).collect()
    }

    pub fn clear(&self) {
        locked(&self.rules).clear();
    }

    /// What happens to this, in the order of the rules.
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
        // Where nobody plays nodes, nothing can happen to them.
        drop(self.orders.send(order));
    }

    /// All orders, for the one who carries them out.
    pub fn orders(&self) -> Option<UnboundedReceiver<Order>> {
        locked(&self.ordered).take()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

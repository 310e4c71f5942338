//! The rules of a running lab.

use std::sync::{Mutex, MutexGuard, PoisonError};
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
    /// How many fitted so far.
    seen: u64,
}

/// Something that is to happen without a call that it could happen to.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) after: Duration,
    /// Whom it is about, where the action does not say.
    pub(crate) node: Option<String>,
    pub(crate) action: Action,
}

impl Default for Faults {
    fn default() -> Self {
        let (orders, ordered) = unbounded_channel();
        Self { rules: Mutex::default(), orders, ordered: Mutex::new(Some(ordered)) }
    }
}

impl Faults {
    pub fn add(&self, fault: Fault) {
        match fault.when.after {
            Some(after) => self.order(Order { after, node: fault.when.node, action: fault.action }),
            None => locked(&self.rules).push(Rule { fault, seen: 0 }),
        }
    }

    pub fn clear(&self) {
        locked(&self.rules).clear();
    }

    /// What happens to this, in the order of the rules.
    pub(crate) fn strike(&self, sight: &Sight<'_>) -> Vec<Action> {
        let mut actions = vec![];
        for rule in locked(&self.rules).iter_mut() {
            let Fault { when, nth, times, action } = &rule.fault;
            if !when.fits(sight) {
                continue;
            }
            rule.seen += 1;
            let acted = rule.seen.saturating_sub((*nth).max(1));
            if rule.seen >= *nth && times.is_none_or(|times| acted < times) {
                actions.push(action.clone());
            }
        }
        actions
    }

    pub(crate) fn order(&self, order: Order) {
        // Where nobody plays nodes, nothing can happen to them.
        drop(self.orders.send(order));
    }

    /// All orders, for the one who carries them out.
    pub(crate) fn orders(&self) -> Option<UnboundedReceiver<Order>> {
        locked(&self.ordered).take()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

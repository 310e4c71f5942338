//! What goes wrong with one task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Action, Place, Sight, lock_timeout};
use crate::pve::Site;
use crate::pve::Work;

#[derive(Debug, Default)]
pub(crate) struct Trouble {
    delay: Duration,
    /// After how many percent, and with which words.
    failure: Option<(u8, String)>,
    is_unstarted: bool,
    struck: AtomicBool,
}

impl Site {
    /// What the rules have in store for a task that begins now.
    pub(crate) fn trouble(self: &Arc<Self>, node: &str, kind: &str, id: &str) -> Trouble {
        let vmid = id.parse().ok();
        let sight = Sight { place: Place::Task(kind), vmid, host: node, ..Sight::default() };
        let mut trouble = Trouble::default();
        for action in self.faults.strike(&sight) {
            action.befall(self);
            match action {
                Action::Delay(time) => trouble.delay += time,
                Action::Fail { percent, message } => trouble.failure = Some((percent, message)),
                Action::Unstarted => trouble.is_unstarted = true,
                Action::LostLock => match vmid {
                    Some(vmid) => self.locks.lose_vm(vmid),
                    None => trouble.failure = Some((0, lock_timeout(None))),
                },
                _ => {}
            }
        }
        trouble
    }
}

impl Trouble {
    pub(crate) fn is_unstarted(&self) -> bool {
        self.is_unstarted
    }

    /// The first wait of the task is where it happens.
    pub(crate) async fn strike(&self, site: &Site, work: Work) -> Result<(), String> {
        if self.struck.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        if !self.delay.is_zero() {
            site.clock.sleep(self.delay).await;
        }
        match &self.failure {
            Some((percent, message)) if *percent < 100 => {
                site.clock.sleep(site.time(work) * u32::from(*percent) / 100).await;
                Err(message.clone())
            }
            _ => Ok(()),
        }
    }

    /// A task that did all its work may fail all the same, and one that never waited must.
    pub(crate) fn at_the_end(&self) -> Result<(), String> {
        match &self.failure {
            Some((percent, message)) if *percent == 100 || !self.struck.load(Ordering::Relaxed) => {
                Err(message.clone())
            }
            _ => Ok(()),
        }
    }
}

//! What goes wrong with Proxmox: its hosts, its storages, and its tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use talmox_lab_environment::Work;
use talmox_lab_environment::fault::{Action, Order, Place, Seen, Sight};

use crate::Site;

#[derive(Debug, Default)]
pub(crate) struct Trouble {
    delay: Duration,
    /// After how many percent, and with which words.
    failure: Option<(u8, String)>,
    is_unstarted: bool,
    struck: AtomicBool,
}

impl Site {
    /// Changes the world, where that is what the fault does.
    pub fn carry_out(self: &Arc<Self>, action: &Action) {
        match action {
            Action::Full { storage } => {
                if let Some(storage) = self.world().storages.get_mut(storage) {
                    storage.full = true;
                }
            }
            Action::Revoke { token } => {
                self.world().access.tokens.remove(token);
            }
            Action::Down { host, lasts } => {
                self.switch_off_host(host);
                if let Some(lasts) = *lasts {
                    let (site, host) = (Arc::clone(self), host.clone());
                    tokio::spawn(async move {
                        site.clock.sleep(lasts).await;
                        site.switch_on_host(&host);
                    });
                }
            }
            Action::Node(_) => {
                self.environment.faults.order(Order {
                    after: Duration::ZERO,
                    node: None,
                    action: action.clone(),
                    seen: Seen::default(),
                });
            }
            _ => {}
        }
    }

    /// What the rules have in store for a task that begins now.
    pub(crate) fn trouble(self: &Arc<Self>, node: &str, kind: &str, id: &str) -> Trouble {
        let vmid = id.parse().ok();
        let sight = Sight { place: Place::Task(kind), vmid, host: node, ..Sight::default() };
        let mut trouble = Trouble::default();
        for action in self.environment.faults.strike(&sight) {
            self.carry_out(&action);
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

/// Error of a call that could not lock the file of a VM in time.
pub(crate) fn lock_timeout(vmid: Option<u32>) -> String {
    let vmid = vmid.map_or_else(|| "0".to_owned(), |vmid| vmid.to_string());
    format!("can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout")
}

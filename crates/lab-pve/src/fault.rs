//! Faults in hosts, storages and tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use talmox_lab_environment::Work;
use talmox_lab_environment::fault::{Action, EventSource, FaultEvent, MatchCount, ScheduledFault};

use crate::{Site, pve_state_guard};

/// Fault that a fault rule injects into a task.
#[derive(Debug, Default)]
pub(crate) struct TaskFault {
    delay: Duration,
    /// Percentage of the first wait after which the task fails, and the error of the task.
    failure: Option<(u8, String)>,
    prevents_start: bool,
    applied: AtomicBool,
}

impl Site {
    /// Applies a fault that changes the simulated state. The caller whose request or task triggers
    /// the fault does not make its changes.
    pub fn apply_fault(self: &Arc<Self>, action: &Action) {
        pve_state_guard::attribute(None, || self.change_by_fault(action));
    }

    fn change_by_fault(self: &Arc<Self>, action: &Action) {
        match action {
            Action::Full { storage } => {
                if let Some(storage) = self.pve_state().storages.get_mut(storage) {
                    storage.full = true;
                }
            }
            Action::Revoke { token } => {
                self.pve_state().access.tokens.remove(token);
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
                self.environment.faults.schedule(ScheduledFault {
                    after: Duration::ZERO,
                    node: None,
                    action: action.clone(),
                    matches: MatchCount::default(),
                });
            }
            _ => {}
        }
    }

    /// Faults that apply to a new task, combined from all matching fault rules.
    pub(crate) fn task_fault(self: &Arc<Self>, node: &str, kind: &str, id: &str) -> TaskFault {
        let vmid = id.parse().ok();
        let event = FaultEvent {
            source: EventSource::Task(kind),
            vmid,
            host: node,
            ..FaultEvent::default()
        };
        let mut fault = TaskFault::default();
        for action in self.environment.faults.matching_actions(&event) {
            self.apply_fault(&action);
            match action {
                Action::Delay(time) => fault.delay += time,
                Action::Fail { percent, message } => fault.failure = Some((percent, message)),
                Action::Unstarted => fault.prevents_start = true,
                Action::LostLock => match vmid {
                    Some(vmid) => self.locks.fail_next_vm_lock(vmid),
                    None => fault.failure = Some((0, lock_timeout(None))),
                },
                _ => {}
            }
        }
        fault
    }
}

impl TaskFault {
    pub(crate) fn prevents_start(&self) -> bool {
        self.prevents_start
    }

    /// Applies the delay and the failure. Only the first call, at the first wait of the task, has an effect.
    pub(crate) async fn apply(&self, site: &Site, work: Work) -> Result<(), String> {
        if self.applied.swap(true, Ordering::Relaxed) {
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

    /// Fails the task at its end, if the failure is set to happen at 100 % of the work, or if the task never waited.
    pub(crate) fn check_end(&self) -> Result<(), String> {
        match &self.failure {
            Some((percent, message))
                if *percent == 100 || !self.applied.load(Ordering::Relaxed) =>
            {
                Err(message.clone())
            }
            _ => Ok(()),
        }
    }
}

/// Error text of an operation that could not lock the config of a VM before the timeout.
pub(crate) fn lock_timeout(vmid: Option<u32>) -> String {
    let vmid = vmid.map_or_else(|| "0".to_owned(), |vmid| vmid.to_string());
    format!("can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout")
}

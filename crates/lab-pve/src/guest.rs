//! Guests as they are seen from inside: what happens to them, and what they do of themselves.
//!
//! Whoever plays a guest watches its moments here. A guest that nobody plays runs and does nothing,
//! except that it obeys the power button.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use talmox_lab_environment::Work;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc};

use super::site::Site;
use super::world::{Agent, Run};

/// Something that happens to a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestEvent {
    pub node: String,
    pub vmid: u32,
    pub moment: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It begins to boot, with the configuration that its [`Run`] has.
    Started,
    /// Somebody presses the power button, or asks the agent to shut down.
    PowerButton,
    /// It boots again, with the same configuration.
    Reset,
    Paused,
    Resumed,
    /// Something about its network cards changed while it runs.
    Replugged,
    /// It is off, whoever did it.
    Stopped,
}

#[derive(Debug, Default)]
pub struct Guests {
    watchers: Mutex<Vec<mpsc::UnboundedSender<GuestEvent>>>,
    /// Those that somebody plays.
    played: Mutex<BTreeSet<u32>>,
    /// The PCI devices that are theirs while they start and run.
    devices: Mutex<BTreeMap<u32, Vec<String>>>,
    stopped: Notify,
}

impl Guests {
    /// All events from now on.
    pub fn watch(&self) -> mpsc::UnboundedReceiver<GuestEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        locked(&self.watchers).push(sender);
        receiver
    }

    /// From now on it is up to the caller what this guest does when its power button is pressed.
    pub fn play(&self, vmid: u32) {
        locked(&self.played).insert(vmid);
    }

    /// The guest is left to itself again.
    pub fn leave(&self, vmid: u32) {
        locked(&self.played).remove(&vmid);
    }

    /// Gives PCI devices of its host to a VM, until it is off.
    pub(super) fn hold(&self, vmid: u32, devices: &[String]) {
        locked(&self.devices).insert(vmid, devices.to_vec());
    }

    pub(super) fn release(&self, vmid: u32) {
        locked(&self.devices).remove(&vmid);
    }

    /// The devices that a VM was given. None where it was not started here.
    pub fn held(&self, vmid: u32) -> Option<Vec<String>> {
        locked(&self.devices).get(&vmid).cloned()
    }

    pub(super) fn tell(&self, node: &str, vmid: u32, moment: Moment) {
        let event = GuestEvent { node: node.to_owned(), vmid, moment };
        locked(&self.watchers).retain(|watcher| watcher.send(event.clone()).is_ok());
        if moment == Moment::Stopped {
            self.stopped.notify_waiters();
        }
    }

    /// Done when any guest stops after this was called.
    pub(super) fn next_stop(&self) -> Notified<'_> {
        self.stopped.notified()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Site {
    /// Presses a guest's power button.
    pub(super) fn press_power_button(self: &Arc<Self>, node: &str, vmid: u32) {
        self.guests.tell(node, vmid, Moment::PowerButton);
        let Some(since) = self.run(vmid, |run| (run.since, run.pid)) else { return };
        if locked(&self.guests.played).contains(&vmid) {
            return;
        }
        let site = Arc::clone(self);
        tokio::spawn(async move {
            site.wait(Work::PowerDown, &format!("guest/{vmid}")).await;
            // By now it may be another run of the same VM, or one that cannot act.
            let same = site.run(vmid, |run| ((run.since, run.pid), run.paused));
            if same == Some((since, false)) {
                site.guest_power_off(vmid);
            }
        });
    }

    /// The guest switches itself off.
    pub fn guest_power_off(&self, vmid: u32) {
        let stopped = self.world().vms.get_mut(&vmid).and_then(|vm| {
            vm.run.take()?;
            Some(vm.node.clone())
        });
        if let Some(node) = stopped {
            self.guests.release(vmid);
            self.guests.tell(&node, vmid, Moment::Stopped);
        }
    }

    /// A host loses its power, and every guest and task on it.
    pub(crate) fn switch_off_host(&self, name: &str) {
        self.lose_tasks(name);
        let lost: Vec<u32> = {
            let mut world = self.world();
            let runs = world.vms.iter().filter(|(_, vm)| vm.node == name && vm.is_running());
            let lost = runs.map(|(vmid, _)| *vmid).collect();
            world.switch_off(name);
            lost
        };
        for vmid in lost {
            self.guests.release(vmid);
            self.guests.tell(name, vmid, Moment::Stopped);
        }
    }

    /// A host has its power back.
    pub fn switch_on_host(&self, name: &str) {
        let now = self.now();
        if let Some(host) = self.world().hosts.get_mut(name) {
            host.online = true;
            host.booted = now;
        }
    }

    /// The guest boots again by itself. Changes that are pending stay so.
    pub fn guest_reset(&self, vmid: u32) {
        let found = self.world().vms.get(&vmid).and_then(|vm| {
            let run = vm.run.as_ref()?;
            let exits = run.config.get("reboot").is_some_and(|value| value == "0");
            Some((vm.node.clone(), exits))
        });
        match found {
            Some((_, true)) => self.guest_power_off(vmid),
            Some((node, false)) => {
                self.forget_agent(vmid);
                self.guests.tell(&node, vmid, Moment::Reset);
            }
            None => {}
        }
    }

    /// A guest that boots has no agent yet, where somebody plays it and will start one.
    pub fn forget_agent(&self, vmid: u32) {
        if locked(&self.guests.played).contains(&vmid)
            && let Some(run) = self.world().vms.get_mut(&vmid).and_then(|vm| vm.run.as_mut())
        {
            run.agent = None;
        }
    }

    /// The guest's agent begins to answer, or answers otherwise.
    pub fn set_agent(&self, vmid: u32, agent: Agent) {
        if let Some(run) = self.world().vms.get_mut(&vmid).and_then(|vm| vm.run.as_mut()) {
            run.agent = Some(agent);
        }
    }

    /// An agent that answers looks at what is there now; one that is silent stays so.
    pub fn renew_agent(&self, vmid: u32, agent: Agent) {
        let mut world = self.world();
        let run = world.vms.get_mut(&vmid).and_then(|vm| vm.run.as_mut());
        if let Some(known) = run.and_then(|run| run.agent.as_mut()) {
            *known = agent;
        }
    }

    /// Looks at the run of a VM, if it runs.
    fn run<T>(&self, vmid: u32, look: impl FnOnce(&Run) -> T) -> Option<T> {
        self.world().vms.get(&vmid).and_then(|vm| vm.run.as_ref()).map(look)
    }
}

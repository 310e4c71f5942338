//! Guests of VMs: power events for a guest simulator, and actions of the guest itself.
//!
//! A guest simulator subscribes to the power events. A guest without a simulator does nothing, and powers off when its power
//! button is pressed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use talmox_lab_environment::Work;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc};

use super::pve_state::{Agent, Caller, Run};
use super::pve_state_guard;
use super::site::Site;

/// Power event of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestEvent {
    pub node: String,
    pub vmid: u32,
    pub kind: GuestEventKind,
}

/// Kind of a power event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestEventKind {
    /// The guest boots with the config of its [`Run`].
    Started,
    /// The ACPI power button was pressed, or the guest agent was asked to shut down.
    PowerButton,
    /// The guest boots again with the same config.
    Reset,
    Paused,
    Resumed,
    /// Network cards changed while the VM runs.
    Replugged,
    /// The VM is off, for any reason.
    Stopped,
}

/// Power events of guests, and the PCI devices that they use.
#[derive(Debug, Default)]
pub struct Guests {
    watchers: Mutex<Vec<mpsc::UnboundedSender<GuestEvent>>>,
    /// vmids of the guests that have a simulator.
    simulated: Mutex<BTreeSet<u32>>,
    /// PCI devices that each VM uses while it starts or runs, by vmid.
    devices: Mutex<BTreeMap<u32, Vec<String>>>,
    /// Callers that pressed the power button of a running guest, by vmid. The guest powers off later,
    /// and its power-off is a change by this caller.
    shutdown_callers: Mutex<BTreeMap<u32, Caller>>,
    stopped: Notify,
}

impl Guests {
    /// Subscribes to all future events.
    pub fn watch(&self) -> mpsc::UnboundedReceiver<GuestEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        locked(&self.watchers).push(sender);
        receiver
    }

    /// Registers a simulator for a guest. The simulator then handles the power button of the guest.
    pub fn attach_simulator(&self, vmid: u32) {
        locked(&self.simulated).insert(vmid);
    }

    /// Unregisters the simulator of a guest.
    pub fn detach_simulator(&self, vmid: u32) {
        locked(&self.simulated).remove(&vmid);
    }

    /// Assigns PCI devices of the host to a VM until the VM is off.
    pub(super) fn hold(&self, vmid: u32, devices: &[String]) {
        locked(&self.devices).insert(vmid, devices.to_vec());
    }

    pub(super) fn release(&self, vmid: u32) {
        locked(&self.devices).remove(&vmid);
    }

    /// PCI devices that are assigned to a VM; `None` if the VM was not started in this process.
    pub fn held(&self, vmid: u32) -> Option<Vec<String>> {
        locked(&self.devices).get(&vmid).cloned()
    }

    pub(super) fn emit(&self, node: &str, vmid: u32, kind: GuestEventKind) {
        let event = GuestEvent { node: node.to_owned(), vmid, kind };
        if matches!(kind, GuestEventKind::Started | GuestEventKind::Reset | GuestEventKind::Stopped)
        {
            locked(&self.shutdown_callers).remove(&vmid);
        }
        locked(&self.watchers).retain(|watcher| watcher.send(event.clone()).is_ok());
        if kind == GuestEventKind::Stopped {
            self.stopped.notify_waiters();
        }
    }

    /// Completes when any guest stops after this call.
    pub(super) fn next_stop(&self) -> Notified<'_> {
        self.stopped.notified()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Site {
    /// Presses the power button of a VM.
    pub(super) fn press_power_button(self: &Arc<Self>, node: &str, vmid: u32) {
        if let Some(caller) = pve_state_guard::caller() {
            locked(&self.guests.shutdown_callers).insert(vmid, caller);
        }
        self.guests.emit(node, vmid, GuestEventKind::PowerButton);
        let Some(since) = self.run(vmid, |run| (run.since, run.pid)) else { return };
        if locked(&self.guests.simulated).contains(&vmid) {
            return;
        }
        let site = Arc::clone(self);
        tokio::spawn(async move {
            site.wait(Work::PowerDown, &format!("guest/{vmid}")).await;
            // The guest powers off only if the VM was neither restarted nor paused in the meantime.
            let same = site.run(vmid, |run| ((run.since, run.pid), run.paused));
            if same == Some((since, false)) {
                site.guest_power_off(vmid);
            }
        });
    }

    /// Powers a VM off from inside the guest.
    pub fn guest_power_off(&self, vmid: u32) {
        let pressed = locked(&self.guests.shutdown_callers).get(&vmid).cloned();
        let stopped = pve_state_guard::attribute(pve_state_guard::caller().or(pressed), || {
            let mut pve_state = self.pve_state();
            let vm = pve_state.vms.get_mut(&vmid)?;
            vm.run.take()?;
            Some(vm.node.clone())
        });
        if let Some(node) = stopped {
            self.guests.release(vmid);
            self.guests.emit(&node, vmid, GuestEventKind::Stopped);
        }
    }

    /// Takes a host offline. All guests and tasks of the host end.
    pub(crate) fn switch_off_host(&self, name: &str) {
        self.abort_tasks(name);
        let lost: Vec<u32> = {
            let mut pve_state = self.pve_state();
            let runs = pve_state.vms.iter().filter(|(_, vm)| vm.node == name && vm.is_running());
            let lost = runs.map(|(vmid, _)| *vmid).collect();
            pve_state.switch_off(name);
            lost
        };
        for vmid in lost {
            self.guests.release(vmid);
            self.guests.emit(name, vmid, GuestEventKind::Stopped);
        }
    }

    /// Brings a host back online.
    pub fn switch_on_host(&self, name: &str) {
        let now = self.now();
        if let Some(host) = self.pve_state().hosts.get_mut(name) {
            host.online = true;
            host.booted = now;
        }
    }

    /// Reboots a VM from inside the guest. Pending changes stay pending.
    pub fn guest_reset(&self, vmid: u32) {
        let found = self.pve_state().vms.get(&vmid).and_then(|vm| {
            let run = vm.run.as_ref()?;
            let exits = run.config.get("reboot").is_some_and(|value| value == "0");
            Some((vm.node.clone(), exits))
        });
        match found {
            Some((_, true)) => self.guest_power_off(vmid),
            Some((node, false)) => {
                self.forget_agent(vmid);
                self.guests.emit(&node, vmid, GuestEventKind::Reset);
            }
            None => {}
        }
    }

    /// Removes the agent of a guest that boots. The simulator of the guest sets the agent again after the boot. Does nothing
    /// for a guest without a simulator.
    pub fn forget_agent(&self, vmid: u32) {
        if locked(&self.guests.simulated).contains(&vmid)
            && let Some(run) = self.pve_state().vms.get_mut(&vmid).and_then(|vm| vm.run.as_mut())
        {
            run.agent = None;
        }
    }

    /// Sets the answers of the guest agent.
    pub fn set_agent(&self, vmid: u32, agent: Agent) {
        if let Some(run) = self.pve_state().vms.get_mut(&vmid).and_then(|vm| vm.run.as_mut()) {
            run.agent = Some(agent);
        }
    }

    /// Updates the answers of the guest agent. Does nothing if no agent runs.
    pub fn renew_agent(&self, vmid: u32, agent: Agent) {
        let mut pve_state = self.pve_state();
        let run = pve_state.vms.get_mut(&vmid).and_then(|vm| vm.run.as_mut());
        if let Some(known) = run.and_then(|run| run.agent.as_mut()) {
            *known = agent;
        }
    }

    /// Reads a value of the running QEMU process of a VM; `None` if the VM is stopped.
    fn run<T>(&self, vmid: u32, look: impl FnOnce(&Run) -> T) -> Option<T> {
        self.pve_state().vms.get(&vmid).and_then(|vm| vm.run.as_ref()).map(look)
    }
}

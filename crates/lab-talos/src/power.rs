//! Guests of the simulated Proxmox. Power events of a VM start and stop its node.

use std::future::poll_fn;
use std::sync::Arc;

use talmox_lab_environment::stopped;
use tokio::sync::watch;

use super::hypervisor::PowerEvent;
use super::sequence;
use super::simulation::Simulation;

impl Simulation {
    /// Runs all guests until the lab ends.
    pub async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.run_guests() => {}
            () = self.apply_scheduled_faults() => {}
            () = stopped(&mut stop) => {}
        }
        self.abort_all();
    }

    async fn run_guests(self: &Arc<Self>) {
        let mut events = self.hypervisor.watch();
        for vmid in self.hypervisor.running() {
            self.start_guest(vmid);
        }
        while let Some((vmid, event)) = poll_fn(|context| events.poll_next(context)).await {
            match event {
                PowerEvent::Started | PowerEvent::Reset => self.start_guest(vmid),
                PowerEvent::Stopped => self.stop_guest(vmid),
                PowerEvent::PowerButton => self.press_power_button(vmid),
                // A paused guest does not answer. After it is resumed, it continues its work.
                PowerEvent::Changed => self.update_connectivity(vmid),
            }
        }
    }

    fn start_guest(self: &Arc<Self>, vmid: u32) {
        self.stop_guest(vmid);
        let guest_task = tokio::spawn(sequence::run_guest(Arc::clone(self), vmid));
        self.replace_task(vmid, Some(guest_task.abort_handle()));
    }

    fn stop_guest(self: &Arc<Self>, vmid: u32) {
        self.replace_task(vmid, None);
        self.hypervisor.detach(vmid);
        self.change(|talos| talos.nodes.remove(&vmid));
        self.apply_blocked_traffic(vmid);
    }

    /// Handles the power button like Talos: the node shuts down, or reboots if it is in maintenance mode.
    fn press_power_button(self: &Arc<Self>, vmid: u32) {
        use super::talos_state::Stage;

        let stage = self.look(|talos| talos.nodes.get(&vmid).map(|node| (node.stage, node.boot)));
        match stage {
            Some((Stage::Maintenance, _)) => self.power_cycle(vmid),
            // After the power button, Talos does not drain the node.
            Some((_, boot)) => drop(self.shut_down(vmid, boot, true)),
            None => {}
        }
    }
}

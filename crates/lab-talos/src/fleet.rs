//! Plays the guests of the Proxmox half: what happens to a VM's power happens to its node.

use std::future::poll_fn;
use std::sync::Arc;

use talmox_lab_environment::stopped;
use tokio::sync::watch;

use super::hypervisor::PowerEvent;
use super::sequence;
use super::simulation::Simulation;

impl Simulation {
    /// Plays every guest from now on, until the lab ends.
    pub async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.play_all() => {}
            () = self.carry_out_orders() => {}
            () = stopped(&mut stop) => {}
        }
        self.leave_all();
    }

    async fn play_all(self: &Arc<Self>) {
        let mut events = self.hypervisor.watch();
        for vmid in self.hypervisor.running() {
            self.begin(vmid);
        }
        while let Some((vmid, event)) = poll_fn(|context| events.poll_next(context)).await {
            match event {
                PowerEvent::Started | PowerEvent::Reset => self.begin(vmid),
                PowerEvent::Stopped => self.end(vmid),
                PowerEvent::PowerButton => self.press(vmid),
                // A guest that stands still answers nobody, and goes on where it was.
                PowerEvent::Changed => self.update_connectivity(vmid),
            }
        }
    }

    fn begin(self: &Arc<Self>, vmid: u32) {
        self.end(vmid);
        let playing = tokio::spawn(sequence::play(Arc::clone(self), vmid));
        self.replace(vmid, Some(playing.abort_handle()));
    }

    fn end(self: &Arc<Self>, vmid: u32) {
        self.replace(vmid, None);
        self.hypervisor.detach(vmid);
        self.change(|talos| talos.nodes.remove(&vmid));
        self.rewire(vmid);
    }

    /// Talos obeys the power button by a shutdown, unless it is in maintenance: then it reboots.
    fn press(self: &Arc<Self>, vmid: u32) {
        use super::talos_state::Stage;

        let stage = self.look(|talos| talos.nodes.get(&vmid).map(|node| (node.stage, node.boot)));
        match stage {
            Some((Stage::Maintenance, _)) => self.power_cycle(vmid),
            Some((_, boot)) => drop(self.shut_down(vmid, boot, false)),
            None => {}
        }
    }
}

//! Plays the guests of the Proxmox half: what happens to a VM's power happens to its node.

use std::sync::Arc;

use tokio::sync::watch;

use super::realm::Realm;
use super::sequence;
use crate::pve::guest::{GuestEvent, Moment};
use crate::pve::stopped;

impl Realm {
    /// Plays every guest from now on, until the lab ends.
    pub(crate) async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.play_all() => {}
            () = self.carry_out_orders() => {}
            () = stopped(&mut stop) => {}
        }
        self.leave_all();
    }

    async fn play_all(self: &Arc<Self>) {
        let mut moments = self.site.guests.watch();
        let running: Vec<u32> = {
            let world = self.site.world();
            world.vms.iter().filter(|(_, vm)| vm.is_running()).map(|(vmid, _)| *vmid).collect()
        };
        for vmid in running {
            self.begin(vmid);
        }
        while let Some(GuestEvent { vmid, moment, .. }) = moments.recv().await {
            match moment {
                Moment::Started | Moment::Reset => self.begin(vmid),
                Moment::Stopped => self.end(vmid),
                Moment::PowerButton => self.press(vmid),
                // A guest that stands still answers nobody, and goes on where it was.
                Moment::Paused | Moment::Resumed | Moment::Replugged => self.look_at_cables(vmid),
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
        self.site.guests.leave(vmid);
        self.change(|land| land.nodes.remove(&vmid));
        self.rewire(vmid);
    }

    /// Talos obeys the power button by a shutdown, unless it is in maintenance: then it reboots.
    fn press(self: &Arc<Self>, vmid: u32) {
        use super::land::Stage;

        let stage = self.look(|land| land.nodes.get(&vmid).map(|node| (node.stage, node.boot)));
        match stage {
            Some((Stage::Maintenance, _)) => self.power_cycle(vmid),
            Some((_, boot)) => drop(self.shut_down(vmid, boot, false)),
            None => {}
        }
    }
}

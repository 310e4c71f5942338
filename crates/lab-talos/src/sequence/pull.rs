//! Images that a node pulls from the internet before it can run what is in them.

use super::super::simulation::Simulation;
use super::super::talos_state::{Node, TalosState};

impl Simulation {
    /// Waits until a node can pull the image of a service, or has it. Its log says why it cannot.
    pub(crate) async fn until_pulled(&self, vmid: u32, boot: u64, service: &str) {
        let disk = self.look(|talos| talos.nodes.get(&vmid)?.system_disk.clone());
        let ran_before = disk.is_some_and(|disk| {
            self.hypervisor.written(&disk).ephemeral.is_some_and(|ephemeral| ephemeral.has_kubelet)
        });
        if ran_before {
            return;
        }
        let obstacle = |talos: &TalosState| {
            let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot)?;
            Some(self.obstacle(node))
        };
        let mut said = None;
        loop {
            let now =
                self.until(|talos| obstacle(talos).filter(|now| now.is_none() || *now != said));
            said = now.await;
            let Some(problem) = said else { return };
            let now = self.now();
            let line = format!("failed to pull the image of {service}, retrying: {problem}");
            self.change_node(vmid, boot, |node| node.dmesg(now, &line));
        }
    }

    /// What keeps a node from pulling anything.
    pub(super) fn obstacle(&self, node: &Node) -> Option<&'static str> {
        if node.faults.disk_is_full {
            Some("no space left on device")
        } else if node.network.has_outside(&self.settings.gateways) {
            None
        } else {
            Some("dial tcp: connect: network is unreachable")
        }
    }
}

//! Image pulls of a node.

use super::super::simulation::Simulation;
use super::super::talos_state::{Node, TalosState};

impl Simulation {
    /// Waits until the node can pull the image of a service. Does not wait if the node already has the image. The service log
    /// shows the reason of the wait.
    pub(crate) async fn until_pulled(&self, vmid: u32, boot: u64, service: &str) {
        let disk = self.look(|talos| talos.nodes.get(&vmid)?.system_disk.clone());
        let ran_before = disk.is_some_and(|disk| {
            self.hypervisor.written(&disk).ephemeral.is_some_and(|ephemeral| ephemeral.has_kubelet)
        });
        if ran_before {
            return;
        }
        let pull_obstacle = |talos: &TalosState| {
            let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot)?;
            Some(self.pull_obstacle(node))
        };
        let mut logged = None;
        loop {
            let now = self
                .until(|talos| pull_obstacle(talos).filter(|now| now.is_none() || *now != logged));
            logged = now.await;
            let Some(problem) = logged else { return };
            let now = self.now();
            let line = format!("failed to pull the image of {service}, retrying: {problem}");
            self.change_node(vmid, boot, |node| node.dmesg(now, &line));
        }
    }

    /// Reason why a node cannot pull images; `None` if it can.
    pub(super) fn pull_obstacle(&self, node: &Node) -> Option<&'static str> {
        if node.faults.disk_is_full {
            Some("no space left on device")
        } else if node.network.has_internet(&self.settings.gateways) {
            None
        } else {
            Some("dial tcp: connect: network is unreachable")
        }
    }
}

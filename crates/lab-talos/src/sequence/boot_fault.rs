//! Faults during the boot of a node.

use talmox_lab_environment::Work;
use talmox_lab_environment::fault::{Action, BootFacts, NodeAction, TargetNode};

use super::node_boot::NodeBoot;

/// Effect of the matching faults on a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BootFaultOutcome {
    Continues,
    /// The boot continues. A random stall is prevented.
    DoesNotStall,
    /// The fault ends the boot.
    Ended,
}

impl NodeBoot {
    /// Applies the faults that match this boot.
    pub(super) async fn apply_faults(&self, boot: BootFacts) -> BootFaultOutcome {
        let (simulation, vmid) = (&self.simulation, self.vmid);
        let mut outcome = BootFaultOutcome::Continues;
        for action in simulation.boot_faults(vmid, boot) {
            match action {
                Action::Delay(time) => simulation.clock().sleep(time).await,
                Action::Node(NodeAction::Clock(seconds)) => {
                    self.change(|node| node.clock_skew = seconds);
                }
                Action::Node(NodeAction::Stall(true)) => {
                    self.stall();
                    return BootFaultOutcome::Ended;
                }
                Action::Node(NodeAction::Stall(false)) => outcome = BootFaultOutcome::DoesNotStall,
                Action::Node(NodeAction::Revert) => {
                    simulation.revert(vmid, self.boot);
                    return BootFaultOutcome::Ended;
                }
                // A kernel that panics this early has not used the network yet.
                Action::Node(NodeAction::Crash(TargetNode::This)) => {
                    simulation.environment.wait(Work::Boot, &self.object()).await;
                    simulation.power_cycle(vmid);
                    return BootFaultOutcome::Ended;
                }
                Action::Node(action) => {
                    if simulation.apply_fault(Some(vmid), &action) {
                        return BootFaultOutcome::Ended;
                    }
                }
                other => simulation.hypervisor.carry_out(&other),
            }
        }
        outcome
    }
}

//! Faults that strike while a node boots.

use talmox_lab_environment::Work;
use talmox_lab_environment::fault::{Action, BootSight, NodeAction, Who};

use super::life::Me;

/// What the script makes of a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    GoesOn,
    /// The boot continues and does not stall by chance.
    Spared,
    /// Nothing more comes of it.
    Over,
}

impl Me {
    /// Lets everything happen that the script has for this boot.
    pub(super) async fn apply_faults(&self, seen: BootSight) -> Outcome {
        let (simulation, vmid) = (&self.simulation, self.vmid);
        let mut outcome = Outcome::GoesOn;
        for action in simulation.strike_boot(vmid, seen) {
            match action {
                Action::Delay(time) => simulation.clock().sleep(time).await,
                Action::Node(NodeAction::Clock(seconds)) => {
                    self.change(|node| node.clock_skew = seconds);
                }
                Action::Node(NodeAction::Stall(true)) => {
                    self.stall();
                    return Outcome::Over;
                }
                Action::Node(NodeAction::Stall(false)) => outcome = Outcome::Spared,
                Action::Node(NodeAction::Revert) => {
                    simulation.fall_back(vmid, self.boot);
                    return Outcome::Over;
                }
                // A kernel that panics this early was never on the network.
                Action::Node(NodeAction::Crash(Who::This)) => {
                    simulation.environment.wait(Work::Boot, &self.object()).await;
                    simulation.power_cycle(vmid);
                    return Outcome::Over;
                }
                Action::Node(action) => {
                    if simulation.carry_out(Some(vmid), &action) {
                        return Outcome::Over;
                    }
                }
                other => simulation.hypervisor.carry_out(&other),
            }
        }
        outcome
    }
}

//! Boots that do not go as they should.

use super::life::Me;
use crate::fault::{Action, BootSight, NodeAction, Who};
use crate::pve::Work;

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
    pub(super) async fn suffer(&self, seen: BootSight) -> Outcome {
        let (realm, vmid) = (&self.realm, self.vmid);
        let mut outcome = Outcome::GoesOn;
        for action in realm.strike_boot(vmid, seen) {
            match action {
                Action::Delay(time) => realm.clock().sleep(time).await,
                Action::Node(NodeAction::Clock(seconds)) => {
                    self.change(|node| node.clock_skew = seconds);
                }
                Action::Node(NodeAction::Stall(true)) => {
                    self.stall();
                    return Outcome::Over;
                }
                Action::Node(NodeAction::Stall(false)) => outcome = Outcome::Spared,
                Action::Node(NodeAction::Revert) => {
                    realm.fall_back(vmid, self.boot);
                    return Outcome::Over;
                }
                // A kernel that panics this early was never on the network.
                Action::Node(NodeAction::Crash(Who::This)) => {
                    realm.site.wait(Work::Boot, &self.object()).await;
                    realm.power_cycle(vmid);
                    return Outcome::Over;
                }
                Action::Node(action) => {
                    if realm.befall(Some(vmid), &action) {
                        return Outcome::Over;
                    }
                }
                other => other.befall(&realm.site),
            }
        }
        outcome
    }
}

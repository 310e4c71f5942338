//! A sequence under way: who asked for it, what it tells, and that there is one at a time.

use std::sync::Arc;
use std::time::Duration;

use talmox_talos_api::proto::common::{Code, Error as Problem};
use talmox_talos_api::proto::machine::sequence_event::Action;
use talmox_talos_api::server::Status;

use super::super::simulation::Simulation;
use super::super::talos_state::{Node, Stage};

pub(super) struct Run {
    pub(super) simulation: Arc<Simulation>,
    pub(super) vmid: u32,
    pub(super) boot: u64,
    sequence: &'static str,
    pub(super) actor: String,
    /// What each phase takes.
    pace: Duration,
}

/// A phase, and the task that it consists of.
pub(super) type Phase = (&'static str, &'static str);

/// What every sequence that ends the boot does at its end.
pub(super) const STOP: &[Phase] = &[
    ("stopServices", "stopServicesForUpgrade"),
    ("umount", "unmountPodMounts"),
    ("unmountBind", "unmountSystemDiskBindMounts"),
    ("unmountSystem", "unmountEphemeralPartition"),
    ("volumeFinalize", "teardownLifecycle"),
    ("stopEverything", "stopAllServices"),
];

impl Run {
    /// Begins a sequence and says who its actor is. There is no run where another one holds the node:
    /// callers learn of that from the events alone.
    pub(super) fn begin(
        simulation: &Arc<Simulation>,
        vmid: u32,
        boot: u64,
        sequence: &'static str,
        stage: Stage,
    ) -> Result<(String, Option<Self>), Status> {
        let actor = new_actor(simulation, vmid);
        let begun = simulation.change_node(vmid, boot, |node| {
            let running = node.sequence.as_ref().map_or("boot", |(running, _)| running.as_str());
            if !takes_over(sequence, running) {
                let problem = Problem {
                    code: Code::Locked.into(),
                    message: "sequence not started: locked".to_owned(),
                };
                // Nobody is named in it, not even who asked.
                node.tell_sequence(sequence, Action::Noop, Some(problem), "");
                return false;
            }
            node.sequence = Some((sequence.to_owned(), actor.clone()));
            node.tell_sequence(sequence, Action::Start, None, &actor);
            true
        });
        let Some(has_begun) = begun else {
            return Err(Status::unavailable("error reading from server: EOF"));
        };
        if !has_begun {
            return Ok((actor, None));
        }
        simulation.set_stage(vmid, boot, stage);
        let pace = simulation.environment.time(talmox_lab_environment::Work::PowerDown) / 12;
        let run = Self {
            simulation: Arc::clone(simulation),
            vmid,
            boot,
            sequence,
            actor: actor.clone(),
            pace,
        };
        Ok((actor, Some(run)))
    }

    /// One phase after the other. False where the node is gone, or another sequence took over.
    pub(super) async fn phases(&self, phases: &[Phase]) -> bool {
        for (phase, task) in phases {
            if !self.open(phase, task) {
                return false;
            }
            self.simulation.clock().sleep(self.pace).await;
            self.close(phase, task);
        }
        self.is_mine()
    }

    /// A phase begins. It is for the caller to do its work, and to close it.
    pub(super) fn open(&self, phase: &str, task: &str) -> bool {
        self.tell(|node, actor| node.open_phase(phase, &[task], actor))
    }

    pub(super) fn close(&self, phase: &str, task: &str) -> bool {
        self.tell(|node, actor| node.close_phase(phase, &[task], actor))
    }

    /// Tells that it is over, and then what went wrong.
    pub(super) fn complain(&self, phase: &str, task: &str, message: &str) {
        self.close(phase, task);
        self.tell(|node, actor| {
            let message = format!("sequence failed: {message}");
            let problem = Problem { code: Code::Fatal.into(), message };
            node.tell_sequence(self.sequence, Action::Stop, None, actor);
            node.tell_sequence(self.sequence, Action::Noop, Some(problem), actor);
        });
    }

    /// The sequence failed, and the node goes on as it was.
    pub(super) fn fail(&self, phase: &str, task: &str, message: &str) {
        self.complain(phase, task, message);
        self.simulation.change_node(self.vmid, self.boot, |node| node.sequence = None);
        self.simulation.set_stage(self.vmid, self.boot, Stage::Running);
    }

    /// The last word before the machine boots anew.
    pub(super) async fn reboot(&self) {
        if self.phases(&[("reboot", "reboot")]).await {
            self.simulation.power_cycle(self.vmid);
        }
    }

    pub(super) async fn shut_down(&self) {
        if self.phases(&[("shutdown", "shutdown")]).await {
            self.simulation.power_off(self.vmid);
        }
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&Node) -> T) -> Option<T> {
        self.simulation.look(|talos| {
            talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot).map(look)
        })
    }

    /// Whether the node still does this, and not something else.
    pub(super) fn is_mine(&self) -> bool {
        let holder = |node: &Node| node.sequence.as_ref().is_some_and(|(_, a)| *a == self.actor);
        self.look(holder).unwrap_or_default()
    }

    fn tell(&self, tell: impl FnOnce(&mut Node, &str)) -> bool {
        if !self.is_mine() {
            return false;
        }
        self.simulation.change_node(self.vmid, self.boot, |node| tell(node, &self.actor)).is_some()
    }
}

/// Which sequence may begin while another one runs.
fn takes_over(sequence: &str, running: &str) -> bool {
    match (sequence, running) {
        ("shutdown", running) => running != "shutdown",
        (_, "boot") | ("reboot", "reboot" | "reset") => true,
        _ => false,
    }
}

/// A UUID.
fn new_actor(simulation: &Simulation, vmid: u32) -> String {
    let mut bytes = [0_u8; 16];
    simulation.chance(&format!("actor/{vmid}")).fill(&mut bytes);
    super::boot::uuid(&bytes)
}

#[cfg(test)]
mod tests {
    use super::takes_over;

    #[test]
    fn one_sequence_at_a_time() {
        assert!(takes_over("upgrade", "boot"));
        assert!(takes_over("reboot", "reset"));
        assert!(!takes_over("reboot", "upgrade"));
        assert!(!takes_over("reset", "reboot"));
        assert!(!takes_over("upgrade", "upgrade"));
        assert!(takes_over("shutdown", "upgrade"));
    }
}

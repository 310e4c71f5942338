//! Running sequence of a node, with its actor, its events and its lock on the node.

use std::sync::Arc;
use std::time::Duration;

use talmox_talos_api::proto::common::{Code, Error as Problem};
use talmox_talos_api::proto::machine::sequence_event::Action;
use talmox_talos_api::server::Status;

use super::super::simulation::Simulation;
use super::super::talos_state::{Node, Stage};

pub(super) struct SequenceRun {
    pub(super) simulation: Arc<Simulation>,
    pub(super) vmid: u32,
    pub(super) boot: u64,
    sequence: &'static str,
    pub(super) actor: String,
    /// Duration of each phase of the sequence.
    pace: Duration,
}

/// Phase of a sequence, with the name of its only task.
pub(super) type Phase = (&'static str, &'static str);

/// Last phases of every sequence that ends the boot.
pub(super) const STOP_PHASES: &[Phase] = &[
    ("stopServices", "stopServicesForUpgrade"),
    ("umount", "unmountPodMounts"),
    ("unmountBind", "unmountSystemDiskBindMounts"),
    ("unmountSystem", "unmountEphemeralPartition"),
    ("volumeFinalize", "teardownLifecycle"),
    ("stopEverything", "stopAllServices"),
];

impl SequenceRun {
    /// Starts a sequence, and returns its actor id. If another sequence holds the lock, the returned run is `None`. The client
    /// sees this only in the events.
    pub(super) fn start(
        simulation: &Arc<Simulation>,
        vmid: u32,
        boot: u64,
        sequence: &'static str,
        stage: Stage,
    ) -> Result<(String, Option<Self>), Status> {
        let actor = new_actor(simulation, vmid);
        let started = simulation.change_node(vmid, boot, |node| {
            let running = node.sequence.as_ref().map_or("boot", |(running, _)| running.as_str());
            if !may_interrupt(sequence, running) {
                let problem = Problem {
                    code: Code::Locked.into(),
                    message: "sequence not started: locked".to_owned(),
                };
                // This event has no actor, not even the actor id that the caller gets.
                node.report_sequence(sequence, Action::Noop, Some(problem), "");
                return false;
            }
            node.sequence = Some((sequence.to_owned(), actor.clone()));
            node.report_sequence(sequence, Action::Start, None, &actor);
            true
        });
        let Some(has_started) = started else {
            return Err(Status::unavailable("error reading from server: EOF"));
        };
        if !has_started {
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

    /// Runs the phases in order. Returns false if the node was stopped or another sequence has taken over.
    pub(super) async fn phases(&self, phases: &[Phase]) -> bool {
        for (phase, task) in phases {
            if !self.open(phase, task) {
                return false;
            }
            self.simulation.clock().sleep(self.pace).await;
            self.close(phase, task);
        }
        self.holds_lock()
    }

    /// Reports the start of a phase. The caller does the work of the phase, and then closes it.
    pub(super) fn open(&self, phase: &str, task: &str) -> bool {
        self.report(|node, actor| node.open_phase(phase, &[task], actor))
    }

    pub(super) fn close(&self, phase: &str, task: &str) -> bool {
        self.report(|node, actor| node.close_phase(phase, &[task], actor))
    }

    /// Reports the end of the sequence and its error.
    pub(super) fn report_failure(&self, phase: &str, task: &str, message: &str) {
        self.close(phase, task);
        self.report(|node, actor| {
            let message = format!("sequence failed: {message}");
            let problem = Problem { code: Code::Fatal.into(), message };
            node.report_sequence(self.sequence, Action::Stop, None, actor);
            node.report_sequence(self.sequence, Action::Noop, Some(problem), actor);
        });
    }

    /// Ends the sequence with an error. The node continues to run as before.
    pub(super) fn fail(&self, phase: &str, task: &str, message: &str) {
        self.report_failure(phase, task, message);
        self.simulation.change_node(self.vmid, self.boot, |node| node.sequence = None);
        self.simulation.set_stage(self.vmid, self.boot, Stage::Running);
    }

    /// Reports the last phase, and reboots the machine.
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

    /// Whether this sequence is still the current sequence of the node.
    pub(super) fn holds_lock(&self) -> bool {
        let holder = |node: &Node| node.sequence.as_ref().is_some_and(|(_, a)| *a == self.actor);
        self.look(holder).unwrap_or_default()
    }

    fn report(&self, report: impl FnOnce(&mut Node, &str)) -> bool {
        if !self.holds_lock() {
            return false;
        }
        self.simulation
            .change_node(self.vmid, self.boot, |node| report(node, &self.actor))
            .is_some()
    }
}

/// Whether a sequence may interrupt the running one.
fn may_interrupt(sequence: &str, running: &str) -> bool {
    match (sequence, running) {
        ("shutdown", running) => running != "shutdown",
        (_, "boot") | ("reboot", "reboot" | "reset") => true,
        _ => false,
    }
}

/// Random actor id of a sequence.
fn new_actor(simulation: &Simulation, vmid: u32) -> String {
    let mut bytes = [0_u8; 16];
    simulation.chance(&format!("actor/{vmid}")).fill(&mut bytes);
    super::boot::uuid(&bytes)
}

#[cfg(test)]
mod tests {
    use super::may_interrupt;

    #[test]
    fn a_sequence_is_rejected_while_another_one_runs() {
        assert!(may_interrupt("upgrade", "boot"));
        assert!(may_interrupt("reboot", "reset"));
        assert!(!may_interrupt("reboot", "upgrade"));
        assert!(!may_interrupt("reset", "reboot"));
        assert!(!may_interrupt("upgrade", "upgrade"));
        assert!(may_interrupt("shutdown", "upgrade"));
    }
}

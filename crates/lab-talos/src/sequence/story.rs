//! What every boot tells of itself, in the order of Talos's own phases. Nobody asked for it, so its
//! events have no actor.

use talmox_talos_api::proto::machine::sequence_event::Action;
use talmox_talos_api::proto::machine::{PhaseEvent, TaskEvent, phase_event, task_event};

use super::super::talos_state::Node;
use super::life::Me;

/// A phase, and the tasks that it consists of.
type Phase<'t> = (&'static str, &'t [&'static str]);

const INITIALIZE: &str = "initialize";
const BOOT: &str = "boot";

/// Before there is a config. The last one waits for it.
const FINDING: &[Phase<'_>] = &[
    ("systemRequirements", &["enforceKSPPRequirements"]),
    (
        "earlyServices",
        &["startUdevd", "startMachined", "startAuditd", "startSyslogd", "startContainerd"],
    ),
    ("usb", &["waitForUSB"]),
    ("meta", &["reloadMeta"]),
    ("dashboard", &["startDashboard"]),
];
const CONFIG: Phase<'_> = ("config", &["loadConfig"]);

/// With a config. Services are up at the end of the last one.
const PREPARING: &[Phase<'_>] = &[
    ("memorySizeCheck", &["memorySizeCheck"]),
    ("diskSizeCheck", &["diskSizeCheck"]),
    ("env", &["setUserEnvVars", "waitForCARoots"]),
    ("dbus", &["startDBus"]),
    ("ephemeral", &["mountEphemeralPartition"]),
    ("udevSetup", &["writeUdevRules"]),
    ("userDisks", &["mountUserDisks"]),
    ("userSetup", &["writeUserFiles"]),
];
const SERVICES: Phase<'_> = ("startEverything", &["startAllServices"]);

impl Me {
    /// From the first instruction to the search for a config.
    pub(super) fn tell_search(&self) {
        self.tell(INITIALIZE, Action::Start);
        // auditd came with 1.9.
        let has_auditd = self.look(|node| node.version.is_at_least(9)).unwrap_or_default();
        let is_there = |task: &&str| has_auditd || *task != "startAuditd";
        let phases = FINDING.iter().map(|(phase, tasks)| {
            (*phase, tasks.iter().copied().filter(is_there).collect::<Vec<_>>())
        });
        for (phase, tasks) in phases {
            self.tell_phases(&[(phase, &tasks)]);
        }
        self.change(|node| node.open_phase(CONFIG.0, CONFIG.1, ""));
    }

    /// There is a config.
    pub(super) fn tell_found(&self) {
        self.change(|node| node.close_phase(CONFIG.0, CONFIG.1, ""));
        self.tell(INITIALIZE, Action::Stop);
    }

    /// All that comes before services.
    pub(super) fn tell_preparation(&self) {
        self.tell(BOOT, Action::Start);
        // From 1.14 on, rules of udev are written by whoever needs them.
        let has_rules = self.look(|node| !node.version.is_at_least(14)).unwrap_or_default();
        let phases = PREPARING.iter().filter(|(name, _)| has_rules || *name != "udevSetup");
        self.tell_phases(&phases.copied().collect::<Vec<_>>());
        self.change(|node| node.open_phase(SERVICES.0, SERVICES.1, ""));
    }

    /// All services are up.
    pub(super) fn tell_booted(&self) {
        self.change(|node| node.close_phase(SERVICES.0, SERVICES.1, ""));
        self.tell(BOOT, Action::Stop);
    }

    fn tell(&self, sequence: &str, action: Action) {
        self.change(|node| node.tell_sequence(sequence, action, None, ""));
    }

    fn tell_phases(&self, phases: &[Phase<'_>]) {
        self.change(|node| {
            for (phase, tasks) in phases {
                node.open_phase(phase, tasks, "");
                node.close_phase(phase, tasks, "");
            }
        });
    }
}

impl Node {
    /// A phase begins, with all its tasks.
    pub(super) fn open_phase(&mut self, phase: &str, tasks: &[&str], actor: &str) {
        let action = phase_event::Action::Start.into();
        self.events.tell("PhaseEvent", &PhaseEvent { phase: phase.to_owned(), action }, actor);
        for task in tasks {
            let (task, action) = ((*task).to_owned(), task_event::Action::Start.into());
            self.events.tell("TaskEvent", &TaskEvent { task, action }, actor);
        }
    }

    pub(super) fn close_phase(&mut self, phase: &str, tasks: &[&str], actor: &str) {
        for task in tasks {
            let (task, action) = ((*task).to_owned(), task_event::Action::Stop.into());
            self.events.tell("TaskEvent", &TaskEvent { task, action }, actor);
        }
        let action = phase_event::Action::Stop.into();
        self.events.tell("PhaseEvent", &PhaseEvent { phase: phase.to_owned(), action }, actor);
    }
}

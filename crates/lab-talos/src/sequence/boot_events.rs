//! Events of the boot sequence, in the order of the phases in Talos. The events have no actor, because no API call starts a
//! boot.

use talmox_talos_api::proto::machine::sequence_event::Action;
use talmox_talos_api::proto::machine::{PhaseEvent, TaskEvent, phase_event, task_event};

use super::super::talos_state::Node;
use super::node_boot::NodeBoot;

/// Phase of the boot sequence with its tasks.
type BootPhase<'t> = (&'static str, &'t [&'static str]);

const INITIALIZE: &str = "initialize";
const BOOT: &str = "boot";

/// Phases before the config is loaded. The last of these phases waits for the config.
const PHASES_BEFORE_CONFIG: &[BootPhase<'_>] = &[
    ("systemRequirements", &["enforceKSPPRequirements"]),
    (
        "earlyServices",
        &["startUdevd", "startMachined", "startAuditd", "startSyslogd", "startContainerd"],
    ),
    ("usb", &["waitForUSB"]),
    ("meta", &["reloadMeta"]),
    ("dashboard", &["startDashboard"]),
];
const CONFIG_PHASE: BootPhase<'_> = ("config", &["loadConfig"]);

/// Phases after the config is loaded. When the last of these phases ends, all services are up.
const PHASES_WITH_CONFIG: &[BootPhase<'_>] = &[
    ("memorySizeCheck", &["memorySizeCheck"]),
    ("diskSizeCheck", &["diskSizeCheck"]),
    ("env", &["setUserEnvVars", "waitForCARoots"]),
    ("dbus", &["startDBus"]),
    ("ephemeral", &["mountEphemeralPartition"]),
    ("udevSetup", &["writeUdevRules"]),
    ("userDisks", &["mountUserDisks"]),
    ("userSetup", &["writeUserFiles"]),
];
const SERVICES_PHASE: BootPhase<'_> = ("startEverything", &["startAllServices"]);

impl NodeBoot {
    /// Reports the phases from the start of the boot to the search for a config.
    pub(super) fn report_start(&self) {
        self.report(INITIALIZE, Action::Start);
        // Talos has auditd since 1.9.
        let has_auditd = self.look(|node| node.version.is_at_least(9)).unwrap_or_default();
        let is_there = |task: &&str| has_auditd || *task != "startAuditd";
        let phases = PHASES_BEFORE_CONFIG.iter().map(|(phase, tasks)| {
            (*phase, tasks.iter().copied().filter(is_there).collect::<Vec<_>>())
        });
        for (phase, tasks) in phases {
            self.report_phases(&[(phase, &tasks)]);
        }
        self.change(|node| node.open_phase(CONFIG_PHASE.0, CONFIG_PHASE.1, ""));
    }

    /// Reports that the config was found.
    pub(super) fn report_config_found(&self) {
        self.change(|node| node.close_phase(CONFIG_PHASE.0, CONFIG_PHASE.1, ""));
        self.report(INITIALIZE, Action::Stop);
    }

    /// Reports the phases before the services start.
    pub(super) fn report_preparation(&self) {
        self.report(BOOT, Action::Start);
        // Since 1.14, Talos has no phase that writes udev rules.
        let has_rules = self.look(|node| !node.version.is_at_least(14)).unwrap_or_default();
        let phases =
            PHASES_WITH_CONFIG.iter().filter(|(name, _)| has_rules || *name != "udevSetup");
        self.report_phases(&phases.copied().collect::<Vec<_>>());
        self.change(|node| node.open_phase(SERVICES_PHASE.0, SERVICES_PHASE.1, ""));
    }

    /// Reports that all services are up.
    pub(super) fn report_booted(&self) {
        self.change(|node| node.close_phase(SERVICES_PHASE.0, SERVICES_PHASE.1, ""));
        self.report(BOOT, Action::Stop);
    }

    fn report(&self, sequence: &str, action: Action) {
        self.change(|node| node.report_sequence(sequence, action, None, ""));
    }

    fn report_phases(&self, phases: &[BootPhase<'_>]) {
        self.change(|node| {
            for (phase, tasks) in phases {
                node.open_phase(phase, tasks, "");
                node.close_phase(phase, tasks, "");
            }
        });
    }
}

impl Node {
    /// Reports the start of a phase and its tasks.
    pub(super) fn open_phase(&mut self, phase: &str, tasks: &[&str], actor: &str) {
        let action = phase_event::Action::Start.into();
        self.events.publish("PhaseEvent", &PhaseEvent { phase: phase.to_owned(), action }, actor);
        for task in tasks {
            let (task, action) = ((*task).to_owned(), task_event::Action::Start.into());
            self.events.publish("TaskEvent", &TaskEvent { task, action }, actor);
        }
    }

    pub(super) fn close_phase(&mut self, phase: &str, tasks: &[&str], actor: &str) {
        for task in tasks {
            let (task, action) = ((*task).to_owned(), task_event::Action::Stop.into());
            self.events.publish("TaskEvent", &TaskEvent { task, action }, actor);
        }
        let action = phase_event::Action::Stop.into();
        self.events.publish("PhaseEvent", &PhaseEvent { phase: phase.to_owned(), action }, actor);
    }
}

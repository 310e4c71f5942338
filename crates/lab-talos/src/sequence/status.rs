//! Stages, services and sequences of a node, with their events.

use std::sync::Arc;
use std::time::Duration;

use talmox_lab_kube::micro_time;
use talmox_talos_api::proto::common::Error as Problem;
use talmox_talos_api::proto::machine::{
    MachineStatusEvent, SequenceEvent, ServiceHealth, ServiceStateEvent, machine_status_event,
    sequence_event, service_state_event,
};

use super::super::service::{Health, Service, ServiceState};
use super::super::simulation::Simulation;
use super::super::talos_state::{Node, Stage};

impl Simulation {
    /// Sets the state of a service. If the service already has this state and message, nothing changes and no waiting task is
    /// woken.
    pub(crate) fn enter(
        &self,
        vmid: u32,
        boot: u64,
        service: &str,
        state: ServiceState,
        message: &str,
    ) {
        let is_known = |known: &Service| {
            known.state == state && known.events.back().is_some_and(|last| last.message == message)
        };
        if self.service_is(vmid, boot, service, is_known) {
            return;
        }
        let now = self.now();
        self.change_node(vmid, boot, |node| {
            let known = node.services.entry(service.to_owned());
            let known = known.or_insert_with(|| Service::new(service));
            known.enter(state, message, now);
            node.dmesg(now, &format!("service[{service}]({}): {message}", state.name()));
            let event = service_event(service, state, message, None);
            node.events.publish("ServiceStateEvent", &event, "");
        });
    }

    /// Adds a line to the log of a service. The state of the service stays the same.
    pub(crate) fn log(&self, vmid: u32, boot: u64, service: &str, line: &str) {
        self.change_node(vmid, boot, |node| {
            if let Some(known) = node.services.get_mut(service) {
                known.write(line);
            }
        });
    }

    /// Sets the health of a running service. `message` is the reason if the service is not healthy.
    pub(crate) fn set_health(
        &self,
        vmid: u32,
        boot: u64,
        service: &str,
        healthy: bool,
        message: &str,
    ) {
        let is_known = |known: &Service| {
            let health = known.health.as_ref();
            health.is_some_and(|health| health.healthy == healthy && health.message == message)
        };
        if self.service_is(vmid, boot, service, is_known) {
            return;
        }
        let now = self.now();
        self.change_node(vmid, boot, |node| {
            let Some(known) = node.services.get_mut(service) else { return };
            let is_changed = known.health.as_ref().is_none_or(|health| health.healthy != healthy);
            let since = match &known.health {
                Some(health) if health.healthy == healthy => health.since,
                _ => now,
            };
            known.health = Some(Health { healthy, message: message.to_owned(), since });
            if is_changed {
                let event = if healthy {
                    "Health check successful".to_owned()
                } else {
                    format!("Health check failed: {message}")
                };
                known.report(&event, now);
                let (state, health) = (known.state, known.health.clone());
                node.dmesg(now, &format!("service[{service}]({}): {event}", state.name()));
                let event = service_event(service, state, &event, health.as_ref());
                node.events.publish("ServiceStateEvent", &event, "");
            }
        });
    }

    /// Waits until the time of the node is in sync. kubelet, etcd and trustd do not start before.
    pub(crate) async fn until_time_synced(&self, vmid: u32, boot: u64) {
        self.until(|talos| {
            let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot)?;
            node.is_time_in_sync.then_some(())
        })
        .await;
    }

    /// Reloads a service like machined. This discards the earlier events of the service.
    pub(crate) fn reload(&self, vmid: u32, boot: u64, service: &str) {
        self.change_node(vmid, boot, |node| {
            node.services.insert(service.to_owned(), Service::new(service));
        });
    }

    fn service_is(
        &self,
        vmid: u32,
        boot: u64,
        service: &str,
        is: impl Fn(&Service) -> bool,
    ) -> bool {
        self.look(|talos| {
            let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot);
            node.and_then(|node| node.services.get(service)).is_some_and(is)
        })
    }

    /// Sets the stage of a node.
    pub(crate) fn set_stage(&self, vmid: u32, boot: u64, stage: Stage) {
        self.change_node(vmid, boot, |node| {
            node.stage = stage;
            node.report_status();
        });
    }

    /// Sets the conditions because of which a running node is not ready.
    pub(crate) fn set_unmet(&self, vmid: u32, boot: u64, unmet: Vec<(String, String)>) {
        let is_changed = self.look(|talos| {
            talos.nodes.get(&vmid).is_some_and(|node| node.boot == boot && node.unmet != unmet)
        });
        if is_changed {
            self.change_node(vmid, boot, |node| {
                node.unmet = unmet;
                node.report_status();
            });
        }
    }

    /// Reboots the node with a reset of its VM.
    pub(crate) fn power_cycle(self: &Arc<Self>, vmid: u32) {
        self.hypervisor.reset(vmid);
    }

    pub(crate) fn power_off(self: &Arc<Self>, vmid: u32) {
        self.hypervisor.power_off(vmid);
    }
}

impl Node {
    /// Whether the node is ready: it is running or in maintenance mode, and has no unmet conditions.
    pub(crate) fn is_ready(&self) -> bool {
        match self.stage {
            Stage::Running | Stage::Maintenance => self.unmet.is_empty(),
            _ => false,
        }
    }

    pub(super) fn report_sequence(
        &mut self,
        sequence: &str,
        action: sequence_event::Action,
        error: Option<Problem>,
        actor: &str,
    ) {
        let event = SequenceEvent { sequence: sequence.to_owned(), action: action.into(), error };
        self.events.publish("SequenceEvent", &event, actor);
    }

    fn report_status(&mut self) {
        use machine_status_event::MachineStage;
        use machine_status_event::machine_status::UnmetCondition;

        let stage = match self.stage {
            Stage::Booting => MachineStage::Booting,
            Stage::Installing => MachineStage::Installing,
            Stage::Maintenance => MachineStage::Maintenance,
            Stage::Running => MachineStage::Running,
            Stage::Rebooting => MachineStage::Rebooting,
            Stage::ShuttingDown => MachineStage::ShuttingDown,
            Stage::Resetting => MachineStage::Resetting,
            Stage::Upgrading => MachineStage::Upgrading,
        };
        let unmet = self
            .unmet
            .iter()
            .map(|(name, reason)| UnmetCondition { name: name.clone(), reason: reason.clone() });
        let status = machine_status_event::MachineStatus {
            ready: self.is_ready(),
            unmet_conditions: unmet.collect(),
        };
        let event = MachineStatusEvent { stage: stage.into(), status: Some(status) };
        self.events.publish("MachineStatusEvent", &event, "");
    }

    /// Adds a line to the kernel log.
    pub(crate) fn dmesg(&mut self, now: Duration, line: &str) {
        const LINES: usize = 500;
        // Two tasks may have read the clock in another order than they write to the log. Times in the kernel log never
        // decrease.
        let now = now.max(self.dmesg_time);
        self.dmesg_time = now;
        self.dmesg.push(format!("kern:    info: [{}]: [talos] {line}", micro_time(now)));
        if self.dmesg.len() > LINES {
            self.dmesg.remove(0);
        }
    }
}

fn service_event(
    service: &str,
    state: ServiceState,
    message: &str,
    health: Option<&Health>,
) -> ServiceStateEvent {
    use service_state_event::Action;

    let action = match state {
        ServiceState::Initialized => Action::Initialized,
        ServiceState::Preparing => Action::Preparing,
        ServiceState::Waiting => Action::Waiting,
        ServiceState::Starting => Action::Starting,
        ServiceState::Running => Action::Running,
        ServiceState::Stopping => Action::Stopping,
        ServiceState::Finished => Action::Finished,
        ServiceState::Failed => Action::Failed,
    };
    let health = health.map_or_else(
        || ServiceHealth { unknown: true, ..ServiceHealth::default() },
        |health| ServiceHealth {
            unknown: false,
            healthy: health.healthy,
            last_message: health.message.clone(),
            last_change: None,
        },
    );
    ServiceStateEvent {
        service: service.to_owned(),
        action: action.into(),
        message: message.to_owned(),
        health: Some(health),
    }
}

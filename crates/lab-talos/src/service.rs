//! Services of a node, in the form that `talosctl services` shows.

use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of events and of log lines that are kept for a service.
const MAX_EVENTS: usize = 64;
const LOG_LINES: usize = 200;

#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) state: ServiceState,
    pub(crate) events: VecDeque<ServiceMoment>,
    /// Whether Talos checks the health of the service. If it does, the service is healthy only after the first check.
    pub(crate) is_checked: bool,
    /// Result of the last health check; `None` before the first check.
    pub(crate) health: Option<Health>,
    /// Number of starts of the service.
    pub(crate) starts: u64,
    pub(crate) log: VecDeque<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct ServiceMoment {
    pub(crate) message: String,
    pub(crate) state: ServiceState,
    pub(crate) at: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct Health {
    pub(crate) healthy: bool,
    pub(crate) message: String,
    pub(crate) since: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceState {
    Initialized,
    Preparing,
    Waiting,
    Starting,
    Running,
    Stopping,
    Finished,
    Failed,
}

impl ServiceState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Initialized => "Initialized",
            Self::Preparing => "Preparing",
            Self::Waiting => "Waiting",
            Self::Starting => "Starting",
            Self::Running => "Running",
            Self::Stopping => "Stopping",
            Self::Finished => "Finished",
            Self::Failed => "Failed",
        }
    }
}

impl Service {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            state: ServiceState::Initialized,
            events: VecDeque::new(),
            is_checked: is_checked(name),
            health: None,
            starts: 0,
            log: VecDeque::new(),
        }
    }

    pub(crate) fn enter(&mut self, state: ServiceState, message: &str, at: Duration) {
        self.state = state;
        if state != ServiceState::Running {
            self.health = None;
        }
        self.starts += u64::from(state == ServiceState::Starting);
        self.report(message, at);
    }

    /// Adds an event and a log line. The state of the service stays the same.
    pub(crate) fn report(&mut self, message: &str, at: Duration) {
        let state = self.state;
        self.events.push_back(ServiceMoment { message: message.to_owned(), state, at });
        if self.events.len() > MAX_EVENTS {
            self.events.pop_front();
        }
        self.write(message);
    }

    /// Whether the service was started and has not ended. This includes a service that still waits for a condition.
    pub(crate) fn is_started(&self) -> bool {
        use ServiceState::{Failed, Finished, Initialized};
        !matches!(self.state, Initialized | Finished | Failed)
    }

    pub(crate) fn is_healthy(&self) -> bool {
        let check_result = self.health.as_ref().map(|health| health.healthy);
        self.state == ServiceState::Running && check_result.unwrap_or(!self.is_checked)
    }

    pub(crate) fn write(&mut self, line: &str) {
        self.log.push_back(line.to_owned());
        if self.log.len() > LOG_LINES {
            self.log.pop_front();
        }
    }
}

/// Whether Talos checks the health of a service. It checks all services except the dashboard and extension services.
pub(crate) fn is_checked(service: &str) -> bool {
    service != "dashboard" && !service.starts_with("ext-")
}

/// Condition that a service waits for before it starts, in the wording of machined; `None` if there is no condition.
pub(crate) fn condition(service: &str) -> Option<&'static str> {
    Some(match service {
        "syslogd" => "service \"machined\" to be \"up\"",
        "dashboard" => {
            "service \"machined\" to be \"up\", file \"/system/run/machined/machine.sock\" to exist"
        }
        "cri" => "network",
        "trustd" => "service \"containerd\" to be \"up\", time sync, network",
        "kubelet" => "service \"cri\" to be \"up\", time sync, network",
        "etcd" => "service \"cri\" to be \"up\", time sync, network, etcd spec",
        _ => return None,
    })
}

/// Whether the service runs as a container in the system containerd.
pub(crate) fn runs_in_system_container(service: &str) -> bool {
    matches!(service, "apid" | "trustd") || service.starts_with("ext-")
}

/// Process id of a service.
pub(crate) fn pid(service: &str, vmid: u32) -> u32 {
    let base = match service {
        "udevd" => 1100,
        "containerd" => 1200,
        "dashboard" => 1300,
        "cri" => 1400,
        "apid" => 1500,
        "trustd" => 1600,
        "etcd" => 2000,
        "kubelet" => 2600,
        _ => 3000,
    };
    base + vmid % 100
}

/// Event text of a service that has started as a part of machined, as a process, or as a containerd task.
pub(crate) fn started(service: &str, vmid: u32) -> String {
    let pid = pid(service, vmid);
    let command = match service {
        "machined" | "auditd" | "syslogd" => return "Service started as goroutine".to_owned(),
        "udevd" => "\"/sbin/systemd-udevd\" \"--resolve-names=never\"",
        "containerd" => {
            "\"/bin/containerd\" \"--address\" \"/system/run/containerd/containerd.sock\""
        }
        "cri" => "\"/bin/containerd\" \"--address\" \"/run/containerd/containerd.sock\"",
        "dashboard" => "\"/sbin/dashboard\"",
        _ => return format!("Started task {service} (PID {pid}) for container {service}"),
    };
    format!("Process Process([{command}]) started with PID {pid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checked_service_is_healthy_after_the_first_check() {
        let mut etcd = Service::new("etcd");
        etcd.enter(ServiceState::Running, "Started", Duration::ZERO);
        assert!(!etcd.is_healthy());
        let well = Health { healthy: true, message: String::new(), since: Duration::ZERO };
        etcd.health = Some(well);
        assert!(etcd.is_healthy());
        etcd.enter(ServiceState::Stopping, "Stopping", Duration::ZERO);
        etcd.enter(ServiceState::Running, "Started", Duration::ZERO);
        assert!(!etcd.is_healthy());
        let mut dashboard = Service::new("dashboard");
        dashboard.enter(ServiceState::Running, "Started", Duration::ZERO);
        assert!(dashboard.is_healthy());
    }
}

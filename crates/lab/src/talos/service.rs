//! The services of a node, as `talosctl services` lists them.

use std::collections::VecDeque;
use std::time::Duration;

/// How many events and log lines of a service are remembered.
const REMEMBERED: usize = 20;
const LOG_LINES: usize = 200;

#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) state: ServiceState,
    pub(crate) events: VecDeque<ServiceMoment>,
    /// None where nobody checks.
    pub(crate) health: Option<Health>,
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
    pub(crate) fn new() -> Self {
        Self {
            state: ServiceState::Initialized,
            events: VecDeque::new(),
            health: None,
            log: VecDeque::new(),
        }
    }

    pub(crate) fn enter(&mut self, state: ServiceState, message: &str, at: Duration) {
        self.state = state;
        if state != ServiceState::Running {
            self.health = None;
        }
        self.events.push_back(ServiceMoment { message: message.to_owned(), state, at });
        if self.events.len() > REMEMBERED {
            self.events.pop_front();
        }
        self.write(message);
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.state == ServiceState::Running
            && self.health.as_ref().is_none_or(|health| health.healthy)
    }

    pub(crate) fn write(&mut self, line: &str) {
        self.log.push_back(line.to_owned());
        if self.log.len() > LOG_LINES {
            self.log.pop_front();
        }
    }
}

//! Version, services, memory and disks of a machine.

use super::Client;
use crate::error::TalosError;
use crate::proto::machine::{ServiceInfo, ServiceRestartRequest, VersionInfo};
use crate::proto::storage::Disk;

/// Running version of Talos.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Tag, such as `v1.13.6`.
    pub tag: String,
    pub arch: String,
    /// Platform, such as `nocloud` or `metal`.
    pub platform: String,
}

/// Service of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub id: String,
    /// State as Talos spells it, such as `Running`, `Preparing` or `Waiting`.
    pub state: String,
    pub health: Health,
    /// Last message of the service. It explains why the service waits or is not healthy.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The service has no health check, or its health check has no result yet.
    Unknown,
    Good,
    Bad,
}

impl Service {
    pub fn is_running(&self) -> bool {
        self.state == "Running"
    }

    /// Whether the service runs and is not reported as unhealthy. A service without health checks counts as healthy.
    pub fn is_fine(&self) -> bool {
        self.is_running() && self.health != Health::Bad
    }

    /// Description such as `etcd is Preparing: waiting for …`.
    pub fn describe(&self) -> String {
        // In this state Talos pulls the image of the service, but its message does not mention the pull.
        if self.state == "Preparing" && self.message == "Running pre state" {
            return format!("{} is starting: pulling its image", self.id);
        }
        let unhealthy = if self.health == Health::Bad { ", not healthy" } else { "" };
        let colon = if self.message.is_empty() { "" } else { ": " };
        format!("{} is {}{unhealthy}{colon}{}", self.id, self.state, self.message)
    }
}

impl Client {
    /// Reads the Talos version. Up to Talos 1.12, a node in maintenance mode does not support this call.
    pub async fn version(&self) -> Result<Version, TalosError> {
        let mut machine = self.machine();
        let found = self.ask_one("Version", machine.version(()), |all| all.messages).await?;
        let VersionInfo { tag, arch, .. } = found.version.unwrap_or_default();
        Ok(Version { tag, arch, platform: found.platform.unwrap_or_default().name })
    }

    pub async fn hostname(&self) -> Result<String, TalosError> {
        let mut machine = self.machine();
        let found = self.ask_one("Hostname", machine.hostname(()), |all| all.messages).await?;
        Ok(found.hostname)
    }

    pub async fn services(&self) -> Result<Vec<Service>, TalosError> {
        let mut machine = self.machine();
        let list = self.ask_one("ServiceList", machine.service_list(()), |all| all.messages);
        Ok(list.await?.services.into_iter().map(Service::from).collect())
    }

    /// Restarts a service and returns when the service has stopped and starts again. Talos allows this for the kubelet
    /// and for extensions.
    pub async fn restart_service(&self, id: &str) -> Result<(), TalosError> {
        let mut machine = self.machine();
        let answer = machine.service_restart(ServiceRestartRequest { id: id.to_owned() });
        self.ask("ServiceRestart", answer).await.map(|_| ())
    }

    /// Reads the size of the memory in bytes.
    pub async fn memory(&self) -> Result<u64, TalosError> {
        let mut machine = self.machine();
        let found = self.ask_one("Memory", machine.memory(()), |all| all.messages).await?;
        Ok(found.meminfo.unwrap_or_default().memtotal * 1024)
    }

    /// Lists the disks, including loop devices and read-only disks.
    pub async fn disks(&self) -> Result<Vec<Disk>, TalosError> {
        let mut storage = self.storage();
        let found = self.ask_one("Disks", storage.disks(()), |all| all.messages).await?;
        Ok(found.disks)
    }
}

impl From<ServiceInfo> for Service {
    fn from(info: ServiceInfo) -> Self {
        let last = info.events.unwrap_or_default().events.into_iter().last();
        let said = last.map(|event| event.msg).unwrap_or_default();
        let (health, message) = match info.health {
            Some(health) if !health.unknown && health.healthy => (Health::Good, said),
            Some(health) if !health.unknown && health.last_message.is_empty() => {
                (Health::Bad, said)
            }
            Some(health) if !health.unknown => (Health::Bad, health.last_message),
            _ => (Health::Unknown, said),
        };
        Self { id: info.id, state: info.state, health, message }
    }
}

//! What a machine is and what runs on it.

use super::Client;
use crate::error::TalosError;
use crate::proto::machine::{ServiceInfo, ServiceRestartRequest, VersionInfo};
use crate::proto::storage::Disk;

/// The Talos that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `v1.13.6`.
    pub tag: String,
    pub arch: String,
    /// `nocloud`, `metal`…
    pub platform: String,
}

/// A service of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub id: String,
    /// `Running`, `Preparing`, `Waiting`…, as Talos spells it.
    pub state: String,
    pub health: Health,
    /// What it said last: why it waits, or why it is ill.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The service has no health, or none yet.
    Unknown,
    Good,
    Bad,
}

impl Service {
    pub fn is_running(&self) -> bool {
        self.state == "Running"
    }

    /// Runs, and nothing is known to be wrong with it. A service without health checks counts.
    pub fn is_fine(&self) -> bool {
        self.is_running() && self.health != Health::Bad
    }

    /// `etcd is Preparing: waiting for …`.
    pub fn describe(&self) -> String {
        // Talos pulls the image of a service in this state, and says nothing else about it.
        if self.state == "Preparing" && self.message == "Running pre state" {
            return format!("{} is starting: pulling its image", self.id);
        }
        let ill = if self.health == Health::Bad { ", not healthy" } else { "" };
        let colon = if self.message.is_empty() { "" } else { ": " };
        format!("{} is {}{ill}{colon}{}", self.id, self.state, self.message)
    }
}

impl Client {
    /// Not known to nodes in maintenance mode up to Talos 1.12.
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

    /// Answered once it has stopped and begins again. Talos lets this be done to the kubelet and to extensions.
    pub async fn restart_service(&self, id: &str) -> Result<(), TalosError> {
        let mut machine = self.machine();
        let answer = machine.service_restart(ServiceRestartRequest { id: id.to_owned() });
        self.ask("ServiceRestart", answer).await.map(|_| ())
    }

    /// Memory in bytes.
    pub async fn memory(&self) -> Result<u64, TalosError> {
        let mut machine = self.machine();
        let found = self.ask_one("Memory", machine.memory(()), |all| all.messages).await?;
        Ok(found.meminfo.unwrap_or_default().memtotal * 1024)
    }

    /// Disks, loop devices and read-only ones among them.
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

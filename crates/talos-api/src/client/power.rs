//! Reboot, shutdown and reset. Each call starts an operation and returns its actor ID. Events with this actor ID report
//! the progress.

use tonic::Code;

use super::Client;
use crate::error::TalosError;
use crate::proto::machine::reboot_request::Mode;
use crate::proto::machine::reset_request::WipeMode;
use crate::proto::machine::{
    RebootRequest, ResetPartitionSpec, ResetRequest, RollbackRequest, ShutdownRequest,
};

/// ID of a started operation. The events of the operation have the same ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor(pub String);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RebootMode {
    #[default]
    Default,
    /// Reboot through the firmware, without kexec.
    PowerCycle,
    /// Reboot without stopping services first.
    Force,
}

/// Disks or partitions that a reset wipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wipe {
    /// The whole system disk and the given user disks. The machine cannot boot afterwards.
    All {
        user_disks: Vec<String>,
    },
    /// These partitions of the system disk, such as `STATE` or `EPHEMERAL`.
    Partitions(Vec<String>),
    UserDisks(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// Whether Talos drains the node and leaves etcd before the reset.
    pub graceful: bool,
    /// Whether the machine reboots after the reset. Otherwise it shuts down.
    pub reboot: bool,
    pub wipe: Wipe,
}

impl Client {
    pub async fn reboot(&self, mode: RebootMode) -> Result<Actor, TalosError> {
        let mode = match mode {
            RebootMode::Default => Mode::Default,
            RebootMode::PowerCycle => Mode::Powercycle,
            RebootMode::Force => Mode::Force,
        };
        let mut machine = self.machine();
        let answer = machine.reboot(RebootRequest { mode: mode.into() });
        let started = self.ask_one("Reboot", answer, |all| all.messages).await?;
        Ok(Actor(started.actor_id))
    }

    /// Shuts the machine down. Without `force`, Talos drains the node first.
    pub async fn shutdown(&self, force: bool) -> Result<Actor, TalosError> {
        let mut machine = self.machine();
        let answer = machine.shutdown(ShutdownRequest { force });
        let started = self.ask_one("Shutdown", answer, |all| all.messages).await?;
        Ok(Actor(started.actor_id))
    }

    /// Starts a reset. A list of partitions must not be empty: Talos would wipe the whole disk, so the client rejects
    /// such a reset.
    pub async fn reset(&self, reset: &Reset) -> Result<Actor, TalosError> {
        if matches!(&reset.wipe, Wipe::Partitions(labels) if labels.is_empty()) {
            return Err(TalosError::No {
                call: self.call("Reset"),
                code: Code::InvalidArgument,
                message: "the reset names no partition".to_owned(),
            });
        }
        let mut machine = self.machine();
        let answer = machine.reset(ResetRequest::from(reset));
        let started = self.ask_one("Reset", answer, |all| all.messages).await?;
        Ok(Actor(started.actor_id))
    }

    /// Boots the Talos version that ran before the last upgrade.
    pub async fn rollback(&self) -> Result<(), TalosError> {
        let mut machine = self.machine();
        self.ask("Rollback", machine.rollback(RollbackRequest {})).await.map(|_| ())
    }
}

impl From<&Reset> for ResetRequest {
    fn from(reset: &Reset) -> Self {
        let Reset { graceful, reboot, wipe } = reset;
        let (mode, labels, user_disks) = match wipe {
            Wipe::All { user_disks } => (WipeMode::All, &[][..], user_disks.clone()),
            Wipe::Partitions(labels) => (WipeMode::SystemDisk, &labels[..], vec![]),
            Wipe::UserDisks(disks) => (WipeMode::UserDisks, &[][..], disks.clone()),
        };
        let wiped = |label: &String| ResetPartitionSpec { label: label.clone(), wipe: true };
        Self {
            graceful: *graceful,
            reboot: *reboot,
            system_partitions_to_wipe: labels.iter().map(wiped).collect(),
            user_disks_to_wipe: user_disks,
            mode: mode.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reset_requests_contain_labels_or_user_disks() {
        let request = |wipe| ResetRequest::from(&Reset { graceful: true, reboot: false, wipe });
        let labels = request(Wipe::Partitions(vec!["STATE".to_owned(), "EPHEMERAL".to_owned()]));
        assert_eq!(labels.mode(), WipeMode::SystemDisk);
        assert!(labels.system_partitions_to_wipe.iter().all(|part| part.wipe));
        assert!(labels.user_disks_to_wipe.is_empty());
        let disks = request(Wipe::UserDisks(vec!["/dev/sdb".to_owned()]));
        assert_eq!((disks.mode(), disks.system_partitions_to_wipe.len()), (WipeMode::UserDisks, 0));
        let all = request(Wipe::All { user_disks: vec![] });
        assert_eq!((all.mode(), all.graceful, all.reboot), (WipeMode::All, true, false));
    }
}

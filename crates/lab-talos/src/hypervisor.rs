//! Interface to the hypervisor whose VMs the nodes run in. The crate that joins a hypervisor and nodes implements it.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::task::{Context, Poll};

use talmox_lab_environment::fault::Action;

use super::hardware::{Card, Hardware};
use super::written::{DiskKey, Written};

pub trait Hypervisor: fmt::Debug + Send + Sync {
    /// What happens to VMs from now on.
    fn watch(&self) -> Box<dyn PowerEvents>;

    /// The VMs that run now.
    fn running(&self) -> Vec<u32>;

    /// The VM that runs and has this name or id.
    fn find_running(&self, name: &str) -> Option<u32>;

    /// What the VM was started with; none if it does not run.
    fn hardware(&self, vmid: u32) -> Option<Hardware>;

    /// What can change while a VM runs; none if it does not.
    fn running_state(&self, vmid: u32) -> Option<RunningState>;

    /// From now on the caller decides what this guest does when its power button is pressed.
    fn attach(&self, vmid: u32);

    /// The guest is left to itself again.
    fn detach(&self, vmid: u32);

    /// The guest switches itself off.
    fn power_off(&self, vmid: u32);

    /// The guest boots again by itself.
    fn reset(&self, vmid: u32);

    /// The agent of a guest that boots does not answer yet.
    fn forget_agent(&self, vmid: u32);

    /// The guest's agent starts to answer, or answers otherwise.
    fn set_agent(&self, vmid: u32, report: AgentReport);

    /// The same for an agent that answers already; one that is silent stays so.
    fn renew_agent(&self, vmid: u32, report: AgentReport);

    /// What is on a disk; none if it is gone.
    fn disk(&self, disk: &DiskKey) -> Option<DiskContent>;

    /// Changes what a guest wrote onto a disk, unless the disk is gone.
    fn change_disk(&self, disk: &DiskKey, change: &mut dyn FnMut(&mut Written));

    /// Lets happen what a fault does to the hypervisor itself.
    fn carry_out(&self, action: &Action);
}

/// What happens to VMs, in its order.
pub trait PowerEvents: Send {
    /// The next event, with the id of its VM; none once the hypervisor is gone.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(u32, PowerEvent)>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerEvent {
    /// The VM starts to boot.
    Started,
    /// It boots again, with the same hardware.
    Reset,
    /// Its power button is pressed.
    PowerButton,
    /// It was paused or resumed, or something about its network cards changed.
    Changed,
    /// It is off.
    Stopped,
}

/// What can change while a VM runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningState {
    pub is_paused: bool,
    /// As the configuration has them: what a running machine does not take at once is not there yet.
    pub cards: Vec<Card>,
}

/// What the guest agent reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentReport {
    pub hostname: String,
    pub interfaces: Vec<AgentInterface>,
}

/// A network interface of a guest: name, MAC, and addresses with their prefix length.
pub type AgentInterface = (String, String, Vec<(IpAddr, u8)>);

/// What is on a disk.
#[derive(Clone, Debug, Default)]
pub struct DiskContent {
    /// The file with the image that it was made of; none for a disk that was made empty.
    pub image: Option<PathBuf>,
    pub written: Written,
}

impl dyn Hypervisor + '_ {
    /// What a guest wrote onto a disk.
    pub(crate) fn written(&self, disk: &DiskKey) -> Written {
        self.disk(disk).map(|content| content.written).unwrap_or_default()
    }

    /// A disk that was taken away while the guest runs takes what is written with it.
    pub(crate) fn write_disk(&self, disk: &DiskKey, change: impl FnOnce(&mut Written)) {
        let mut change = Some(change);
        self.change_disk(disk, &mut |written| {
            if let Some(change) = change.take() {
                change(written);
            }
        });
    }
}

//! Interface to the hypervisor that runs the VMs of the nodes. The crate that connects hypervisor and nodes implements this
//! interface.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::task::{Context, Poll};

use talmox_lab_environment::fault::Action;

use super::disk_data::{DiskKey, Written};
use super::hardware::{Card, Hardware};

pub trait Hypervisor: fmt::Debug + Send + Sync {
    /// Subscribes to power events of VMs.
    fn watch(&self) -> Box<dyn PowerEvents>;

    /// vmids of the running VMs.
    fn running(&self) -> Vec<u32>;

    /// vmid of the running VM with this name or vmid.
    fn find_running(&self, name: &str) -> Option<u32>;

    /// Hardware that the VM was started with; `None` if the VM does not run.
    fn hardware(&self, vmid: u32) -> Option<Hardware>;

    /// State that can change while the VM runs; `None` if the VM does not run.
    fn running_state(&self, vmid: u32) -> Option<RunningState>;

    /// Connects the power button of the VM to the simulation: each press becomes a power event.
    fn attach(&self, vmid: u32);

    /// Disconnects the power button of the VM from the simulation.
    fn detach(&self, vmid: u32);

    /// Powers the VM off, from inside the guest.
    fn power_off(&self, vmid: u32);

    /// Reboots the VM, from inside the guest.
    fn reset(&self, vmid: u32);

    /// Marks the guest agent as not answering. Called at the start of a boot.
    fn forget_agent(&self, vmid: u32);

    /// Sets the report of the guest agent, and marks the agent as answering.
    fn set_agent(&self, vmid: u32, report: AgentReport);

    /// Updates the report of a guest agent. Does nothing if the agent does not answer yet.
    fn renew_agent(&self, vmid: u32, report: AgentReport);

    /// Content of a disk; `None` if the disk was deleted.
    fn disk(&self, disk: &DiskKey) -> Option<DiskContent>;

    /// Changes the data that the guest wrote to a disk. Does nothing if the disk was deleted.
    fn change_disk(&self, disk: &DiskKey, change: &mut dyn FnMut(&mut Written));

    /// Applies a fault of the hypervisor itself.
    fn carry_out(&self, action: &Action);
}

/// Power events of VMs, in the order in which they occur.
pub trait PowerEvents: Send {
    /// Next event, with the vmid of the VM; `None` after the hypervisor has stopped.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(u32, PowerEvent)>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerEvent {
    /// The VM starts to boot.
    Started,
    /// The VM reboots with the same hardware.
    Reset,
    /// The power button was pressed.
    PowerButton,
    /// The VM was paused or resumed, or its network cards changed.
    Changed,
    /// The VM is off.
    Stopped,
}

/// State that can change while a VM runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningState {
    pub is_paused: bool,
    /// Network cards that the running machine has. Pending changes of the config are not included.
    pub cards: Vec<Card>,
}

/// Report of the guest agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentReport {
    pub hostname: String,
    pub interfaces: Vec<AgentInterface>,
}

/// Network interface of a guest: name, MAC address, and addresses with their prefix lengths.
pub type AgentInterface = (String, String, Vec<(IpAddr, u8)>);

/// Content of a disk.
#[derive(Clone, Debug, Default)]
pub struct DiskContent {
    /// Image file that the disk was created from; `None` for a disk that was created empty.
    pub image: Option<PathBuf>,
    pub written: Written,
}

impl dyn Hypervisor + '_ {
    /// Data that the guest wrote to a disk.
    pub(crate) fn written(&self, disk: &DiskKey) -> Written {
        self.disk(disk).map(|content| content.written).unwrap_or_default()
    }

    /// Changes the data on a disk. If the disk was removed while the guest runs, the change is lost.
    pub(crate) fn write_disk(&self, disk: &DiskKey, change: impl FnOnce(&mut Written)) {
        let mut change = Some(change);
        self.change_disk(disk, &mut |written| {
            if let Some(change) = change.take() {
                change(written);
            }
        });
    }
}

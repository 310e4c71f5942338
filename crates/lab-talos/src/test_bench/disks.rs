//! Disks in memory, in place of those of a hypervisor, because the nodes of a bench have no VMs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use talmox_lab_environment::fault::Action;

use crate::disk_data::{DiskKey, Written};
use crate::hardware::Hardware;
use crate::hypervisor::{
    AgentReport, DiskContent, Hypervisor, PowerEvent, PowerEvents, RunningState,
};

/// Disk contents by volume name.
#[derive(Debug, Default)]
pub(super) struct MemoryDisks(Mutex<BTreeMap<String, Written>>);

struct NoEvents;

impl PowerEvents for NoEvents {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<(u32, PowerEvent)>> {
        Poll::Pending
    }
}

impl Hypervisor for MemoryDisks {
    fn watch(&self) -> Box<dyn PowerEvents> {
        Box::new(NoEvents)
    }

    fn running(&self) -> Vec<u32> {
        vec![]
    }

    fn find_running(&self, _: &str) -> Option<u32> {
        None
    }

    fn hardware(&self, _: u32) -> Option<Hardware> {
        None
    }

    fn running_state(&self, _: u32) -> Option<RunningState> {
        None
    }

    fn attach(&self, _: u32) {}

    fn detach(&self, _: u32) {}

    fn power_off(&self, _: u32) {}

    fn reset(&self, _: u32) {}

    fn forget_agent(&self, _: u32) {}

    fn set_agent(&self, _: u32, _: AgentReport) {}

    fn renew_agent(&self, _: u32, _: AgentReport) {}

    fn disk(&self, disk: &DiskKey) -> Option<DiskContent> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(DiskContent { image: None, written: all.get(&disk.volume)?.clone() })
    }

    fn change_disk(&self, disk: &DiskKey, change: &mut dyn FnMut(&mut Written)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(disk.volume.clone()).or_default());
    }

    fn carry_out(&self, _: &Action) {}
}

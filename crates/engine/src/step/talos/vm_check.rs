//! State of the VMs whose machines do not answer. A host that is down, a VM that is stopped, or a Proxmox API that does not
//! answer explains more than a closed port.

use std::fmt;

use talmox_clock::Deadline;
use talmox_plan::plan::OwnVm;
use talmox_pve::api::cluster::{self, Resources};

use crate::step::StepContext;
use crate::timeouts::VM_CHECK;

/// Checks the VMs whose machines a step waits for, at intervals, in Proxmox.
#[derive(Debug)]
pub(super) struct VmCheck<'a> {
    machines: Vec<&'a OwnVm>,
    next: Deadline,
    found: Option<VmProblem>,
}

/// Problem of a VM or its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VmProblem {
    /// A host is down or a VM is stopped. The text names the host or VM.
    Down(String),
    /// Proxmox does not answer.
    Silent,
    /// A VM cannot be reset now. The text is the reason.
    NoReset(String),
}

impl fmt::Display for VmProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down(what) => f.write_str(what),
            Self::Silent => f.write_str("Proxmox does not answer either"),
            Self::NoReset(why) => write!(f, "its VM cannot be reset now: {why}"),
        }
    }
}

impl<'a> VmCheck<'a> {
    /// Creates a check. The first request is sent after one interval, because most machines answer before.
    pub(super) fn of(machines: Vec<&'a OwnVm>, context: &StepContext) -> Self {
        Self { machines, next: context.run.clock.deadline(VM_CHECK), found: None }
    }

    /// The reason of a wait, with the problem of its VM if there is one. If Proxmox does not answer, that is added only for
    /// machines that do not answer either (`is_silent`).
    pub(super) async fn explain(
        &mut self,
        reason: &str,
        is_silent: bool,
        context: &StepContext,
    ) -> String {
        if self.next.has_passed() && !self.machines.is_empty() {
            self.look(context).await;
        }
        self.add_to(reason, is_silent)
    }

    /// The reason of a wait, with the problem that is known already.
    pub(super) fn add_to(&self, reason: &str, is_silent: bool) -> String {
        match &self.found {
            Some(found) if is_silent || *found != VmProblem::Silent => {
                if reason.is_empty() {
                    found.to_string()
                } else {
                    format!("{reason} ({found})")
                }
            }
            _ => reason.to_owned(),
        }
    }

    /// Records why a VM cannot be reset. The next check replaces the reason.
    pub(super) fn has_no_reset(&mut self, why: String) {
        self.found = Some(VmProblem::NoReset(why));
    }

    /// Deletes the recorded problem, after the VM was reset.
    pub(super) fn forget(&mut self) {
        self.found = None;
    }

    /// Requests the state of the VMs from Proxmox now, and returns their problem.
    pub(super) async fn look(&mut self, context: &StepContext) -> Option<&VmProblem> {
        self.next = context.run.clock.deadline(VM_CHECK);
        let asked = context.wait(context.send(&cluster::resources())).await;
        self.found = match asked {
            Ok(Ok(all)) => {
                self.machines.iter().find_map(|machine| problem(machine, &all)).map(VmProblem::Down)
            }
            Ok(Err(error)) if error.is_unanswered() => Some(VmProblem::Silent),
            // Any other error explains nothing.
            Ok(Err(_)) | Err(_) => None,
        };
        self.found.as_ref()
    }
}

fn problem(machine: &OwnVm, all: &Resources) -> Option<String> {
    let vmid = machine.vm.vmid;
    let guest = all.guests.iter().find(|guest| guest.vmid == vmid);
    let name = &machine.identity.node;
    let host = guest.map_or(&machine.vm.node, |guest| &guest.node);
    let seen = all.hosts.iter().find(|one| one.node == *host);
    if let Some(seen) = seen.filter(|seen| seen.status != "online") {
        return Some(format!("the host {host} of {name} is {}", seen.status));
    }
    match guest {
        None => Some(format!("the VM {vmid} of {name} is gone, or the token cannot see it")),
        Some(guest) if guest.status == "stopped" => {
            Some(format!("the VM {vmid} of {name} is stopped"))
        }
        Some(_) => None,
    }
}

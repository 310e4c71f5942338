//! What Proxmox says about machines that do not answer: a host that is down, or a VM that is off,
//! explains more than a closed port. So does a Proxmox that does not answer either.

use std::fmt;

use talmox_clock::Deadline;
use talmox_plan::plan::OwnVm;
use talmox_pve::api::cluster::{self, Resources};

use crate::patience::GLANCE;
use crate::step::StepContext;

/// Looks at Proxmox now and then while machines are waited for.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    machines: Vec<&'a OwnVm>,
    next: Deadline,
    found: Option<Below>,
}

/// What is wrong below machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Below {
    /// A host that is down, a VM that is off: in words.
    Down(String),
    /// Nobody answers for Proxmox.
    Silent,
    /// A machine cannot be reset now: in words.
    NoReset(String),
}

impl fmt::Display for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down(what) => f.write_str(what),
            Self::Silent => f.write_str("Proxmox does not answer either"),
            Self::NoReset(why) => write!(f, "its VM cannot be reset now: {why}"),
        }
    }
}

impl<'a> Ground<'a> {
    /// Nothing is asked while it is early: most machines answer before.
    pub(super) fn of(machines: Vec<&'a OwnVm>, context: &StepContext) -> Self {
        Self { machines, next: context.run.clock.deadline(GLANCE), found: None }
    }

    /// The reason of a wait, with what Proxmox says about it if that explains it. That nobody answers for Proxmox either
    /// explains only why machines are silent.
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

    /// The reason of a wait, with what is known already.
    pub(super) fn add_to(&self, reason: &str, is_silent: bool) -> String {
        match &self.found {
            Some(found) if is_silent || *found != Below::Silent => format!("{reason} ({found})"),
            _ => reason.to_owned(),
        }
    }

    /// Takes down what keeps a machine from being reset, until the next look.
    pub(super) fn has_no_reset(&mut self, why: String) {
        self.found = Some(Below::NoReset(why));
    }

    /// What was known holds no longer.
    pub(super) fn forget(&mut self) {
        self.found = None;
    }

    /// What is wrong below the machines, asked now.
    pub(super) async fn look(&mut self, context: &StepContext) -> Option<&Below> {
        self.next = context.run.clock.deadline(GLANCE);
        let asked = context.wait(context.send(&cluster::resources())).await;
        self.found = match asked {
            Ok(Ok(all)) => {
                self.machines.iter().find_map(|machine| trouble(machine, &all)).map(Below::Down)
            }
            Ok(Err(error)) if error.is_unanswered() => Some(Below::Silent),
            // Who does not say explains nothing.
            Ok(Err(_)) | Err(_) => None,
        };
        self.found.as_ref()
    }
}

fn trouble(machine: &OwnVm, all: &Resources) -> Option<String> {
    let vmid = machine.vm.vmid;
    let guest = all.guests.iter().find(|guest| guest.vmid == vmid);
    let name = &machine.identity.node;
    let host = guest.map_or(&machine.vm.node, |guest| &guest.node);
    let seen = all.hosts.iter().find(|one| one.node == *host);
    if let Some(seen) = seen.filter(|seen| seen.status != "online") {
        return Some(format!("the host {host} of {name} is {}", seen.status));
    }
    match guest {
        None => Some(format!("the VM {vmid} of {name} is gone, or may not be seen")),
        Some(guest) if guest.status == "stopped" => {
            Some(format!("the VM {vmid} of {name} is stopped"))
        }
        Some(_) => None,
    }
}

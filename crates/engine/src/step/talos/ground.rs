//! What Proxmox says about machines that do not answer: a host that is down, or a VM that is off,
//! explains more than a closed port.

use talmox_clock::Deadline;
use talmox_pve::api::cluster::{self, Resources};

use crate::patience::GLANCE;
use crate::plan::OwnVm;
use crate::step::StepContext;

/// Looks at Proxmox now and then while machines are waited for.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    machines: Vec<&'a OwnVm>,
    next: Deadline,
    found: Option<String>,
}

impl<'a> Ground<'a> {
    /// Nothing is asked while it is early: most machines answer before.
    pub(super) fn of(machines: Vec<&'a OwnVm>, context: &StepContext) -> Self {
        Self { machines, next: context.run.clock.deadline(GLANCE), found: None }
    }

    /// The reason of a wait, with what Proxmox says about it if that explains it.
    pub(super) async fn explain(&mut self, reason: &str, context: &StepContext) -> String {
        if self.next.has_passed() && !self.machines.is_empty() {
            self.look(context).await;
        }
        match &self.found {
            Some(found) => format!("{reason} ({found})"),
            None => reason.to_owned(),
        }
    }

    /// What is wrong below the machines, asked now.
    pub(super) async fn look(&mut self, context: &StepContext) -> Option<&str> {
        self.next = context.run.clock.deadline(GLANCE);
        let asked = context.wait(context.send(&cluster::resources())).await;
        self.found = match asked {
            Ok(Ok(all)) => self.machines.iter().find_map(|machine| trouble(machine, &all)),
            // Who cannot be asked explains nothing.
            Ok(Err(_)) | Err(_) => None,
        };
        self.found.as_deref()
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

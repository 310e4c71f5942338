//! Whether a machine that does not run Talos is up: its SSH port is open, or its guest agent answers.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use talmox_plan::desired::Contact;
use talmox_pve::api::qemu::{Vm, agent_ping};
use talmox_pve::{Client, PveError};
use talmox_talos_api::{Address, Look, Reach};

const SSH: u16 = 22;
/// Timeout of a connection, in real time, also in a lab.
const CONNECT: Duration = Duration::from_secs(5);

/// Checks once whether the operating system is up. If the VM has no guest agent and its address is known, the SSH port must
/// be open. Otherwise the guest agent must answer, because the agent is set up last.
pub(crate) async fn look(
    vm: &Vm,
    contact: Contact,
    has_agent: bool,
    pve: &Client,
    reach: &Reach,
) -> Look<()> {
    match contact {
        Contact::At(address) if !has_agent => ssh_port(address, reach).await,
        _ => agent(vm, pve).await,
    }
}

async fn agent(vm: &Vm, pve: &Client) -> Look<()> {
    match pve.send(&agent_ping(vm)).await {
        Ok(()) => Look::Done(()),
        Err(PveError::Rejected(rejection)) => {
            Look::NotYet(format!("its guest agent does not answer: {}", rejection.message))
        }
        Err(error) => Look::NotYet(error.to_string()),
    }
}

/// Whether the SSH port accepts connections.
pub(crate) async fn ssh_port(address: IpAddr, reach: &Reach) -> Look<()> {
    let address = Address { host: address.to_string(), port: SSH };
    match reach.connect(&address, CONNECT).await.map_err(io::Error::from) {
        Ok(_) => Look::Done(()),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            Look::NotYet(format!("{address} does not answer"))
        }
        Err(error) => Look::NotYet(format!("{address} is closed: {error}")),
    }
}

//! Waits for a machine that does not run Talos: until one can log in to it.

use std::net::IpAddr;
use std::time::Duration;

use talmox_pve::PveError;
use talmox_pve::api::qemu::agent_ping;
use talmox_talos_api::{Address, Look};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::StepWait;
use crate::plan::{AwaitUbuntu, Contact};
use crate::step::{Done, StepContext, StepError};

const SSH: u16 = 22;
/// For a connection. Sockets do not scale.
const CONNECT: Duration = Duration::from_secs(5);

pub(in crate::step) async fn await_ubuntu(
    step: &AwaitUbuntu,
    context: &StepContext,
) -> Result<Done, StepError> {
    let what = format!("VM {} does not come up", step.own.vm.vmid);
    let mut wait = StepWait::new(context, what).about([&step.own]);
    loop {
        let look = match step.contact {
            Contact::At(address) if !step.has_agent => ssh(address, context).await?,
            _ => agent(step, context).await,
        };
        match look {
            Look::Done(()) => return Ok(Done::Already),
            Look::NotYet(reason) => wait.not_yet(reason).await?,
        }
    }
}

async fn agent(step: &AwaitUbuntu, context: &StepContext) -> Look<()> {
    match context.run.pve.send(&agent_ping(&step.own.vm)).await {
        Ok(()) => Look::Done(()),
        Err(PveError::Rejected(rejection)) => {
            Look::NotYet(format!("its guest agent does not answer: {}", rejection.message))
        }
        Err(error) => Look::NotYet(error.to_string()),
    }
}

async fn ssh(address: IpAddr, context: &StepContext) -> Result<Look<()>, StepError> {
    let address = Address { host: address.to_string(), port: SSH };
    let target = context.cluster()?.settings.reach.target(&address);
    let connecting = TcpStream::connect((target.host.as_str(), target.port));
    Ok(match timeout(CONNECT, connecting).await {
        Ok(Ok(_)) => Look::Done(()),
        Ok(Err(error)) => Look::NotYet(format!("{address} is closed: {error}")),
        Err(_) => Look::NotYet(format!("{address} does not answer")),
    })
}

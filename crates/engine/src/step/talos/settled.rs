//! Waits until a node has become what its config says.

use std::net::IpAddr;

use talmox_plan::desired::ExpectedNetwork;

use super::StepWait;
use crate::patience::DHCP;
use crate::settled::{Settled, look};
use crate::step::{StepContext, StepError};

/// What stays wrong ends the step with its deadline; a further card without an address is told, and no
/// reason to stop.
pub(super) async fn await_settled(
    shape: &ExpectedNetwork,
    address: IpAddr,
    wait: &mut StepWait<'_>,
    context: &StepContext,
) -> Result<(), StepError> {
    let client = context.cluster()?.client(address)?;
    let mut patience = None;
    loop {
        let reason = match context.wait(look(shape, &client)).await? {
            Ok(Settled::Yes) => return Ok(()),
            Ok(Settled::ButFor(lacking)) => {
                let until = patience.get_or_insert_with(|| context.run.clock.deadline(DHCP));
                if until.has_passed() {
                    context.note(format!(
                        "{lacking}. With `dhcp: false` or an `ip:` of its own it is not waited for"
                    ));
                    return Ok(());
                }
                lacking.into()
            }
            Ok(Settled::NotYet(reason)) => reason,
            Err(error) => error.reason().into(),
        };
        wait.not_yet(reason).await?;
    }
}

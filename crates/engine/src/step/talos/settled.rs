//! Waits until a node has the network of its config.

use std::net::IpAddr;

use talmox_plan::desired::ExpectedNetwork;

use super::{Awaited, ExplainedWait, unanswered};
use crate::node_network::{NodeNetwork, look};
use crate::step::{StepContext, StepError};
use crate::timeouts::DHCP_ADDRESS;

/// The condition of [`await_settled`], for a wait.
pub(super) fn network_of(node: &str) -> Awaited {
    Awaited {
        failure: format!("{node} does not have the network of its config"),
        what: format!("{node} to have the network of its config"),
    }
}

/// Waits until the node has the network of its config, at most until the deadline of the step. An additional network
/// card without an address is reported, and does not fail the step.
pub(super) async fn await_settled(
    shape: &ExpectedNetwork,
    address: IpAddr,
    wait: &mut ExplainedWait<'_>,
    context: &StepContext,
) -> Result<(), StepError> {
    let client = context.cluster()?.client(address)?;
    let mut dhcp = None;
    loop {
        let reason = match context.wait(look(shape, &client)).await? {
            Ok(NodeNetwork::Configured) => return Ok(()),
            Ok(NodeNetwork::CardWithoutAddress(lacking)) => {
                let until = dhcp.get_or_insert_with(|| context.run.clock.deadline(DHCP_ADDRESS));
                if until.has_passed() {
                    context.note(format!(
                        "{lacking}. To skip this wait, set `dhcp: false` or an `ip:` for the card"
                    ));
                    return Ok(());
                }
                lacking.into()
            }
            Ok(NodeNetwork::NotYet(reason)) => reason,
            Err(error) => unanswered(&error).into(),
        };
        wait.not_yet(reason).await?;
    }
}

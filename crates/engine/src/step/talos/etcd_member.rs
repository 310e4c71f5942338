//! Access to the etcd member of a control plane.

use talmox_plan::plan::TalosNode;
use talmox_talos_api::{Client, EtcdState, Look};

use super::{locate, machine};
use crate::step::{StepContext, StepError};

/// A client of a control plane whose etcd member answers. Without this check, requests to etcd would block until their
/// deadline.
pub(super) async fn etcd_member(
    node: &TalosNode,
    context: &StepContext,
) -> Result<Look<Client>, StepError> {
    let address = match locate(node, context).await {
        Look::Done(address) => address,
        Look::NotYet(reason) => return Ok(Look::NotYet(reason)),
    };
    let client = context.cluster()?.client(address)?;
    let known = context.wait(machine::known_member(&client, node, address)).await??;
    if let Look::NotYet(reason) = known {
        return Ok(Look::NotYet(reason));
    }
    Ok(match context.wait(EtcdState::read(&client)).await? {
        Ok(EtcdState::Member(_)) => Look::Done(client),
        Ok(other) => Look::NotYet(other.obstacle().unwrap_or_default()),
        Err(error) => Look::NotYet(error.reason()),
    })
}

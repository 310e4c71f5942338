//! Whether etcd keeps its quorum without a control plane that is about to stop.

use std::time::Duration;

use talmox_clock::WaitError;
use talmox_plan::plan::TalosNode;
use talmox_talos_api::client::Member;
use talmox_talos_api::quorum::EtcdView;
use talmox_talos_api::{Client, Look, quorum};
use talmox_values::HttpUrl;

use super::locate;
use super::member_state::is_healthy;
use crate::step::{StepCode, StepContext, StepError};

/// Timeout of an answer. A control plane that is down must not delay the others.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// Waits until etcd can keep its quorum without this control plane. All other members of etcd must be healthy, and they must be a
/// majority of the voting members. One of them may still be starting after its own restart.
///
/// The members of etcd are read now: since the plan was made, control planes may have joined, and nodes that leave the cluster later
/// are still members. `control_planes` is empty for a worker, and if the whole cluster is shut down.
pub(super) async fn await_spare(
    node: &TalosNode,
    control_planes: &[TalosNode],
    context: &StepContext,
) -> Result<(), StepError> {
    if control_planes.is_empty() {
        return Ok(());
    }
    let others: Vec<TalosNode> =
        control_planes.iter().filter(|other| other.name != node.name).cloned().collect();
    let what = format!("etcd to keep its quorum without {}", node.name);
    let mut wait = context.cancellable_wait(context.deadline.clone(), what);
    loop {
        let objections = match others.as_slice() {
            [] => objections_of_single(node, context).await?,
            others => {
                let (_, views) = look_at_members(others, &node.name, context).await?;
                quorum::objections_to_loss(&views)
            }
        };
        if objections.is_empty() {
            return Ok(());
        }
        wait.not_yet(objections.join("; ")).await.map_err(|error| match error {
            WaitError::Cancelled => StepError::cancelled(),
            WaitError::TimedOut { reason, .. } => {
                let text = format!("etcd cannot do without {}: {reason}", node.name);
                StepError::failed(StepCode::QuorumAtRisk, text)
                    .hint("bring the other control planes up, then run the same command to resume")
            }
        })?;
    }
}

/// Reasons against stopping the only control plane that is known. A single member has no quorum to keep. The node may have further
/// members that are not known; then they must be healthy.
async fn objections_of_single(
    node: &TalosNode,
    context: &StepContext,
) -> Result<Vec<String>, StepError> {
    let Look::Done(address) = context.wait(locate(node, context)).await? else { return Ok(vec![]) };
    let client = context.cluster()?.client(address)?.within(ANSWER);
    let own = context.wait(quorum::look(&[(node.name.clone(), client)])).await?;
    // A node whose etcd does not answer has no quorum to lose.
    let Some(Ok(members)) = own.first().map(|view| &view.members) else { return Ok(vec![]) };
    if members.iter().filter(|member| !member.is_learner).count() <= 1 {
        return Ok(vec![]);
    }
    let further = further_members(members, &[], &node.name, context)?;
    let views = context.wait(quorum::look(&further)).await?;
    Ok(quorum::objections_to_loss(&views))
}

/// Reads etcd on these control planes, and on all members that are not among them, except the member that leaves. Returns a client
/// for each view.
pub(super) async fn look_at_members(
    nodes: &[TalosNode],
    leaving: &str,
    context: &StepContext,
) -> Result<(Vec<Client>, Vec<EtcdView>), StepError> {
    let mut known = vec![];
    for node in nodes {
        if let Look::Done(address) = context.wait(locate(node, context)).await? {
            let client = context.cluster()?.client(address)?.within(ANSWER);
            known.push((node.name.clone(), client));
        }
    }
    let mut views = context.wait(quorum::look(&known)).await?;
    let members =
        views.iter().find(|view| is_healthy(view)).and_then(|view| view.members.as_ref().ok());
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    let further = match members {
        Some(members) => further_members(members, &names, leaving, context)?,
        None => vec![],
    };
    views.extend(context.wait(quorum::look(&further)).await?);
    let clients = known.into_iter().chain(further).map(|(_, client)| client);
    Ok((clients.collect(), views))
}

/// Clients of the members that are neither known nor leave, by their peer addresses.
fn further_members(
    members: &[Member],
    known: &[&str],
    leaving: &str,
    context: &StepContext,
) -> Result<Vec<(String, Client)>, StepError> {
    let mut further = vec![];
    for member in members {
        let name = &member.hostname;
        let is_known = *name == leaving || known.contains(&name.as_str());
        let address = member.peer_urls.iter().find_map(|url| HttpUrl::parse(url).ok()?.ip());
        if let Some(address) = address.filter(|_| !is_known) {
            let client = context.cluster()?.client(address)?.within(ANSWER);
            further.push((name.clone(), client));
        }
    }
    Ok(further)
}

/// Moves the leadership of etcd away from a control plane that is about to stop. Otherwise etcd does not answer until the
/// other members have elected a new leader.
pub(super) async fn give_up_leadership(
    client: &Client,
    node: &TalosNode,
    control_planes: &[TalosNode],
    context: &StepContext,
) -> Result<(), StepError> {
    // Without another member there is none that could lead.
    if control_planes.len() < 2 {
        return Ok(());
    }
    // An etcd member that does not answer is not the leader.
    let Ok(status) = context.wait(client.etcd_status()).await? else { return Ok(()) };
    if status.leader != status.member_id {
        return Ok(());
    }
    let moved = context.act(async { Ok(client.etcd_forfeit_leadership().await) }).await?;
    if let Err(error) = moved {
        context.note(format!("{} did not give up the leadership of etcd: {error}", node.name));
    }
    Ok(())
}

//! Removes a member from etcd.
//!
//! The other members are read right before the removal, because more than half of them must be healthy. A member whose node
//! answers gives up its leadership and leaves by itself. Any other member is removed by its id.

use std::collections::BTreeSet;

use talmox_plan::plan::RemoveMember;
use talmox_plan::planning::{WAY_OUT, two_clusters};
use talmox_talos_api::client::Member;
use talmox_talos_api::quorum::EtcdView;
use talmox_talos_api::{Client, Code, EtcdState, Look, TalosError};
use talmox_values::HttpUrl;

use super::machine::{self, IdentityMatch};
use super::member_state::{MemberState, is_healthy};
use super::quorum::{ANSWER, look_at_members};
use super::{Awaited, ExplainedWait, locate};
use crate::step::{Done, RunStep, StepCode, StepContext, StepError};
use crate::timeouts::ETCD_WITNESS;

impl RunStep for RemoveMember {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let kept_until = context.run.clock.deadline(ETCD_WITNESS.min(context.deadline.left()));
        let member = &self.member;
        let awaited = Awaited {
            failure: format!("{member} does not leave etcd"),
            what: format!("{member} to leave etcd"),
        };
        let others = self.others.iter().map(|node| &node.own);
        let mut wait = ExplainedWait::new(context, awaited).about(others);
        let mut done = Done::Already;
        loop {
            let (clients, views) = look_at_members(&self.others, &self.member, context).await?;
            let reason = match MemberState::of(&self.member, &views) {
                MemberState::Removed if done == Done::Already => {
                    if let Some(disguised) = disguised_member(self, &views, context).await? {
                        return Err(kept(self, &disguised));
                    }
                    check_alone(self, &views, context).await?;
                    return Ok(done);
                }
                MemberState::Removed => {
                    check_alone(self, &views, context).await?;
                    return Ok(done);
                }
                MemberState::Kept(reason) => {
                    if done == Done::Already && kept_until.has_passed() {
                        return Err(kept(self, &reason));
                    }
                    reason
                }
                MemberState::Removable { id } => {
                    let healthy = clients.iter().zip(&views).find(|(_, view)| is_healthy(view));
                    let Some((through, _)) = healthy else { continue };
                    match remove(self, id, through, context).await? {
                        Ok(()) => {
                            done = Done::Acted;
                            "waiting for the other etcd members to report the removal".to_owned()
                        }
                        Err(error) if error.may_pass() || !kept_until.has_passed() => {
                            error.reason()
                        }
                        Err(error) => {
                            let text = format!("remove the member {} from etcd", self.member);
                            return Err(
                                StepError::failed(StepCode::TalosRejected, text).caused_by(error)
                            );
                        }
                    }
                }
            };
            wait.not_yet(reason).await?;
        }
    }
}

/// Why the member may still be in etcd, although no member has its name: a member without a name may be this one, and so is a member at
/// the address of its node.
async fn disguised_member(
    step: &RemoveMember,
    views: &[EtcdView],
    context: &StepContext,
) -> Result<Option<String>, StepError> {
    let members = views.iter().find(|view| is_healthy(view)).map(|view| &view.members);
    let Some(Ok(members)) = members else { return Ok(None) };
    if members.iter().any(|member| member.hostname.is_empty()) {
        return Ok(Some("a member without a name may be this one".to_owned()));
    }
    let Some(node) = &step.node else { return Ok(None) };
    let Look::Done(address) = context.wait(locate(node, context)).await? else { return Ok(None) };
    let is_here = |member: &&Member| {
        member
            .peer_urls
            .iter()
            .any(|url| HttpUrl::parse(url).is_ok_and(|url| url.ip() == Some(address)))
    };
    let found = members.iter().find(is_here);
    Ok(found.map(|member| {
        format!("the member {} has the address {address} of its node", member.hostname)
    }))
}

fn kept(step: &RemoveMember, reason: &str) -> StepError {
    let text = format!("the member {} is not removed from etcd: {reason}", step.member);
    StepError::failed(StepCode::MemberKept, text)
        .hint("bring the other control planes up, then run the same command to resume")
}

/// Removes the member. The inner error is the error of the request.
async fn remove(
    step: &RemoveMember,
    id: u64,
    through: &Client,
    context: &StepContext,
) -> Result<Result<(), TalosError>, StepError> {
    if let Some(client) = own_member(step, context).await? {
        match context.act_alone(async { Ok(leave(&client).await) }).await? {
            // Another member removes a member that cannot leave by itself.
            Err(error) if error.is_untouched() => {}
            left => return Ok(left),
        }
    }
    let removed = context.act_alone(async { Ok(through.etcd_remove_member(id).await) }).await?;
    Ok(match removed {
        Err(TalosError::No { code: Code::NotFound, .. }) => Ok(()),
        removed => removed,
    })
}

/// Lets the member leave etcd. A leader gives up its leadership first, so that etcd is never without a leader.
async fn leave(client: &Client) -> Result<(), TalosError> {
    let status = client.etcd_status().await?;
    if status.leader == status.member_id {
        client.etcd_forfeit_leadership().await?;
    }
    client.etcd_leave().await
}

/// A client of the node of the member. None if the node does not answer, or if its etcd does not run.
async fn own_member(
    step: &RemoveMember,
    context: &StepContext,
) -> Result<Option<Client>, StepError> {
    let Some(client) = own_client(step, context).await? else { return Ok(None) };
    let state = context.wait(EtcdState::read(&client)).await?;
    Ok(matches!(state, Ok(EtcdState::Member(_))).then_some(client))
}

/// A client of the node of the member. None if the machine at the address of the node is not that node.
async fn own_client(
    step: &RemoveMember,
    context: &StepContext,
) -> Result<Option<Client>, StepError> {
    let Some(node) = &step.node else { return Ok(None) };
    let Look::Done(address) = context.wait(locate(node, context)).await? else { return Ok(None) };
    let client = context.cluster()?.client(address)?.within(ANSWER);
    match context.wait(machine::ask(&client, node)).await? {
        IdentityMatch::Same => Ok(Some(client)),
        IdentityMatch::NotYet(_) | IdentityMatch::Other(_) => Ok(None),
    }
}

/// Returns an error if the node of the member is in another etcd cluster than the others, because its data would be lost with
/// its VM.
async fn check_alone(
    step: &RemoveMember,
    views: &[EtcdView],
    context: &StepContext,
) -> Result<(), StepError> {
    let Some(client) = own_client(step, context).await? else { return Ok(()) };
    let Ok(EtcdState::Member(own)) = context.wait(EtcdState::read(&client)).await? else {
        return Ok(());
    };
    let mut lists: Vec<BTreeSet<&str>> =
        vec![own.iter().map(|member| member.hostname.as_str()).collect()];
    for members in views.iter().filter_map(|view| view.members.as_ref().ok()) {
        lists.push(members.iter().map(|member| member.hostname.as_str()).collect());
    }
    match two_clusters(lists) {
        Some(message) => Err(StepError::failed(StepCode::EtcdDivided, message).hint(WAY_OUT)),
        None => Ok(()),
    }
}

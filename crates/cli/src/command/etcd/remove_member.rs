//! `talmox etcd remove-member`

use clap::Args;
use talmox_plan::plan::Plan;
use talmox_plan::planning;
use talmox_talos_api::client::Member;

use super::ClusterArgs;
use super::cluster_view::{ClusterView, id, open};
use crate::args::Global;
use crate::command::Outcome;
use crate::command::plan_command::{PlanCommand, writes_nothing};
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::session::Session;
use crate::{confirm, runtime};

/// Remove an etcd member whose node is gone
///
/// The other members must keep the quorum. The member of a control plane that is in the inventory and answers is not
/// removed: remove that node from the inventory and run `talmox up`, which removes its member first.
#[derive(Debug, Args)]
pub(super) struct RemoveMemberArgs {
    /// Member: its name or its ID, as `talmox etcd members` shows them
    #[arg(value_name = "MEMBER")]
    member: String,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(args: &RemoveMemberArgs, global: &Global, printer: &Printer) -> Outcome {
    runtime::run(async {
        let session = open(&args.cluster, global, printer).await?;
        let ended = remove_member(args, &session, printer).await;
        session.close().await?;
        ended
    })
}

async fn remove_member(args: &RemoveMemberArgs, session: &Session, printer: &Printer) -> Outcome {
    let view = ClusterView::read(session, printer).await?;
    let member = find(&args.member, &view.members)?;
    let is_asked = !args.yes && !session.is_own_lab();
    let ask = |_: &Plan| {
        if is_asked { confirm::require_yes("Execute this plan?") } else { Ok(()) }
    };
    let plan_of = async || plan_of(member, session).await;
    let nothing = "etcd has no such member";
    let command = PlanCommand { name: "etcd remove-member", nothing, write: writes_nothing() };
    command.run(session, plan_of, ask, printer).await
}

async fn plan_of(member: &str, session: &Session) -> Result<Plan, CommandError> {
    let observed = session.observe().await?;
    Ok(planning::remove_member(&session.desired, &observed, member))
}

/// Name of the member with this name or ID. The name must be unique, because the step that removes a member finds the
/// member by name.
fn find<'a>(wanted: &str, members: &'a [Member]) -> Result<&'a str, CommandError> {
    let wanted_id = u64::from_str_radix(wanted.trim_start_matches("0x"), 16).ok();
    let by_name = members.iter().find(|member| member.hostname == wanted);
    let by_id = || members.iter().find(|member| Some(member.id) == wanted_id);
    let unknown = |message: String| CommandError::usage_as(CommandCode::EtcdMemberUnknown, message);
    let Some(member) = by_name.or_else(by_id) else {
        let known: Vec<String> =
            members.iter().map(|one| format!("{} ({})", one.hostname, id(one.id))).collect();
        return Err(unknown(format!("etcd has no member `{wanted}`"))
            .hint(format!("members: {}", known.join(", "))));
    };
    let name = member.hostname.as_str();
    if name.is_empty() {
        let message =
            format!("the member {} has no name, because it has not started", id(member.id));
        return Err(unknown(message).hint("start its node, so that the member gets its name"));
    }
    let alike: Vec<String> =
        members.iter().filter(|one| one.hostname == name).map(|one| id(one.id)).collect();
    if alike.len() > 1 {
        let message = format!("several members have the name `{name}`: {}", alike.join(", "));
        return Err(unknown(message).hint(format!(
            "run `talmox node replace {name}`: it removes all members of the node and creates it again"
        )));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_by_its_name_or_id_if_the_name_is_unique() {
        let member =
            |id, hostname: &str| Member { id, hostname: hostname.to_owned(), ..Member::default() };
        let members = [member(0xab, "cp-1"), member(2, "cp-2"), member(3, "cp-2"), member(4, "")];
        assert_eq!(find("cp-1", &members).unwrap(), "cp-1");
        for id in ["ab", "0xab", "00000000000000ab"] {
            assert_eq!(find(id, &members).unwrap(), "cp-1");
        }
        for (wanted, reason) in [
            ("cp-9", "no member `cp-9`"),
            ("cp-2", "several members have the name `cp-2`"),
            ("3", "several members have the name `cp-2`"),
            ("4", "has no name"),
        ] {
            let error = find(wanted, &members).unwrap_err().chain();
            assert!(error.contains(reason), "{error}");
        }
    }
}

//! `talmox etcd members`

use clap::Args;
use serde_json::{Value as Json, json};
use talmox_talos_api::client::{Member, MemberStatus};

use super::ClusterArgs;
use super::cluster_view::{ClusterView, id, open};
use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::{runtime, words};

/// Show the etcd members with their database sizes and errors
///
/// Reads all control planes of the inventory. A member without a control plane of the inventory is shown too: it is
/// usually left over from a deleted node.
#[derive(Debug, Args)]
pub(super) struct MembersArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(args: &MembersArgs, global: &Global, printer: &Printer) -> Outcome {
    runtime::run(async {
        let session = open(&args.cluster, global, printer).await?;
        let read = ClusterView::read(&session, printer).await;
        let printed = match &read {
            Ok(view) => print(view, &session.desired.cluster, printer),
            Err(_) => Ok(()),
        };
        session.close().await?;
        read?;
        printed?;
        Ok(Exit::Fine)
    })
}

fn print(view: &ClusterView, cluster: &str, printer: &Printer) -> Result<(), CommandError> {
    if printer.format == Format::Json {
        let members: Vec<Json> = view.members.iter().map(|one| to_json(view, one)).collect();
        let unreachable: Vec<Json> = unreachable(view)
            .map(|(node, reason)| json!({"node": node, "reason": reason}))
            .collect();
        let result = json!({"cluster": cluster, "members": members, "unreachable": unreachable});
        return printer.result(&format!("{result:#}\n"));
    }
    let headings =
        ["ID", "NAME", "PEERS", "ROLE", "DB SIZE", "IN USE", "ERRORS"].map(str::to_owned);
    let rows = view.members.iter().map(|member| row(view, member));
    let rows: Vec<[String; 7]> = std::iter::once(headings).chain(rows).collect();
    printer.result(&words::aligned(&rows))?;
    for (node, reason) in unreachable(view) {
        printer.warn(&format!("{node}: {reason}"));
    }
    Ok(())
}

/// Control planes that do not report the state of their member, with the reason.
fn unreachable(view: &ClusterView) -> impl Iterator<Item = (&str, &str)> {
    view.views.iter().filter_map(|view| {
        let reason = view.status.as_ref().err()?;
        Some((view.name.as_str(), reason.reason()))
    })
}

fn row(view: &ClusterView, member: &Member) -> [String; 7] {
    let status = status_of(view, member);
    let size = |bytes: Option<i64>| bytes.map_or("-".to_owned(), mebibytes);
    let errors = errors_of(view, member);
    let named = |name: &str| if name.is_empty() { "-".to_owned() } else { plain(name) };
    [
        id(member.id),
        named(&member.hostname),
        named(&member.peer_urls.join(", ")),
        role(view, member).to_owned(),
        size(status.map(|status| status.db_size)),
        size(status.map(|status| status.db_size_in_use)),
        named(&errors.join("; ")),
    ]
}

fn to_json(view: &ClusterView, member: &Member) -> Json {
    let status = status_of(view, member);
    json!({
        "id": id(member.id),
        "name": member.hostname,
        "peer_urls": member.peer_urls,
        "client_urls": member.client_urls,
        "learner": member.is_learner,
        "leader": is_leader(view, member),
        "db_size": status.map(|status| status.db_size),
        "db_size_in_use": status.map(|status| status.db_size_in_use),
        "errors": errors_of(view, member),
    })
}

fn status_of<'a>(view: &'a ClusterView, member: &Member) -> Option<&'a MemberStatus> {
    view.view_of(member.id)?.status.as_ref().ok()
}

fn is_leader(view: &ClusterView, member: &Member) -> bool {
    let mut statuses = view.views.iter().filter_map(|view| view.status.as_ref().ok());
    statuses.any(|status| status.leader == member.id)
}

fn role(view: &ClusterView, member: &Member) -> &'static str {
    if member.is_learner {
        "learner"
    } else if is_leader(view, member) {
        "leader"
    } else {
        "follower"
    }
}

/// Problems of a member: the errors that it reports, and its alarms. If its state is not known, the reason: its control plane
/// does not answer, or it belongs to no control plane of the inventory.
fn errors_of(view: &ClusterView, member: &Member) -> Vec<String> {
    let mut errors = match status_of(view, member) {
        Some(status) => status.errors.clone(),
        None if view.views.iter().any(|one| one.name == member.hostname) => {
            vec!["its control plane does not answer".to_owned()]
        }
        None => vec!["it belongs to no control plane of the inventory".to_owned()],
    };
    let alarms = view.alarms().into_iter().filter(|(owner, _)| *owner == member.id);
    errors.extend(alarms.map(|(_, alarm)| alarm.to_string()));
    errors
}

/// Size in MiB with one decimal.
fn mebibytes(bytes: i64) -> String {
    let tenths = bytes.saturating_mul(10) / (1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

/// Text without control characters, which could move the cursor of the terminal.
fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use talmox_talos_api::quorum::EtcdView;

    use super::*;

    #[test]
    fn sizes_have_one_decimal() {
        assert_eq!(mebibytes(0), "0.0 MiB");
        assert_eq!(mebibytes((3 << 20) / 2), "1.5 MiB");
    }

    #[test]
    fn members_without_a_control_plane_are_marked() {
        let member = |id, hostname: &str| Member {
            id,
            hostname: hostname.to_owned(),
            peer_urls: vec![format!("https://10.0.0.{id}:2380")],
            ..Member::default()
        };
        let members = vec![member(1, "cp-1"), member(2, "cp-9")];
        let status = MemberStatus {
            leader: 1,
            member_id: 1,
            db_size: 1 << 20,
            db_size_in_use: 1 << 19,
            ..MemberStatus::default()
        };
        let views = vec![EtcdView {
            name: "cp-1".to_owned(),
            service: Ok(None),
            members: Ok(members.clone()),
            status: Ok(status),
            alarms: Ok(vec![]),
        }];
        let view = ClusterView { members, views };
        let first = row(&view, &view.members[0]);
        assert_eq!(first[0], "0000000000000001");
        assert_eq!(first[3..], ["leader", "1.0 MiB", "0.5 MiB", "-"]);
        let second = row(&view, &view.members[1]);
        let stale = "it belongs to no control plane of the inventory";
        assert_eq!(second[3..], ["follower", "-", "-", stale]);
    }
}

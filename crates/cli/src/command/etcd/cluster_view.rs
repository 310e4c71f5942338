//! State of etcd, as all control planes of a cluster report it.

use talmox_plan::desired::Contact;
use talmox_plan::observed::{Observed, TalosSeen};
use talmox_talos_api::client::{Alarm, Member};
use talmox_talos_api::quorum::{self, EtcdView};
use talmox_talos_api::{Client, SetupError, node_address};

use super::ClusterArgs;
use crate::args::Global;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::session::{NoSecrets, Session};

/// State of etcd.
pub(super) struct ClusterView {
    /// All members, as one of the control planes reports them.
    pub(super) members: Vec<Member>,
    /// State of each control plane.
    pub(super) views: Vec<EtcdView>,
}

impl ClusterView {
    /// Reads the state of etcd from all control planes at the same time.
    pub(super) async fn read(session: &Session, printer: &Printer) -> Result<Self, CommandError> {
        let views = quorum::look(&clients(session, printer).await?).await;
        let members = views.iter().find_map(|view| view.members.as_ref().ok()).cloned();
        if let Some(members) = members {
            return Ok(Self { members, views });
        }
        let reasons: Vec<String> = views
            .iter()
            .filter_map(|view| Some(format!("{}: {}", view.name, view.members.as_ref().err()?)))
            .collect();
        let message = format!("no etcd member answers: {}", reasons.join("; "));
        Err(CommandError::failed(CommandCode::EtcdUnreachable, message)
            .hint("run `talmox status` to see the control planes"))
    }

    /// State of the control plane that has this member.
    pub(super) fn view_of(&self, member: u64) -> Option<&EtcdView> {
        let is_own =
            |view: &&EtcdView| view.status.as_ref().is_ok_and(|status| status.member_id == member);
        self.views.iter().find(is_own)
    }

    /// Active alarms, each with the ID of its member. Duplicates are removed, because every member reports the alarms of
    /// all members.
    pub(super) fn alarms(&self) -> Vec<(u64, Alarm)> {
        let mut all: Vec<(u64, Alarm)> = vec![];
        for alarm in self.views.iter().filter_map(|view| view.alarms.as_ref().ok()).flatten() {
            if !all.contains(alarm) {
                all.push(*alarm);
            }
        }
        all
    }

    /// Name of a member, or its ID if the member has no name.
    pub(super) fn name_of(&self, member: u64) -> String {
        let found = self.members.iter().find(|one| one.id == member && !one.hostname.is_empty());
        found.map_or_else(|| id(member), |one| one.hostname.clone())
    }
}

/// ID of a member in the format of `talosctl etcd members`.
pub(super) fn id(member: u64) -> String {
    format!("{member:016x}")
}

/// Opens a session for the cluster that the arguments select.
pub(super) async fn open(
    args: &ClusterArgs,
    global: &Global,
    printer: &Printer,
) -> Result<Session, CommandError> {
    let cluster = args.cluster.as_deref();
    Session::open_with(global, cluster, &args.rehearsal, printer, NoSecrets::Refuse).await
}

/// A client for each control plane whose address is known.
async fn clients(
    session: &Session,
    printer: &Printer,
) -> Result<Vec<(String, Client)>, CommandError> {
    let desired = &session.desired;
    if desired.control_planes().next().is_none() {
        let message = format!("`{}` has no control plane that runs Talos", desired.cluster);
        return Err(CommandError::failed(CommandCode::NodeNotTalos, message)
            .hint("only clusters with Talos control planes have an etcd that talmox manages"));
    }
    // Proxmox is queried only if the inventory lacks an address, so that the command also works while Proxmox is down.
    let needs_agent = desired.control_planes().any(|node| node.contact == Contact::AskAgent);
    let observed = if needs_agent { Some(session.observe_for_report().await?) } else { None };
    let mut clients = vec![];
    for node in desired.control_planes() {
        let address = match node.contact {
            Contact::At(address) => Some(address),
            Contact::AskAgent => {
                observed.as_ref().and_then(|observed| answering_at(observed, &node.name))
            }
        };
        let Some(address) = address else {
            printer
                .warn(&format!("{}: its address is not known, or it does not answer", node.name));
            continue;
        };
        let access = &session.access;
        let failed = |error: SetupError| {
            CommandError::failed(CommandCode::SystemFailed, "cannot use TLS").because(error)
        };
        let address = node_address(address.to_string());
        let client = Client::new(address, &access.credentials, &access.settings).map_err(failed)?;
        clients.push((node.name.clone(), client));
    }
    Ok(clients)
}

/// The address at which a node of the cluster answered.
fn answering_at(observed: &Observed, name: &str) -> Option<std::net::IpAddr> {
    match observed.nodes.get(name) {
        Some(TalosSeen::OwnNode(found)) => found.address,
        _ => None,
    }
}

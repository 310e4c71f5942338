//! `talmox status`

#[cfg(test)]
mod fixture;
mod reason;
mod table;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};
use talmox_engine::status::{
    NodeRole, NodeStatus, ObservedCluster, Part, Status, StatusSources, Subject, VmState, gather,
};
use talmox_plan::observed::{KubernetesSeen, Observed};
use talmox_plan::plan::OwnVm;
use talmox_plan::planning::{self, absent, foreign_vms, locations};
use talmox_pve::api::qemu::Vm;

use crate::args::{Format, Global};
use crate::command::{Outcome, for_each_cluster};
use crate::error::Exit;
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::{NoSecrets, Session};
use crate::{choose, runtime};

const AFTER_HELP: &str = "\
Examples:
  talmox status
  talmox status --timeout 5s --format json";

/// Show the state of a cluster and its drift from the inventory
///
/// Prints a line for each node: VM, Talos, Kubernetes, etcd, certificate, drift. All APIs are queried at the same time.
/// A value that could not be read is shown as `?`, with the reason below the table. If Proxmox or all nodes do not
/// answer, or a VM is missing, the exit code is 1. Nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StatusArgs {
    /// Clusters [default: all clusters of the inventory]
    #[arg(value_name = "CLUSTER")]
    clusters: Vec<String>,

    /// Timeout for each cluster, such as 5s or 1m; 4s if Proxmox answers nothing
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: Duration,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

/// Parses a timeout from one second to ten minutes. A number without a unit is in seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match seconds.filter(|seconds| (1..=600).contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => Err("expected a duration from 1s to 10m, such as 5s".to_owned()),
    }
}

pub(crate) fn run(args: &StatusArgs, global: &Global, printer: &Printer) -> Outcome {
    let clusters = choose::each(global, &args.clusters)?;
    for_each_cluster(&clusters, printer, |cluster| {
        runtime::run(async {
            let session =
                Session::open_with(global, cluster, &args.rehearsal, printer, NoSecrets::Refuse)
                    .await?;
            let shown = show(args, &session, printer).await;
            session.close().await?;
            shown
        })
    })
}

async fn show(args: &StatusArgs, session: &Session, printer: &Printer) -> Outcome {
    let observed = async {
        let observed = session.observe_for_report().await.map_err(|error| error.chain())?;
        let subjects = subjects(session, Some(&observed));
        let plan = planning::plan(&session.desired, &observed, session.options(&observed));
        let of_all = plan.errors().filter(|error| error.subject == session.desired.cluster);
        let errors = of_all.map(|error| error.message.clone()).collect();
        let health = match observed.kubernetes {
            KubernetesSeen::Answers(registered) => registered.checks,
            KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => vec![],
        };
        let absent = absent(&session.desired, &observed.pve);
        Ok(ObservedCluster { subjects, absent, changes: plan.changes, health, errors })
    };
    let cluster = session.cluster_access(Arc::new(|_| Ok(())));
    let sources = StatusSources { pve: session.pve.clone(), cluster, limit: args.timeout };
    let known = subjects(session, None);
    let (status, problem) = gather(&session.desired.cluster, &known, &sources, observed).await;
    match printer.format {
        Format::Json => {
            let mut result = json!(status);
            result["drift_unknown"] = json!(problem);
            if !table::has_talos(&status) {
                result["kubernetes"] = Json::Null;
            }
            printer.result(&format!("{result:#}\n"))?;
        }
        Format::Text => {
            let now = i64::try_from(session.clock.unix()).unwrap_or(i64::MAX);
            let columns = printer.result_columns();
            printer.result(&table::text(&status, now, problem.as_deref(), columns))?;
        }
    }
    let is_fine = !is_silent(&status, problem.is_none()) && !lacks_vm(&status);
    Ok(if is_fine { Exit::Fine } else { Exit::Failed })
}

/// Whether a node of the inventory has no VM.
fn lacks_vm(status: &Status) -> bool {
    status.nodes.iter().any(|node| matches!(node.vm, VmState::Absent(_)))
}

/// Whether Proxmox does not answer, or no node answers through the Talos API. Nodes that have no VM according to Proxmox
/// are not counted.
fn is_silent(status: &Status, is_proxmox_observed: bool) -> bool {
    let is_there = |node: &&NodeStatus| node.vmid.is_some() || !is_proxmox_observed;
    let asked = status.nodes.iter().filter(is_there).filter_map(|node| node.talos.as_ref());
    let answers: Vec<bool> = asked.map(|talos| talos.get().is_some()).collect();
    let is_proxmox = status.unreachable.iter().any(|silent| silent.part == Part::Proxmox);
    is_proxmox || (!answers.is_empty() && !answers.contains(&true))
}

/// Nodes of the inventory, with their VMs if Proxmox was observed.
fn subjects(session: &Session, observed: Option<&Observed>) -> Vec<Subject> {
    let desired = &session.desired;
    let places: Vec<Option<Vm>> = match observed {
        Some(observed) => locations(desired, &observed.pve).into_iter().map(|(_, vm)| vm).collect(),
        None => vec![None; desired.nodes.len()],
    };
    let foreign_vms =
        observed.map(|observed| foreign_vms(desired, &observed.pve)).unwrap_or_default();
    let subject = |(node, vm): (&talmox_plan::desired::DesiredNode, Option<Vm>)| Subject {
        name: node.name.clone(),
        role: if node.is_control_plane { NodeRole::ControlPlane } else { NodeRole::Worker },
        is_talos: node.is_talos,
        foreign_vm: foreign_vms.get(&node.name).cloned(),
        own: vm.map(|vm| OwnVm { vm, identity: desired.identity_of(&node.name) }),
        contact: node.contact,
    };
    desired.nodes.iter().zip(places).map(subject).collect()
}

#[cfg(test)]
mod tests {
    use talmox_engine::status::{Known, TalosStatus, Unreachable};

    use super::*;

    #[test]
    fn it_is_a_failure_if_proxmox_or_all_nodes_do_not_answer() {
        let unknown = || "no answer in time".to_owned();
        let answer = || {
            let (version, stage) = (None, "maintenance".to_owned());
            Known::Is(TalosStatus { version, stage, troubles: vec![], certificate_end: None })
        };
        let node = |vmid: Option<u32>, talos: Option<Known<TalosStatus>>| NodeStatus {
            name: "node".to_owned(),
            role: NodeRole::Worker,
            vmid,
            address: Known::Unknown(unknown()),
            vm: VmState::Unknown(unknown()),
            talos,
            kubernetes: None,
            etcd: None,
            drift: vec![],
        };
        let silent = || Some(Known::Unknown(unknown()));
        let status = |nodes: Vec<NodeStatus>| Status {
            cluster: "dev".to_owned(),
            kubernetes: Known::Unknown(unknown()),
            nodes,
            unreachable: vec![],
            authorities: vec![],
            drift: vec![],
            unknown_nodes: vec![],
            health: vec![],
            errors: vec![],
        };
        let all = status(vec![node(Some(1), silent()), node(Some(2), silent())]);
        assert!(is_silent(&all, true));
        let some = status(vec![node(Some(1), silent()), node(Some(2), Some(answer()))]);
        assert!(!is_silent(&some, true));
        let new = status(vec![node(None, silent()), node(None, silent())]);
        assert!(!is_silent(&new, true), "no VMs exist yet");
        assert!(is_silent(&new, false), "Proxmox was not observed");
        let ubuntu = status(vec![node(Some(1), None)]);
        assert!(!is_silent(&ubuntu, true), "Ubuntu has no Talos API");
        let reason = unknown();
        let unreachable = vec![Unreachable { part: Part::Proxmox, nodes: vec![], reason }];
        assert!(is_silent(&Status { unreachable, ..ubuntu }, true));

        assert!(!lacks_vm(&all), "unknown");
        let gone = NodeStatus { vm: VmState::Absent(unknown()), ..node(None, Some(answer())) };
        assert!(lacks_vm(&status(vec![node(Some(1), Some(answer())), gone])));
    }

    #[test]
    fn durations_have_optional_units() {
        for (text, seconds) in [("5", 5), ("5s", 5), ("2m", 120), ("10m", 600)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0", "0s", "11m", "601", "-1", "1h", "m", "99999999999999999999m"] {
            assert!(duration(text).unwrap_err().contains("such as 5s"), "{text}");
        }
    }
}

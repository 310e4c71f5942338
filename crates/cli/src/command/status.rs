//! `talmox status`

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
use crate::command::{Outcome, look_at_each};
use crate::error::Exit;
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::{NoSecrets, Session};
use crate::{choose, runtime};

const AFTER_HELP: &str = "\
Examples:
  talmox status
  talmox status --timeout 5s --format json";

/// Show how a cluster is, and what differs from the inventory
///
/// A line for each node: VM, Talos, Kubernetes, etcd, certificate, drift. Everybody is asked at the same time. What does not answer is shown as `?`, with the
/// reason below the table; where Proxmox or all nodes are silent, or a VM is missing, the exit code is 1. Nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StatusArgs {
    /// The clusters [default: all of the inventory]
    #[arg(value_name = "CLUSTER")]
    clusters: Vec<String>,

    /// How long it may take for each cluster, such as 5s or 1m
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: Duration,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

/// Between a second and ten minutes; a number alone is in seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match seconds.filter(|seconds| (1..=600).contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => Err("a duration from 1s to 10m is needed, such as 5s".to_owned()),
    }
}

pub(crate) fn run(args: &StatusArgs, global: &Global, printer: &Printer) -> Outcome {
    let clusters = choose::each(global, &args.clusters)?;
    look_at_each(&clusters, printer, |cluster| {
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
    let world = async {
        let world = session.observe_for_report().await.map_err(|error| error.chain())?;
        let subjects = subjects(session, Some(&world));
        let plan = planning::plan(&session.desired, &world, session.options(&world));
        let of_all = plan.errors().filter(|error| error.subject == session.desired.cluster);
        let errors = of_all.map(|error| error.message.clone()).collect();
        let health = match world.kubernetes {
            KubernetesSeen::Answers(registered) => registered.checks,
            KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => vec![],
        };
        let absent = absent(&session.desired, &world.pve);
        Ok(ObservedCluster { subjects, absent, changes: plan.changes, health, errors })
    };
    let cluster = session.cluster_access(Arc::new(|_| Ok(())));
    let sources = StatusSources { pve: session.pve.clone(), cluster, limit: args.timeout };
    let known = subjects(session, None);
    let (status, trouble) = gather(&session.desired.cluster, &known, &sources, world).await;
    match printer.format {
        Format::Json => {
            let mut told = json!(status);
            told["drift_unknown"] = json!(trouble);
            if !table::has_talos(&status) {
                told["kubernetes"] = Json::Null;
            }
            printer.result(&format!("{told:#}\n"))?;
        }
        Format::Text => {
            let now = i64::try_from(session.clock.unix()).unwrap_or(i64::MAX);
            let columns = printer.result_columns();
            printer.result(&table::text(&status, now, trouble.as_deref(), columns))?;
        }
    }
    let is_fine = !is_silent(&status, trouble.is_none()) && !lacks_vm(&status);
    Ok(if is_fine { Exit::Fine } else { Exit::Failed })
}

/// Whether a node has no VM: the cluster is not what the inventory describes, also if everything else answers.
fn lacks_vm(status: &Status) -> bool {
    status.nodes.iter().any(|node| matches!(node.vm, VmState::Absent(_)))
}

/// Whether a whole part does not answer: Proxmox, or Talos on every node. Nobody expects an answer of nodes that
/// are known to have no VM yet.
fn is_silent(status: &Status, is_world_known: bool) -> bool {
    let is_there = |node: &&NodeStatus| node.vmid.is_some() || !is_world_known;
    let asked = status.nodes.iter().filter(is_there).filter_map(|node| node.talos.as_ref());
    let answers: Vec<bool> = asked.map(|talos| talos.get().is_some()).collect();
    let is_proxmox = status.unreachable.iter().any(|silent| silent.part == Part::Proxmox);
    is_proxmox || (!answers.is_empty() && !answers.contains(&true))
}

/// The nodes of the inventory, each with its VM as far as that is known.
fn subjects(session: &Session, world: Option<&Observed>) -> Vec<Subject> {
    let desired = &session.desired;
    let places: Vec<Option<Vm>> = match world {
        Some(world) => locations(desired, &world.pve).into_iter().map(|(_, vm)| vm).collect(),
        None => vec![None; desired.nodes.len()],
    };
    let foreign_vms = world.map(|world| foreign_vms(desired, &world.pve)).unwrap_or_default();
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
    fn silence_of_a_whole_part_is_a_failure() {
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
        assert!(!is_silent(&new, true), "there are no VMs yet");
        assert!(is_silent(&new, false), "or nobody knows of any");
        let ubuntu = status(vec![node(Some(1), None)]);
        assert!(!is_silent(&ubuntu, true), "nobody asks it");
        let reason = unknown();
        let unreachable = vec![Unreachable { part: Part::Proxmox, nodes: vec![], reason }];
        assert!(is_silent(&Status { unreachable, ..ubuntu }, true));

        assert!(!lacks_vm(&all), "it is not known");
        let gone = NodeStatus { vm: VmState::Absent(unknown()), ..node(None, Some(answer())) };
        assert!(lacks_vm(&status(vec![node(Some(1), Some(answer())), gone])));
    }

    #[test]
    fn durations_are_as_people_write_them() {
        for (text, seconds) in [("5", 5), ("5s", 5), ("2m", 120), ("10m", 600)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0", "0s", "11m", "601", "-1", "1h", "m", "99999999999999999999m"] {
            assert!(duration(text).unwrap_err().contains("such as 5s"), "{text}");
        }
    }
}

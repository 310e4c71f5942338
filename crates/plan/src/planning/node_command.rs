//! Plans of `talmox node reboot`, `shutdown`, `start`, `drain` and `uncordon`.
//!
//! Workers come first, in a sliding window. The control planes follow one by one, with the etcd leader last. A step is
//! skipped if a step that it depends on failed, so a node that does not come back stops the rest. `start` is the exception:
//! etcd needs a majority of the control planes, so all control planes are started together, and the workers after them.

mod chain;
mod check;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use super::placed::{ObservedVm, Placed, Placements, VmPresence};
use super::placement::{being_made, places};
use super::preflight;
use crate::desired::{Desired, DesiredNode};
use crate::observed::{Configured, KubernetesSeen, Observed, Registered, TalosSeen};
use crate::ownership::Stage;
use crate::plan::{
    Action, Change, Class, FieldChange, Finding, FindingCode, Object, Plan, StepGraph, StepId,
};

/// Command for selected nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCommand {
    Reboot,
    Shutdown,
    Start,
    Drain,
    Uncordon,
}

/// Plan of a node command, under construction.
struct CommandPlan<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    places: &'a Placements<'a>,
    /// The names of the chosen nodes.
    chosen: &'a BTreeSet<String>,
    changes: Vec<Change>,
    findings: Vec<Finding>,
    steps: StepGraph,
}

/// The plan of a command for the chosen nodes. At most `max_unavailable` workers are down at the same time.
pub fn node_command(
    desired: &Desired,
    observed: &Observed,
    command: NodeCommand,
    chosen: &BTreeSet<String>,
    max_unavailable: NonZeroUsize,
) -> Plan {
    let places = places(desired, &observed.pve);
    let mut plan = CommandPlan {
        desired,
        observed,
        places: &places,
        chosen,
        changes: vec![],
        findings: vec![],
        steps: StepGraph::default(),
    };
    plan.check(command);
    let nodes: Vec<&DesiredNode> =
        desired.nodes.iter().filter(|node| chosen.contains(&node.name)).collect();
    match command {
        NodeCommand::Start => plan.start_all(&nodes),
        NodeCommand::Uncordon => {
            for node in nodes {
                plan.uncordon(node);
            }
        }
        NodeCommand::Shutdown if plan.is_whole() => {
            // No other node could run the pods, so no node is drained. A drained node would also stay cordoned if Proxmox
            // starts its VM.
            plan.roll(&nodes, usize::MAX, |plan, node, after| plan.shutdown(node, false, after));
        }
        NodeCommand::Shutdown => {
            let window = max_unavailable.get();
            plan.roll(&nodes, window, |plan, node, after| plan.shutdown(node, true, after));
        }
        NodeCommand::Reboot => plan.roll(&nodes, max_unavailable.get(), CommandPlan::reboot),
        NodeCommand::Drain => plan.roll(&nodes, max_unavailable.get(), CommandPlan::drain),
    }
    plan.finish()
}

impl<'a> CommandPlan<'a> {
    /// Plans a chain of steps for each node, in order. `chain` gets the steps that the chain depends on, and returns its last
    /// step. It returns None if the node needs no step.
    fn roll(
        &mut self,
        nodes: &[&DesiredNode],
        window: usize,
        chain: impl Fn(&mut Self, &DesiredNode, &[StepId]) -> Option<StepId>,
    ) {
        let (mut control_planes, workers): (Vec<&DesiredNode>, Vec<&DesiredNode>) =
            nodes.iter().copied().partition(|node| node.is_control_plane);
        let mut ends: Vec<StepId> = vec![];
        for node in workers {
            let before = ends.len().checked_sub(window).map(|at| ends[at].clone());
            ends.extend(chain(self, node, before.as_slice()));
        }
        control_planes.sort_by_key(|node| self.is_leader(node));
        for node in control_planes {
            if let Some(end) = chain(self, node, &ends) {
                ends = vec![end];
            }
        }
    }

    /// Starts all control planes at the same time, and the workers after them.
    fn start_all(&mut self, nodes: &[&DesiredNode]) {
        let (control_planes, workers): (Vec<&DesiredNode>, Vec<&DesiredNode>) =
            nodes.iter().copied().partition(|node| node.is_control_plane);
        for node in control_planes {
            self.start(node, &[]);
        }
        let is_start = |action: &Action| matches!(action, Action::StartVm(_));
        let started: Vec<StepId> = self
            .steps
            .iter()
            .filter(|step| is_start(&step.action))
            .map(|step| step.id.clone())
            .collect();
        for node in workers {
            self.start(node, &started);
        }
    }

    fn finish(mut self) -> Plan {
        self.changes.sort_by(|a, b| a.object.cmp(&b.object));
        let steps = self.steps.in_order();
        if !steps.is_empty() {
            let (pve, login) = (&self.observed.pve, &self.desired.login);
            self.findings.extend(preflight::lock_finding(pve, login, false));
        }
        Finding::sort(&mut self.findings);
        Plan {
            cluster: self.desired.cluster.clone(),
            changes: self.changes,
            findings: self.findings,
            steps,
        }
    }

    /// Whether all nodes of the cluster are chosen.
    fn is_whole(&self) -> bool {
        self.desired.nodes.iter().all(|node| self.chosen.contains(&node.name))
    }

    /// The answer of the node at its address. None if the node does not answer as a node of this cluster.
    fn answer(&self, node: &DesiredNode) -> Option<&'a Configured> {
        match self.observed.nodes.get(&node.name) {
            Some(TalosSeen::OwnNode(found)) => Some(found),
            _ => None,
        }
    }

    fn is_leader(&self, node: &DesiredNode) -> bool {
        self.answer(node).is_some_and(|found| found.is_leader)
    }

    /// The nodes in Kubernetes, or the reason why they are not known.
    fn kubernetes(&self) -> Result<&'a Registered, String> {
        match &self.observed.kubernetes {
            KubernetesSeen::Answers(registered) => Ok(registered),
            KubernetesSeen::Silent(reason) => Err(reason.clone()),
            KubernetesSeen::NotAsked => Err("no control plane answers".to_owned()),
        }
    }

    fn placed(&self, node: &DesiredNode) -> Option<&'a Placed<'a>> {
        self.places.nodes.iter().find(|placed| placed.node.name == node.name)
    }

    /// The VM of a node, if it exists and is finished. Otherwise a finding is added with the reason.
    fn vm(&mut self, node: &DesiredNode) -> Option<(&'a Placed<'a>, &'a ObservedVm<'a>)> {
        // A node without a placement already has a finding.
        let placed = self.placed(node)?;
        match &placed.state {
            VmPresence::Owned(found) if found.marker.stage == Stage::Made => {
                return Some((placed, found));
            }
            VmPresence::Owned(_) => self.missing(node, "an earlier run did not finish its VM"),
            VmPresence::Absent => self.missing(node, "its VM does not exist"),
            VmPresence::BeingMade(upid) => self.findings.push(being_made(&node.name, upid)),
            VmPresence::Blocked => {}
        }
        None
    }

    fn missing(&mut self, node: &DesiredNode, message: &str) {
        let finding = Finding::error(FindingCode::VmMissing, &node.name, message)
            .hint("run `talmox up`: it creates and finishes VMs");
        self.findings.push(finding);
    }

    /// Adds a change of one field.
    fn change(&mut self, object: Object, class: Class, (path, old, new): (&str, &str, &str)) {
        let fields = vec![FieldChange::new(path, Some(old.to_owned()), Some(new.to_owned()))];
        self.changes.push(Change::planned(object, class, fields));
    }
}

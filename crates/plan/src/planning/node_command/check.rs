//! Findings that prevent a node command.

use std::collections::BTreeSet;

use super::{CommandPlan, NodeCommand};
use crate::desired::DesiredNode;
use crate::observed::{EtcdSeen, TalosSeen};
use crate::plan::{Finding, FindingCode, Severity};
use crate::planning::placed::VmPresence;
use crate::planning::shared_secrets;

/// Minimum number of control planes with which etcd keeps its quorum while one of them is down.
const REDUNDANT: usize = 3;
const TWO: &str = "etcd has two members and loses its quorum without one of them";

impl CommandPlan<'_> {
    pub(super) fn check(&mut self, command: NodeCommand) {
        self.findings.extend(shared_secrets::of_another(self.desired, self.places));
        for name in self.chosen.iter().filter(|name| self.desired.node(name).is_none()) {
            let finding =
                Finding::error(FindingCode::NodeNotListed, name, "the inventory has no such node")
                    .hint("run `talmox status` to see the nodes");
            self.findings.push(finding);
        }
        match command {
            NodeCommand::Drain | NodeCommand::Uncordon => self.check_kubernetes(),
            NodeCommand::Start => self.check_vms(Severity::Error),
            NodeCommand::Reboot => {
                self.check_vms(Severity::Error);
                self.check_former_control_planes();
                self.check_reboot();
            }
            // A VM that cannot be read must not prevent the shutdown of the rest of the cluster.
            NodeCommand::Shutdown if self.is_whole() => self.check_vms(Severity::Warning),
            NodeCommand::Shutdown => {
                self.check_vms(Severity::Error);
                self.check_former_control_planes();
                self.check_shutdown();
            }
        }
    }

    /// Adds the findings about the VMs of the chosen nodes, with this severity.
    fn check_vms(&mut self, severity: Severity) {
        let all = self.places.findings.iter().chain(&self.places.troubles);
        let own = all.filter(|finding| self.chosen.contains(&finding.subject));
        let own = own.cloned().map(|finding| Finding { severity, ..finding });
        self.findings.extend(own);
    }

    /// Checks a drain or uncordon, which only needs the Kubernetes API.
    fn check_kubernetes(&mut self) {
        let registered = match self.kubernetes() {
            Ok(registered) => registered,
            Err(reason) => {
                let message = format!("the Kubernetes API does not answer: {reason}");
                let finding =
                    Finding::error(FindingCode::KubernetesDown, &self.desired.cluster, message)
                        .hint("run `talmox status` to see the control planes");
                self.findings.push(finding);
                return;
            }
        };
        let unlisted = |name: &&String| {
            self.desired.node(name).is_some() && !registered.nodes.contains(name.as_str())
        };
        for name in self.chosen.iter().filter(unlisted) {
            let message = "Kubernetes does not list the node";
            let finding = Finding::error(FindingCode::NodeUnregistered, name, message)
                .hint("run `talmox up`: it restarts the kubelet of a running node, and waits until the node joins");
            self.findings.push(finding);
        }
    }

    /// Reports chosen workers that are still members of etcd: the inventory moved them to the workers, and they were not replaced yet.
    /// As workers they would go down without a check of the quorum.
    fn check_former_control_planes(&mut self) {
        let mut members = BTreeSet::new();
        for seen in self.observed.nodes.values() {
            if let TalosSeen::OwnNode(found) = seen
                && let EtcdSeen::Member { names } = &found.etcd
            {
                members.extend(names.iter().cloned());
            }
        }
        let is_former = |name: &&String| {
            let is_worker = self.desired.node(name).is_some_and(|node| !node.is_control_plane);
            is_worker && members.contains(*name)
        };
        let former: Vec<String> = self.chosen.iter().filter(is_former).cloned().collect();
        for name in former {
            let message = "the inventory lists it as a worker, and it is still a member of etcd";
            let hint = format!("replace it first: talmox up --allow-removal={name}");
            self.needed(&name, message, &hint);
        }
    }

    /// Checks a reboot. A control plane may reboot only while all other control planes run. A single control plane has no
    /// quorum to keep.
    fn check_reboot(&mut self) {
        let Some(first) = self.chosen_control_planes().next() else { return };
        let name = first.name.clone();
        if self.desired.control_planes().count() == 2 {
            self.needed(&name, TWO, "add a third control plane, or restart the whole cluster: `talmox node shutdown --all`, `talmox node start --all`");
        } else if let Some(other) = self.other_down() {
            self.needed_because_of(&name, &other);
        }
    }

    /// Checks a shutdown. A control plane that is shut down stays down, so all other control planes must run and keep the
    /// quorum.
    fn check_shutdown(&mut self) {
        let running: Vec<String> = self
            .chosen_control_planes()
            .filter(|node| self.runs(node))
            .map(|node| node.name.clone())
            .collect();
        let Some(name) = running.first() else { return };
        let count = self.desired.control_planes().count();
        let whole = "to shut the whole cluster down, run `talmox node shutdown --all`";
        if running.len() == count {
            let message = "no control plane would be left, and other nodes would still run";
            self.needed(name, message, whole);
        } else if count < REDUNDANT {
            self.needed(name, TWO, whole);
        } else if running.len() > 1 {
            let message = format!(
                "only one control plane can be shut down at a time, not {}: {}",
                running.len(),
                running.join(", ")
            );
            let hint = format!("shut one of them down, and start it before the next; {whole}");
            self.needed(name, &message, &hint);
        } else if let Some(other) = self.other_down() {
            self.needed_because_of(name, &other);
        }
    }

    fn chosen_control_planes(&self) -> impl Iterator<Item = &DesiredNode> {
        self.desired.control_planes().filter(|node| self.chosen.contains(&node.name))
    }

    /// Whether the VM of a node runs. True if the state of the VM is not known.
    pub(super) fn runs(&self, node: &DesiredNode) -> bool {
        self.placed(node).is_none_or(|placed| match &placed.state {
            VmPresence::Owned(found) => found.seen.is_running,
            VmPresence::Absent => false,
            VmPresence::BeingMade(_) | VmPresence::Blocked => true,
        })
    }

    /// A control plane that does not answer. A chosen control plane whose VM runs does not count, because the command
    /// concerns it anyway.
    fn other_down(&self) -> Option<String> {
        let mut down = self.desired.control_planes().filter(|node| {
            let is_affected = self.chosen.contains(&node.name) && self.runs(node);
            !is_affected && self.answer(node).is_none()
        });
        down.next().map(|node| node.name.clone())
    }

    fn needed_because_of(&mut self, name: &str, other: &str) {
        let message = format!(
            "{other} does not answer; if another control plane stops, etcd may lose its quorum"
        );
        let hint = format!("run `talmox node start {other}`, or `talmox up`, first");
        self.needed(name, &message, &hint);
    }

    fn needed(&mut self, name: &str, message: &str, hint: &str) {
        let finding = Finding::error(FindingCode::ControlPlaneNeeded, name, message).hint(hint);
        self.findings.push(finding);
    }
}

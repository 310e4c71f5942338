//! Chains of steps for one node.

use std::collections::BTreeSet;

use super::CommandPlan;
use crate::desired::DesiredNode;
use crate::observed::{CordonedBy, Registered};
use crate::plan::{
    Action, AwaitMember, AwaitUbuntu, Class, DrainNode, Finding, FindingCode, Object, RebootNode,
    ShutdownNode, StartVm, StepId, TalosNode, UncordonNode,
};
use crate::planning::placed::Placed;

/// Line in the machine config of a control plane that runs the pods of users.
const SCHEDULABLE: &str = "allowSchedulingOnControlPlanes: true";

impl CommandPlan<'_> {
    /// Plans to drain and reboot a node, to wait for it, and to uncordon it. A node with another operating system is shut
    /// down and started through Proxmox.
    pub(super) fn reboot(&mut self, node: &DesiredNode, after: &[StepId]) -> Option<StepId> {
        let (placed, found) = self.vm(node)?;
        let name = &node.name;
        if !found.seen.is_running {
            let finding = Finding::error(FindingCode::VmStopped, name, "its VM does not run")
                .hint(format!("run `talmox node start {name}`"));
            self.findings.push(finding);
            return None;
        }
        if node.is_talos && self.answer(node).is_none() {
            let message = "the node does not answer, so it cannot be asked to reboot";
            let hint = format!(
                "run `talmox node shutdown {name}`, which stops a VM that does not answer, and then `talmox node start {name}`"
            );
            self.findings.push(Finding::error(FindingCode::NodeDown, name, message).hint(hint));
            return None;
        }
        let drained = self.drain_step(node, &BTreeSet::from([name.clone()]), after);
        let class = if drained.is_some() { Class::Drain } else { Class::Reboot };
        self.change(Object::Node(name.clone()), class, ("status", "running", "rebooted"));
        let after = drained.as_ref().map_or(after, std::slice::from_ref);
        let back = if node.is_talos {
            let timeouts = self.desired.timeouts;
            let reboot = RebootNode {
                node: placed.talos_node(),
                control_planes: self.control_planes_of(node),
                deadline: timeouts.boot + timeouts.bootstrap,
            };
            let id = format!("talos/{name}/reboot");
            let after = after.iter().cloned();
            let id = self.steps.add(id, Some(name), after, Action::RebootNode(reboot));
            self.return_step(node, placed, &[id])
        } else {
            let stopped = self.shutdown_step(node, placed, vec![], after);
            let started = self.start_step(node, placed, &[stopped]);
            self.return_step(node, placed, &[started])
        };
        Some(if drained.is_some() { self.uncordon_step(node, false, &[back]) } else { back })
    }

    /// Plans to drain a node and to shut it down. The node stays cordoned until `up` or `start` uncordons it.
    pub(super) fn shutdown(
        &mut self,
        node: &DesiredNode,
        drains: bool,
        after: &[StepId],
    ) -> Option<StepId> {
        if !self.runs(node) {
            tracing::info!(target: "talmox::plan", subject = node.name, "skipped: its VM does not run");
            return None;
        }
        let (placed, _) = self.vm(node)?;
        let away = self.chosen;
        let drained = if drains { self.drain_step(node, away, after) } else { None };
        self.change(Object::Vm(node.name.clone()), Class::Live, ("status", "running", "stopped"));
        // If the whole cluster is shut down, no quorum must be kept.
        let control_planes = if drains { self.control_planes_of(node) } else { vec![] };
        let after = drained.as_ref().map_or(after, std::slice::from_ref);
        Some(self.shutdown_step(node, placed, control_planes, after))
    }

    /// Plans to start a node, to wait for it, and to uncordon it if talmox cordoned it.
    pub(super) fn start(&mut self, node: &DesiredNode, after: &[StepId]) {
        let Some((placed, found)) = self.vm(node) else { return };
        let name = &node.name;
        let registered = self.kubernetes().ok();
        let is_cordoned = registered
            .is_some_and(|registered| registered.cordoned.get(name) == Some(&CordonedBy::Talmox));
        let has_joined = self.answer(node).is_some_and(|it| it.has_joined(node.is_control_plane));
        let answers =
            if node.is_talos { has_joined } else { !self.observed.silent.contains_key(name) };
        if found.seen.is_running && answers && !is_cordoned {
            tracing::info!(target: "talmox::plan", subject = name.as_str(), "skipped: it runs");
            return;
        }
        let started = (!found.seen.is_running).then(|| {
            self.change(Object::Vm(name.clone()), Class::Live, ("status", "stopped", "running"));
            self.start_step(node, placed, after)
        });
        if started.is_none() && !answers {
            let change = ("status", "does not answer", "running");
            self.change(Object::Node(name.clone()), Class::Live, change);
        }
        let back = self.return_step(node, placed, started.as_slice());
        // A cluster that is down does not report which nodes talmox cordoned, so the step is planned for every Talos node.
        let is_member = node.is_talos || registered.is_some_and(|it| it.nodes.contains(name));
        if is_cordoned {
            self.uncordoned(node);
        }
        if is_member {
            self.uncordon_step(node, false, &[back]);
        }
    }

    pub(super) fn drain(&mut self, node: &DesiredNode, after: &[StepId]) -> Option<StepId> {
        let registered = self.kubernetes().ok()?;
        if !registered.nodes.contains(&node.name) {
            return None;
        }
        let change = ("scheduling", "enabled", "disabled, pods evicted");
        self.change(Object::Node(node.name.clone()), Class::Live, change);
        Some(self.add_drain(node, true, after))
    }

    pub(super) fn uncordon(&mut self, node: &DesiredNode) {
        let is_cordoned = |registered: &Registered| registered.cordoned.contains_key(&node.name);
        if self.kubernetes().is_ok_and(is_cordoned) {
            self.uncordoned(node);
            self.uncordon_step(node, true, &[]);
        } else {
            tracing::info!(target: "talmox::plan", subject = node.name, "skipped: it is not cordoned");
        }
    }

    fn uncordoned(&mut self, node: &DesiredNode) {
        let change = ("scheduling", "disabled", "enabled");
        self.change(Object::Node(node.name.clone()), Class::Live, change);
    }

    /// Plans to drain a node before it goes down. `away` contains the nodes that cannot take its pods, because they go down
    /// too. None if Kubernetes does not list the node.
    fn drain_step(
        &mut self,
        node: &DesiredNode,
        away: &BTreeSet<String>,
        after: &[StepId],
    ) -> Option<StepId> {
        let registered = match self.kubernetes() {
            Ok(registered) => registered,
            Err(reason) => {
                if node.is_talos {
                    let message = format!(
                        "it is not drained, because the Kubernetes API does not answer: {reason}"
                    );
                    let finding =
                        Finding::warning(FindingCode::KubernetesDown, &node.name, message).hint(
                            "bring the Kubernetes API back first if its pods must be evicted",
                        );
                    self.findings.push(finding);
                }
                return None;
            }
        };
        if !registered.nodes.contains(&node.name) {
            return None;
        }
        let evicts = self.has_room(registered, away);
        Some(self.add_drain(node, evicts, after))
    }

    fn add_drain(&mut self, node: &DesiredNode, evicts: bool, after: &[StepId]) -> StepId {
        let name = &node.name;
        let deadline = self.desired.timeouts.health;
        let drain = DrainNode { node: name.clone(), evicts, deadline };
        let after = after.iter().cloned();
        self.steps.add(format!("node/{name}/drain"), Some(name), after, Action::DrainNode(drain))
    }

    /// Whether a node that is not in `away` could run the evicted pods.
    fn has_room(&self, registered: &Registered, away: &BTreeSet<String>) -> bool {
        let has_workers = self.desired.nodes.iter().any(|node| !node.is_control_plane);
        let runs_pods = |name: &str| match self.desired.node(name) {
            Some(node) if node.is_control_plane => {
                !has_workers || node.config.expose().contains(SCHEDULABLE)
            }
            _ => true,
        };
        registered.nodes.iter().any(|name| {
            !away.contains(name)
                && !registered.cordoned.contains_key(name)
                && !registered.unready.contains(name)
                && runs_pods(name)
        })
    }

    fn shutdown_step(
        &mut self,
        node: &DesiredNode,
        placed: &Placed<'_>,
        control_planes: Vec<TalosNode>,
        after: &[StepId],
    ) -> StepId {
        let timeouts = self.desired.timeouts;
        let shutdown = ShutdownNode {
            own: placed.own.clone(),
            talos: node.is_talos.then(|| placed.talos_node()),
            control_planes,
            deadline: timeouts.bootstrap + timeouts.task,
        };
        let (id, after) = (format!("vm/{}/shutdown", node.name), after.iter().cloned());
        self.steps.add(id, Some(&node.name), after, Action::ShutdownNode(shutdown))
    }

    fn start_step(&mut self, node: &DesiredNode, placed: &Placed<'_>, after: &[StepId]) -> StepId {
        let start = StartVm { own: placed.own.clone(), deadline: self.desired.timeouts.task };
        let (id, after) = (format!("vm/{}/start", node.name), after.iter().cloned());
        self.steps.add(id, Some(&node.name), after, Action::StartVm(start))
    }

    /// Plans to wait until a Talos node has joined, or until another operating system answers.
    fn return_step(&mut self, node: &DesiredNode, placed: &Placed<'_>, after: &[StepId]) -> StepId {
        let name = &node.name;
        let timeouts = self.desired.timeouts;
        let deadline = timeouts.boot + timeouts.bootstrap;
        let (id, action) = if node.is_talos {
            let wait = AwaitMember {
                node: placed.talos_node(),
                shape: None,
                awaits_ready: false,
                deadline,
            };
            (format!("talos/{name}/return"), Action::AwaitMember(wait))
        } else {
            let wait = AwaitUbuntu {
                own: placed.own.clone(),
                contact: node.contact,
                has_agent: node.vm.has_agent,
                deadline,
            };
            (format!("ubuntu/{name}/up"), Action::AwaitUbuntu(wait))
        };
        self.steps.add(id, Some(name), after.iter().cloned(), action)
    }

    fn uncordon_step(&mut self, node: &DesiredNode, is_asked: bool, after: &[StepId]) -> StepId {
        let name = &node.name;
        let has_network = match self.kubernetes() {
            Ok(registered) => !registered.lacks_pod_network,
            Err(_) => self.desired.has_cni,
        };
        let uncordon = UncordonNode {
            node: name.clone(),
            // A user may uncordon a node that is not ready.
            awaits_ready: has_network && !is_asked,
            is_asked,
            deadline: self.desired.timeouts.health,
        };
        let (id, after) = (format!("node/{name}/uncordon"), after.iter().cloned());
        self.steps.add(id, Some(name), after, Action::UncordonNode(uncordon))
    }

    /// All control planes, if the node is a Talos control plane. Otherwise empty.
    fn control_planes_of(&self, node: &DesiredNode) -> Vec<TalosNode> {
        if !(node.is_talos && node.is_control_plane) {
            return vec![];
        }
        let is_member = |placed: &&Placed<'_>| placed.node.is_talos && placed.node.is_control_plane;
        self.places.nodes.iter().filter(is_member).map(Placed::talos_node).collect()
    }
}

//! Faults of nodes: in API calls, during boots, and of the machine itself.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_lab_environment::fault::{
    Action, BootFacts, EventSource, FaultEvent, NodeAction, NodeNames, ScheduledFault, TargetNode,
};
use talmox_talos_api::server::Status;
use tokio::task::JoinSet;

use super::loopback_network::{Incoming, PORTS};
use super::simulation::Simulation;
use super::talos_state::{Node, TalosState};

/// Time between a kernel panic and the reboot.
const PANIC_DURATION: Duration = Duration::from_secs(10);

/// Faults of a node that last until the next boot of the node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeFaults {
    pub(crate) disk_is_full: bool,
    /// Time by which every etcd operation takes longer.
    pub(crate) slowness: Duration,
}

/// Reason why a fault prevents the answer to a call.
pub(crate) enum InterruptedCall {
    Rejected {
        status: u16,
        message: String,
    },
    RejectedCall(Status),
    /// The connection is broken without an answer.
    ConnectionBroken,
}

/// Faults that are applied after a call has been answered.
#[derive(Debug, Default)]
pub(crate) struct FaultsAfterCall {
    is_cut: bool,
    actions: Vec<NodeAction>,
}

impl Simulation {
    /// Applies the faults that match a call, and returns those that must be applied after the answer.
    pub(crate) async fn apply_faults(
        self: &Arc<Self>,
        vmid: u32,
        source: EventSource<'_>,
        method: &str,
    ) -> Result<FaultsAfterCall, InterruptedCall> {
        let mut after_call = FaultsAfterCall::default();
        for action in self.matching_faults(vmid, source, method) {
            match action {
                Action::Node(action) => after_call.actions.push(action),
                Action::Reject { status, message } => {
                    return Err(InterruptedCall::Rejected { status, message });
                }
                Action::RejectCall { code, message } => {
                    return Err(InterruptedCall::RejectedCall(Status::new(code, message)));
                }
                Action::Delay(time) => self.clock().sleep(time).await,
                Action::CutBefore => return Err(InterruptedCall::ConnectionBroken),
                Action::CutAfter => after_call.is_cut = true,
                Action::Hang => std::future::pending().await,
                other => self.hypervisor.carry_out(&other),
            }
        }
        Ok(after_call)
    }

    /// Faults that match the start of a boot.
    pub(super) fn boot_faults(&self, vmid: u32, boot: BootFacts) -> Vec<Action> {
        self.matching_faults(vmid, EventSource::Boot(boot), "")
    }

    fn matching_faults(&self, vmid: u32, source: EventSource<'_>, method: &str) -> Vec<Action> {
        let known = self.look(|talos| {
            let node = talos.nodes.get(&vmid)?;
            Some((node.hardware.name.clone(), node.network.all_addresses().collect::<Vec<_>>()))
        });
        let (name, addresses) = known.unwrap_or_default();
        let node = Some(NodeNames { vmid, name: &name, addresses: &addresses });
        self.environment.faults.matching_actions(&FaultEvent {
            source,
            method,
            vmid: Some(vmid),
            host: "",
            node,
        })
    }

    /// Applies a fault to the node that the fault names, or else to the node `this` that triggered it. Returns true if the node
    /// `this` can no longer answer.
    pub(super) fn apply_fault(self: &Arc<Self>, this: Option<u32>, action: &NodeAction) -> bool {
        let target = match action {
            NodeAction::Crash(target_node)
            | NodeAction::Unplug(target_node)
            | NodeAction::Freeze(target_node)
            | NodeAction::Fill(target_node)
            | NodeAction::Slow(target_node, _) => match target_node {
                TargetNode::This => this,
                TargetNode::Named(name) => self.find(name),
            },
            _ => None,
        };
        match (action, target) {
            (NodeAction::Crash(_), Some(vmid)) => self.freeze(vmid, Some(PANIC_DURATION)),
            (NodeAction::Freeze(_), Some(vmid)) => self.freeze(vmid, None),
            (NodeAction::Unplug(_), Some(vmid)) => self.power_off(vmid),
            (NodeAction::Fill(_), Some(vmid)) => self.fill_disk(vmid),
            (NodeAction::Slow(_, by), Some(vmid)) => self.change(|talos| {
                if let Some(node) = talos.nodes.get_mut(&vmid) {
                    node.faults.slowness = *by;
                }
            }),
            (NodeAction::Partition { groups, lasts }, _) => self.add_partition(groups, *lasts),
            (NodeAction::Heal, _) => self.change(|talos| talos.partitions.clear()),
            (NodeAction::Impostor { at, kind, lasts }, _) => {
                self.start_impostor(at, *kind, *lasts);
            }
            // The node does not exist, or the fault has an effect only at boots.
            _ => {}
        }
        let ends =
            matches!(action, NodeAction::Crash(_) | NodeAction::Freeze(_) | NodeAction::Unplug(_));
        ends && target.is_some() && target == this
    }

    /// vmid of the running VM with this name, vmid or address.
    fn find(&self, name: &str) -> Option<u32> {
        let running = self.look(|talos| {
            let mut nodes = talos.nodes.values();
            nodes.find(|node| node.has_name(name)).map(|node| node.vmid)
        });
        running.or_else(|| self.hypervisor.find_running(name))
    }

    /// Stops all activity of a machine. The machine stays like this until it is reset or powered off. After a kernel panic, it
    /// reboots.
    fn freeze(self: &Arc<Self>, vmid: u32, panic: Option<Duration>) {
        let own: Vec<IpAddr> = self.look(|talos| {
            let node = talos.nodes.get(&vmid);
            node.map(|node| node.network.addresses().collect()).unwrap_or_default()
        });
        let incoming: Vec<Incoming> = own
            .iter()
            .flat_map(|address| PORTS.map(|port| self.loopback_network.serve(*address, port, vmid)))
            .filter_map(Result::ok)
            .collect();
        let simulation = Arc::clone(self);
        let frozen = tokio::spawn(async move {
            let mut holding: JoinSet<()> = incoming.into_iter().map(accept_silently).collect();
            match panic {
                Some(time) => {
                    simulation.clock().sleep(time).await;
                    simulation.power_cycle(vmid);
                }
                None => while holding.join_next().await.is_some() {},
            }
            std::future::pending::<()>().await;
        });
        self.replace_task(vmid, Some(frozen.abort_handle()));
        self.hypervisor.forget_agent(vmid);
        self.change(|talos| talos.nodes.remove(&vmid));
    }

    fn fill_disk(&self, vmid: u32) {
        self.change(|talos| {
            let Some(node) = talos.nodes.get_mut(&vmid) else { return };
            node.faults.disk_is_full = true;
            if let Some(membership) = node.etcd {
                talos.raise_alarm(membership);
            }
        });
    }

    /// Disconnects nodes in different groups from each other, for some time or permanently.
    fn add_partition(self: &Arc<Self>, groups: &[Vec<String>], lasts: Option<Duration>) {
        let number = self.change(|talos| talos.add_partition(groups.to_vec()));
        let Some(lasts) = lasts else { return };
        let simulation = Arc::clone(self);
        tokio::spawn(async move {
            simulation.clock().sleep(lasts).await;
            simulation.change(|talos| talos.partitions.remove(&number));
        });
    }

    /// Applies the faults that are not triggered by a call, until the lab ends.
    pub(super) async fn apply_scheduled_faults(self: &Arc<Self>) {
        let Some(mut scheduled) = self.environment.faults.scheduled_faults() else {
            return std::future::pending().await;
        };
        let mut waiting = JoinSet::new();
        while let Some(ScheduledFault { after, node, action, matches }) = scheduled.recv().await {
            while waiting.try_join_next().is_some() {}
            let simulation = Arc::clone(self);
            waiting.spawn(async move {
                simulation.clock().sleep(after).await;
                matches.count();
                match action {
                    Action::Node(action) => {
                        let this = node.and_then(|node| simulation.find(&node));
                        simulation.apply_fault(this, &action);
                    }
                    other => simulation.hypervisor.carry_out(&other),
                }
            });
        }
    }
}

impl FaultsAfterCall {
    /// Applies the remaining faults. Returns true if the call must not be answered.
    pub(crate) fn apply(&self, simulation: &Arc<Simulation>, vmid: u32) -> bool {
        let mut is_over = self.is_cut;
        for action in &self.actions {
            is_over |= simulation.apply_fault(Some(vmid), action);
        }
        is_over
    }
}

impl Node {
    /// Whether a text identifies this node. It may be the name of the VM, the vmid, or an address.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        let addresses: Vec<IpAddr> = self.network.all_addresses().collect();
        NodeNames { vmid: self.vmid, name: &self.hardware.name, addresses: &addresses }
            .is_called(name)
    }
}

impl TalosState {
    /// Adds a network partition between the groups, and returns its number. Nodes that are in no group form one further group.
    pub(crate) fn add_partition(&mut self, groups: Vec<Vec<String>>) -> u64 {
        let number = self.partitions.last_key_value().map_or(0, |(last, _)| last + 1);
        self.partitions.insert(number, groups);
        number
    }

    /// Whether two nodes can reach each other.
    pub(crate) fn is_connected(&self, one: u32, other: u32) -> bool {
        let side = |groups: &[Vec<String>], vmid: u32| {
            let called = |name: &String| match self.nodes.get(&vmid) {
                Some(node) => node.has_name(name),
                None => *name == vmid.to_string(),
            };
            groups.iter().position(|group| group.iter().any(called))
        };
        self.is_online(one)
            && self.is_online(other)
            && self.partitions.values().all(|groups| side(groups, one) == side(groups, other))
    }
}

/// Accepts connections, but sends nothing.
pub(super) async fn accept_silently(mut incoming: Incoming) {
    let mut held = vec![];
    while let Some(socket) = incoming.next().await {
        held.push(socket);
    }
}

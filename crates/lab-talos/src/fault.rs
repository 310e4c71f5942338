//! What the script does to nodes: to their calls, at their boots, and to them as a whole.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_lab_environment::fault::{
    Action, BootSight, Machine, NodeAction, Order, Place, Sight, Who,
};
use talmox_talos_api::server::Status;
use tokio::task::JoinSet;

use super::simulation::Simulation;
use super::talos_state::{Node, TalosState};
use super::wire::{Incoming, PORTS};

/// How long a kernel that panicked says nothing before it boots anew.
const PANIC: Duration = Duration::from_secs(10);

/// Faults of a node that last until it boots again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeFaults {
    pub(crate) disk_is_full: bool,
    /// What everything takes longer that etcd does.
    pub(crate) slowness: Duration,
}

/// How a call ends that the script does not let through.
pub(crate) enum Fate {
    Refused {
        status: u16,
        message: String,
    },
    RefusedCall(Status),
    /// The connection breaks.
    Cut,
}

/// What is left to happen once a call was let through, and all was done.
#[derive(Debug, Default)]
pub(crate) struct Aftermath {
    is_cut: bool,
    actions: Vec<NodeAction>,
}

impl Simulation {
    /// What the script has for a call: what is to happen before has happened when this returns.
    pub(crate) async fn apply_faults(
        self: &Arc<Self>,
        vmid: u32,
        place: Place<'_>,
        method: &str,
    ) -> Result<Aftermath, Fate> {
        let mut aftermath = Aftermath::default();
        for action in self.strike(vmid, place, method) {
            match action {
                Action::Node(action) => aftermath.actions.push(action),
                Action::Refuse { status, message } => {
                    return Err(Fate::Refused { status, message });
                }
                Action::RefuseCall { code, message } => {
                    return Err(Fate::RefusedCall(Status::new(code, message)));
                }
                Action::Delay(time) => self.clock().sleep(time).await,
                Action::CutBefore => return Err(Fate::Cut),
                Action::CutAfter => aftermath.is_cut = true,
                Action::Hang => std::future::pending().await,
                other => self.hypervisor.carry_out(&other),
            }
        }
        Ok(aftermath)
    }

    /// What the script has for a boot that begins.
    pub(super) fn strike_boot(&self, vmid: u32, boot: BootSight) -> Vec<Action> {
        self.strike(vmid, Place::Boot(boot), "")
    }

    fn strike(&self, vmid: u32, place: Place<'_>, method: &str) -> Vec<Action> {
        let known = self.look(|talos| {
            let node = talos.nodes.get(&vmid)?;
            Some((node.hardware.name.clone(), node.network.all_addresses().collect::<Vec<_>>()))
        });
        let (name, addresses) = known.unwrap_or_default();
        let node = Some(Machine { vmid, name: &name, addresses: &addresses });
        self.environment.faults.strike(&Sight { place, method, vmid: Some(vmid), host: "", node })
    }

    /// Lets it happen, to the node that a rule found where it names no other. True where that node does
    /// not answer any more.
    pub(super) fn carry_out(self: &Arc<Self>, this: Option<u32>, action: &NodeAction) -> bool {
        let whom = match action {
            NodeAction::Crash(who)
            | NodeAction::Unplug(who)
            | NodeAction::Freeze(who)
            | NodeAction::Fill(who)
            | NodeAction::Slow(who, _) => match who {
                Who::This => this,
                Who::Named(name) => self.find(name),
            },
            _ => None,
        };
        match (action, whom) {
            (NodeAction::Crash(_), Some(vmid)) => self.freeze(vmid, Some(PANIC)),
            (NodeAction::Freeze(_), Some(vmid)) => self.freeze(vmid, None),
            (NodeAction::Unplug(_), Some(vmid)) => self.power_off(vmid),
            (NodeAction::Fill(_), Some(vmid)) => self.fill(vmid),
            (NodeAction::Slow(_, by), Some(vmid)) => self.change(|talos| {
                if let Some(node) = talos.nodes.get_mut(&vmid) {
                    node.faults.slowness = *by;
                }
            }),
            (NodeAction::Partition { groups, lasts }, _) => self.part(groups, *lasts),
            (NodeAction::Heal, _) => self.change(|talos| talos.partitions.clear()),
            (NodeAction::Impostor { at, disguise, lasts }, _) => {
                self.let_in(at, *disguise, *lasts);
            }
            // A node that is not there, or something that only happens at a boot.
            _ => {}
        }
        let ends =
            matches!(action, NodeAction::Crash(_) | NodeAction::Freeze(_) | NodeAction::Unplug(_));
        ends && whom.is_some() && whom == this
    }

    /// The VM that runs and is called so.
    fn find(&self, name: &str) -> Option<u32> {
        let running = self.look(|talos| {
            let mut nodes = talos.nodes.values();
            nodes.find(|node| node.is_called(name)).map(|node| node.vmid)
        });
        running.or_else(|| self.hypervisor.find_running(name))
    }

    /// All that runs on a machine stands still, until it is reset or loses its power.
    fn freeze(self: &Arc<Self>, vmid: u32, panic: Option<Duration>) {
        let own: Vec<IpAddr> = self.look(|talos| {
            let node = talos.nodes.get(&vmid);
            node.map(|node| node.network.addresses().collect()).unwrap_or_default()
        });
        let incoming: Vec<Incoming> = own
            .iter()
            .flat_map(|address| PORTS.map(|port| self.wire.answer(*address, port, vmid)))
            .filter_map(Result::ok)
            .collect();
        let simulation = Arc::clone(self);
        let frozen = tokio::spawn(async move {
            let mut holding: JoinSet<()> = incoming.into_iter().map(hold).collect();
            match panic {
                Some(time) => {
                    simulation.clock().sleep(time).await;
                    simulation.power_cycle(vmid);
                }
                None => while holding.join_next().await.is_some() {},
            }
            std::future::pending::<()>().await;
        });
        self.replace(vmid, Some(frozen.abort_handle()));
        self.hypervisor.forget_agent(vmid);
        self.change(|talos| talos.nodes.remove(&vmid));
    }

    fn fill(&self, vmid: u32) {
        self.change(|talos| {
            let Some(node) = talos.nodes.get_mut(&vmid) else { return };
            node.faults.disk_is_full = true;
            if let Some(membership) = node.etcd {
                talos.raise_alarm(membership);
            }
        });
    }

    /// Nodes of different groups do not hear each other any more, for some time or for good.
    fn part(self: &Arc<Self>, groups: &[Vec<String>], lasts: Option<Duration>) {
        let number = self.change(|talos| talos.part(groups.to_vec()));
        let Some(lasts) = lasts else { return };
        let simulation = Arc::clone(self);
        tokio::spawn(async move {
            simulation.clock().sleep(lasts).await;
            simulation.change(|talos| talos.partitions.remove(&number));
        });
    }

    /// Does what is to happen without a call, until the lab ends.
    pub(super) async fn carry_out_orders(self: &Arc<Self>) {
        let Some(mut orders) = self.environment.faults.orders() else {
            return std::future::pending().await;
        };
        let mut waiting = JoinSet::new();
        while let Some(Order { after, node, action, seen }) = orders.recv().await {
            while waiting.try_join_next().is_some() {}
            let simulation = Arc::clone(self);
            waiting.spawn(async move {
                simulation.clock().sleep(after).await;
                seen.count();
                match action {
                    Action::Node(action) => {
                        let this = node.and_then(|node| simulation.find(&node));
                        simulation.carry_out(this, &action);
                    }
                    other => simulation.hypervisor.carry_out(&other),
                }
            });
        }
    }
}

impl Aftermath {
    /// What was to happen after the call happens now. True where there is no answer any more.
    pub(crate) fn carry_out(&self, simulation: &Arc<Simulation>, vmid: u32) -> bool {
        let mut is_over = self.is_cut;
        for action in &self.actions {
            is_over |= simulation.carry_out(Some(vmid), action);
        }
        is_over
    }
}

impl Node {
    /// Whether the name of its VM, the id of that, or one of its addresses is meant.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let addresses: Vec<IpAddr> = self.network.all_addresses().collect();
        Machine { vmid: self.vmid, name: &self.hardware.name, addresses: &addresses }
            .is_called(name)
    }
}

impl TalosState {
    /// Nodes of different groups do not hear each other. Those that no group names are one more.
    pub(crate) fn part(&mut self, groups: Vec<Vec<String>>) -> u64 {
        let number = self.partitions.last_key_value().map_or(0, |(last, _)| last + 1);
        self.partitions.insert(number, groups);
        number
    }

    /// Whether two nodes hear each other.
    pub(crate) fn is_connected(&self, one: u32, other: u32) -> bool {
        let side = |groups: &[Vec<String>], vmid: u32| {
            let called = |name: &String| match self.nodes.get(&vmid) {
                Some(node) => node.is_called(name),
                None => *name == vmid.to_string(),
            };
            groups.iter().position(|group| group.iter().any(called))
        };
        self.is_plugged(one)
            && self.is_plugged(other)
            && self.partitions.values().all(|groups| side(groups, one) == side(groups, other))
    }
}

/// Takes connections and says nothing.
pub(super) async fn hold(mut incoming: Incoming) {
    let mut held = vec![];
    while let Some(socket) = incoming.next().await {
        held.push(socket);
    }
}

//! Nodes that run, but whose Node object was deleted. A kubelet registers its node only when it starts, so it is restarted.

use super::builder::Builder;
use super::placed::{Placed, VmPresence};
use super::scope::Part;
use super::{node_chain, node_drift, pod_network, replacement};
use crate::observed::{KubernetesSeen, Registered, TalosSeen};
use crate::plan::{
    Action, Change, Class, FieldChange, Finding, FindingCode, Left, Object, RestartKubelet, StepId,
    TalosNode,
};

const RESTART: &str =
    "its kubelet is restarted, because a kubelet registers its node only when it starts";

/// Plans to register these nodes again, one after the other, because Talos may reject the restart of a kubelet, and then the node is
/// rebooted. Returns the last step.
pub(super) fn plan(builder: &mut Builder<'_>, places: &[Placed<'_>]) -> Option<StepId> {
    let observed = builder.observed;
    let KubernetesSeen::Answers(registered) = &observed.kubernetes else { return None };
    let mut unlisted: Vec<&Placed<'_>> =
        places.iter().filter(|placed| is_unregistered(builder, registered, placed)).collect();
    unlisted.sort_by_key(|placed| placed.node.is_control_plane);
    let mut last = None;
    for placed in unlisted {
        if let Some(step) = register(builder, placed, last.clone()) {
            last = Some(step);
        }
    }
    last
}

/// Whether a node of the cluster runs, and Kubernetes does not list it.
fn is_unregistered(builder: &Builder<'_>, registered: &Registered, placed: &Placed<'_>) -> bool {
    let name = &placed.node.name;
    let Some(TalosSeen::OwnNode(found)) = builder.observed.nodes.get(name) else { return false };
    let is_owned = placed.node.is_talos && matches!(placed.state, VmPresence::Owned(_));
    let is_joining = builder.steps.has(&StepId::new(format!("talos/{name}/join")));
    let has_joined = found.has_joined(placed.node.is_control_plane);
    if !is_owned || is_joining || !has_joined || replacement::is_planned(builder, name) {
        return false;
    }
    // A patch may have given the node another name in Kubernetes, or may keep its kubelet from registering it.
    let has_own_name =
        node_drift::hostname(builder.desired, found).is_some_and(|hostname| hostname == *name);
    let domain = format!("{name}.");
    let is_listed =
        registered.nodes.iter().any(|listed| listed == name || listed.starts_with(&domain));
    has_own_name && !is_listed && !never_registers(placed)
}

/// Whether the config of a node keeps its kubelet from registering it.
fn never_registers(placed: &Placed<'_>) -> bool {
    let config = placed.node.config.expose();
    config.lines().any(|line| line.trim() == "skipNodeRegistration: true")
}

fn register(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    after: Option<StepId>,
) -> Option<StepId> {
    let name = &placed.node.name;
    let message = "the node runs, but Kubernetes does not list it: its Node object was deleted, or its kubelet has not \
                   registered it yet";
    let hint = "run `talmox up`: it restarts the kubelet, which then registers the node again";
    builder
        .findings
        .push(Finding::warning(FindingCode::NodeUnregistered, name, message).hint(hint));
    let (old, new) = (Some("not registered".to_owned()), Some("registered".to_owned()));
    let fields = vec![FieldChange::new("kubernetes", old, new)];
    let object = Object::Node(name.clone());
    if !builder.scope.allows(name, Part::Configs) {
        builder.changes.push(Change::left(object, Class::Live, fields, Left::NotSelected));
        return None;
    }
    builder.changes.push(Change::planned(object, Class::Live, fields).note(RESTART));
    let timeouts = builder.desired.timeouts;
    let contact = builder.observed_contact(name).unwrap_or(placed.node.contact);
    let action = Action::RestartKubelet(RestartKubelet {
        node: TalosNode { contact, ..placed.talos_node() },
        awaits_ready: pod_network::exists(builder),
        control_planes: node_chain::members_beside(builder, placed),
        deadline: timeouts.boot + timeouts.health,
    });
    Some(builder.steps.add(format!("node/{name}/register"), Some(name), after, action))
}

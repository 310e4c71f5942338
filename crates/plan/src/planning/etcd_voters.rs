//! The observed members of etcd, and whether etcd keeps its quorum without one of them.

use std::collections::BTreeSet;

use super::builder::Builder;
use super::placed::Placed;
use crate::observed::{EtcdSeen, TalosSeen};
use crate::plan::{StepId, TalosNode};

/// The names of all etcd members that nodes of the inventory report. Empty if etcd does not answer on any node.
pub(super) fn members<'a>(builder: &Builder<'a>) -> BTreeSet<&'a str> {
    let members = builder.observed.nodes.values().filter_map(|seen| match seen {
        TalosSeen::OwnNode(found) => match &found.etcd {
            EtcdSeen::Member { names } => Some(names),
            _ => None,
        },
        _ => None,
    });
    members.flatten().map(String::as_str).collect()
}

/// The note about a member of etcd that is neither a node of the inventory nor an orphan. None if there is none. Such a member may be a control
/// plane under another name, so no control plane is removed or replaced while etcd lists it.
pub(super) fn unknown_member(builder: &Builder<'_>) -> Option<String> {
    let is_orphan =
        |name: &str| builder.places.removed.iter().any(|(own, _)| own.identity.node == name);
    let mut unknown = members(builder).into_iter();
    let unknown = unknown.find(|name| builder.desired.node(name).is_none() && !is_orphan(name))?;
    Some(match unknown {
        "" => "etcd has a member without a name, which may be this node".to_owned(),
        name => format!(
            "etcd has the member {name}, which is not a node of the inventory and may be this node"
        ),
    })
}

/// Whether etcd answers on a node. Workers of the inventory are not queried for etcd. A member on a worker is a former
/// control plane, and counts as healthy if the node answers.
fn is_member(builder: &Builder<'_>, name: &str) -> bool {
    let is_worker = builder.desired.node(name).is_some_and(|node| !node.is_control_plane);
    match builder.observed.nodes.get(name) {
        Some(TalosSeen::OwnNode(found)) => {
            is_worker || matches!(found.etcd, EtcdSeen::Member { .. })
        }
        _ => false,
    }
}

/// The control planes of the inventory except the named one.
fn other_control_planes<'b, 'a: 'b>(
    builder: &'b Builder<'a>,
    name: &'b str,
) -> impl Iterator<Item = &'b Placed<'a>> {
    builder.places.nodes.iter().filter(move |placed| {
        placed.node.is_talos && placed.node.is_control_plane && placed.node.name != name
    })
}

/// The control planes except the named one, each with the address at which it answers now.
pub(super) fn others_now(builder: &Builder<'_>, name: &str) -> Vec<TalosNode> {
    let others = other_control_planes(builder, name).map(|placed| {
        let mut node = placed.talos_node();
        node.contact = builder.observed_contact(&node.name).unwrap_or(node.contact);
        node
    });
    others.collect()
}

/// The control planes except the named one, each with the address that it has after all changes of the plan.
pub(super) fn others_then(builder: &Builder<'_>, name: &str) -> Vec<TalosNode> {
    other_control_planes(builder, name).map(Placed::talos_node).collect()
}

/// The etcd members at some point of a plan. Before and after each removal, a step checks the real members again.
#[derive(Clone, Debug)]
pub(super) struct EtcdVoters {
    all: BTreeSet<String>,
    healthy: BTreeSet<String>,
    /// The control planes of the inventory among `all`.
    staying: BTreeSet<String>,
}

impl EtcdVoters {
    /// The members now. The etcd state of an orphan is not read, so an orphan counts as healthy if its VM runs.
    pub(super) fn now(builder: &Builder<'_>) -> Self {
        let all: BTreeSet<String> = members(builder).into_iter().map(ToOwned::to_owned).collect();
        let runs = |name: &str| {
            let mut orphans = builder.places.removed.iter();
            orphans.any(|(own, found)| own.identity.node == name && found.seen.is_running)
        };
        let is_healthy = |name: &&String| is_member(builder, name) || runs(name);
        let healthy = all.iter().filter(is_healthy).cloned().collect();
        let is_staying =
            |name: &&String| builder.desired.control_planes().any(|node| node.name == **name);
        let staying = all.iter().filter(is_staying).cloned().collect();
        Self { all, healthy, staying }
    }

    /// The members after all nodes of the plan have joined.
    pub(super) fn after_joins(builder: &Builder<'_>) -> Self {
        let mut voters = Self::now(builder);
        for node in builder.desired.control_planes() {
            if builder.steps.has(&StepId::new(format!("talos/{}/join", node.name))) {
                voters.all.insert(node.name.clone());
                voters.healthy.insert(node.name.clone());
                voters.staying.insert(node.name.clone());
            }
        }
        voters
    }

    pub(super) fn is_known(&self) -> bool {
        !self.all.is_empty()
    }

    /// Whether more than half of the members are healthy, so that etcd accepts changes.
    pub(super) fn has_quorum(&self) -> bool {
        self.healthy.len() * 2 > self.all.len()
    }

    /// The members without the named one. Returns an error if etcd would no longer work.
    pub(super) fn without(&self, name: &str) -> Result<Self, WithoutMember> {
        let mut rest = self.clone();
        if !rest.all.remove(name) {
            return Ok(rest);
        }
        rest.healthy.remove(name);
        rest.staying.remove(name);
        if rest.staying.is_empty() {
            return Err(WithoutMember::Last);
        }
        if !rest.has_quorum() {
            let (healthy, all) = (rest.healthy.len(), rest.all.len());
            return Err(WithoutMember::NoQuorum { healthy, all });
        }
        Ok(rest)
    }
}

/// Why a member cannot leave etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutMember {
    /// No other control plane of the inventory is a member.
    Last,
    /// Too few of the remaining members would be healthy.
    NoQuorum { healthy: usize, all: usize },
}

impl WithoutMember {
    pub(super) fn note(self) -> String {
        match self {
            Self::Last => "no other control plane of the inventory is a member of etcd: add control planes first, \
                           and let them join"
                .to_owned(),
            Self::NoQuorum { healthy, all } => format!(
                "etcd would lose its quorum: {healthy} of the {all} remaining members are healthy. Bring the others up first"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voters(all: &[&str], healthy: &[&str], staying: &[&str]) -> EtcdVoters {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        EtcdVoters { all: set(all), healthy: set(healthy), staying: set(staying) }
    }

    #[test]
    fn five_become_three_one_after_the_other() {
        let all = ["a", "b", "c", "d", "e"];
        let first = voters(&all, &all, &["a", "b", "c"]).without("d").unwrap();
        let second = first.without("e").unwrap();
        assert_eq!(second.all.len(), 3);
        // Even if one of the remaining members is down, both orphans can be removed.
        let first = voters(&all, &["a", "b", "d", "e"], &["a", "b", "c"]).without("d").unwrap();
        assert!(first.without("e").is_ok());
    }

    #[test]
    fn neither_the_last_control_plane_nor_the_quorum_is_lost() {
        let single = voters(&["a"], &["a"], &["a"]);
        assert_eq!(single.without("a").err(), Some(WithoutMember::Last));
        let orphans_only = voters(&["x", "y"], &["x", "y"], &[]);
        assert_eq!(orphans_only.without("x").err(), Some(WithoutMember::Last));
        let weak = voters(&["a", "b", "c"], &["a", "c"], &["a", "b", "c"]);
        let lost = WithoutMember::NoQuorum { healthy: 1, all: 2 };
        assert_eq!(weak.without("c").err(), Some(lost));
        // The member that is down can leave.
        assert!(weak.without("b").is_ok());
        // The removal of a node that is not a member has no effect.
        assert!(single.without("z").is_ok());
    }
}

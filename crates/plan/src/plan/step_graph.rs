//! Collection of steps and their order.

use std::collections::{BTreeMap, BTreeSet};

use super::step::Step;
use super::step_id::StepId;
use super::step_kind::Action;

/// Steps with unique names. A step that several steps depend on is contained once.
#[derive(Debug, Default)]
pub(crate) struct StepGraph {
    all: Vec<Step>,
}

impl StepGraph {
    /// Adds a step, unless a step of that name exists. Returns the name, so that other steps can depend on it.
    pub(crate) fn add(
        &mut self,
        id: impl Into<String>,
        node: Option<&str>,
        after: impl IntoIterator<Item = StepId>,
        action: Action,
    ) -> StepId {
        let id = StepId::new(id);
        if self.has(&id) {
            tracing::info!(target: "talmox::plan", subject = id.as_str(), "merged: the step is planned already");
        } else {
            let mut after: Vec<StepId> = after.into_iter().collect();
            after.sort_unstable();
            after.dedup();
            self.all.push(Step { id: id.clone(), node: node.map(str::to_owned), action, after });
        }
        id
    }

    /// Removes all steps of a node.
    pub(crate) fn remove_of(&mut self, node: &str) {
        self.all.retain(|step| step.node.as_deref() != Some(node));
    }

    /// Makes the step `id` depend on the step `before`.
    pub(crate) fn put_behind(&mut self, id: &StepId, before: &StepId) {
        if let Some(step) = self.all.iter_mut().find(|step| step.id == *id) {
            step.after.push(before.clone());
            step.after.sort_unstable();
            step.after.dedup();
        }
    }

    /// Removes steps and returns them. A step that depends on a removed step then depends on the dependencies of the removed
    /// step. So the remaining steps keep their order, and for example not more nodes are down at the same time.
    pub(crate) fn remove(&mut self, is_removed: impl Fn(&Step) -> bool) -> Vec<Step> {
        let all = std::mem::take(&mut self.all);
        let (removed, kept): (Vec<Step>, Vec<Step>) = all.into_iter().partition(is_removed);
        self.all = kept;
        let before: BTreeMap<&StepId, &[StepId]> =
            removed.iter().map(|step| (&step.id, step.after.as_slice())).collect();
        for step in &mut self.all {
            if step.after.iter().any(|id| before.contains_key(id)) {
                step.after = remaining(&step.after, &before);
            }
        }
        removed
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Step> {
        self.all.iter_mut()
    }

    pub(crate) fn has(&self, id: &StepId) -> bool {
        self.all.iter().any(|step| step.id == *id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Step> {
        self.all.iter()
    }

    /// The steps, each after all its dependencies. Otherwise the steps are in the order in which they were added.
    pub(crate) fn in_order(self) -> Vec<Step> {
        let known: BTreeSet<StepId> = self.all.iter().map(|step| step.id.clone()).collect();
        let mut open: BTreeMap<usize, Step> = self.all.into_iter().enumerate().collect();
        let mut done: BTreeSet<StepId> = BTreeSet::new();
        let mut ordered = vec![];
        while !open.is_empty() {
            let is_ready =
                |step: &Step| step.after.iter().all(|id| done.contains(id) || !known.contains(id));
            let next = open.iter().find(|(_, step)| is_ready(step)).map(|(at, _)| *at);
            let at = next.expect("invariant: no step waits for itself");
            let step = open.remove(&at).expect("invariant: it was just found");
            done.insert(step.id.clone());
            ordered.push(step);
        }
        ordered
    }
}

/// The dependencies of a step, with each removed step replaced by the dependencies of that step.
fn remaining<'a>(after: &'a [StepId], removed: &BTreeMap<&'a StepId, &'a [StepId]>) -> Vec<StepId> {
    let mut open: Vec<&StepId> = after.iter().collect();
    let mut followed: BTreeSet<&StepId> = BTreeSet::new();
    let mut kept: BTreeSet<&StepId> = BTreeSet::new();
    while let Some(id) = open.pop() {
        match removed.get(id) {
            Some(before) if followed.insert(id) => open.extend(before.iter()),
            Some(_) => {}
            None => {
                kept.insert(id);
            }
        }
    }
    kept.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use super::*;
    use crate::plan::step_kind::{AwaitVip, VipBringer};

    #[test]
    fn steps_keep_their_order_without_the_steps_between_them() {
        let mut graph = StepGraph::default();
        let action = || {
            Action::AwaitVip(AwaitVip {
                address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                port: 6443,
                by: VipBringer::Talos,
                deadline: Duration::from_secs(1),
            })
        };
        let first = graph.add("first", None, [], action());
        let second = graph.add("second", Some("wk-1"), [first], action());
        let third = graph.add("third", Some("wk-1"), [second], action());
        graph.add("last", None, [third], action());
        let removed = graph.remove(|step| step.node.is_some());
        let ids: Vec<&str> = removed.iter().map(|step| step.id.as_str()).collect();
        assert_eq!(ids, ["second", "third"]);
        let left = graph.in_order();
        assert_eq!(left.len(), 2);
        assert_eq!(left[1].after, [StepId::new("first")], "it still waits for the first step");
    }
}

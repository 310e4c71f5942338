//! Collection of steps and their order.

use std::collections::{BTreeMap, BTreeSet};

use super::step::Step;
use super::step_id::StepId;
use super::step_kind::Action;

/// Steps by name. A step on which several steps depend is contained once.
#[derive(Debug, Default)]
pub(crate) struct StepGraph {
    all: Vec<Step>,
}

impl StepGraph {
    /// Adds a step, unless there is one of that name. Returns the name, for steps that depend on it.
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

    /// Adds a dependency to an existing step.
    pub(crate) fn put_behind(&mut self, id: &StepId, before: &StepId) {
        if let Some(step) = self.all.iter_mut().find(|step| step.id == *id) {
            step.after.push(before.clone());
            step.after.sort_unstable();
            step.after.dedup();
        }
    }

    pub(crate) fn has(&self, id: &StepId) -> bool {
        self.all.iter().any(|step| step.id == *id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Step> {
        self.all.iter()
    }

    /// The steps, each after all its dependencies, otherwise in the order in which they were added.
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

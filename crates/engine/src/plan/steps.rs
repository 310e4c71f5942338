//! Steps as they are collected, and the order in which they come out.

use std::collections::{BTreeMap, BTreeSet};

use super::action::Action;
use super::step::{Step, StepId};

/// Steps by their names. What several things need is there once.
#[derive(Debug, Default)]
pub(super) struct Steps {
    all: Vec<Step>,
}

impl Steps {
    /// Adds a step, unless there is one of that name. Returns the name, to be waited for.
    pub(super) fn add(
        &mut self,
        id: impl Into<String>,
        node: Option<&str>,
        after: impl IntoIterator<Item = StepId>,
        action: Action,
    ) -> StepId {
        let id = StepId::new(id);
        if !self.has(&id) {
            let mut after: Vec<StepId> = after.into_iter().collect();
            after.sort_unstable();
            after.dedup();
            self.all.push(Step { id: id.clone(), node: node.map(str::to_owned), action, after });
        }
        id
    }

    /// Lets a step that is there wait for one more.
    pub(super) fn put_behind(&mut self, id: &StepId, before: &StepId) {
        if let Some(step) = self.all.iter_mut().find(|step| step.id == *id) {
            step.after.push(before.clone());
            step.after.sort_unstable();
            step.after.dedup();
        }
    }

    pub(super) fn has(&self, id: &StepId) -> bool {
        self.all.iter().any(|step| step.id == *id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Step> {
        self.all.iter()
    }

    /// The steps, each behind all that it waits for, otherwise in the order in which they were
    /// added.
    pub(super) fn in_order(self) -> Vec<Step> {
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

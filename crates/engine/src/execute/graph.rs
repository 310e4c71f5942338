//! Dependencies of steps. They determine which steps can start. This module uses neither clocks nor async tasks.

use std::collections::{BTreeSet, HashMap};

/// The steps by their index in the plan, and their states.
#[derive(Debug)]
pub(super) struct Graph {
    /// For each step, the steps that it depends on and that have not succeeded yet.
    open: Vec<BTreeSet<usize>>,
    followers: Vec<Vec<usize>>,
    state: Vec<StepState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepState {
    Waiting,
    Taken,
    Ended,
}

impl Graph {
    /// `steps` contains the name of each step and the names of the steps that it depends on.
    ///
    /// A dependency that is not in `steps` counts as done, because a plan contains only the remaining steps.
    pub(super) fn new<'a, N: Eq + std::hash::Hash + 'a>(
        steps: impl Iterator<Item = (&'a N, &'a [N])> + Clone,
    ) -> Self {
        let number: HashMap<&N, usize> =
            steps.clone().enumerate().map(|(number, (name, _))| (name, number)).collect();
        let mut open = vec![];
        let mut followers = vec![vec![]; number.len()];
        for (step, (_, after)) in steps.enumerate() {
            let before: BTreeSet<usize> =
                after.iter().filter_map(|name| number.get(name).copied()).collect();
            for &before in &before {
                followers[before].push(step);
            }
            open.push(before);
        }
        let state = vec![StepState::Waiting; open.len()];
        Self { open, followers, state }
    }

    /// The next step without unfinished dependencies, in the order of the plan. The returned step counts as started.
    pub(super) fn take(&mut self) -> Option<usize> {
        let is_ready =
            |&step: &usize| self.state[step] == StepState::Waiting && self.open[step].is_empty();
        let step = (0..self.state.len()).find(is_ready)?;
        self.state[step] = StepState::Taken;
        Some(step)
    }

    pub(super) fn succeeded(&mut self, step: usize) {
        self.state[step] = StepState::Ended;
        for &follower in &self.followers[step] {
            self.open[follower].remove(&step);
        }
    }

    /// Marks a step as failed. Returns the steps that are skipped as a result, each with its dependency that failed or
    /// was skipped.
    pub(super) fn failed(&mut self, step: usize) -> Vec<(usize, usize)> {
        self.state[step] = StepState::Ended;
        let mut blocked = vec![];
        let mut causes = vec![step];
        while let Some(cause) = causes.pop() {
            for &follower in &self.followers[cause] {
                if self.state[follower] == StepState::Waiting {
                    self.state[follower] = StepState::Ended;
                    blocked.push((follower, cause));
                    causes.push(follower);
                }
            }
        }
        blocked
    }

    /// Marks all steps that were not started as ended, and returns them.
    pub(super) fn give_up(&mut self) -> Vec<usize> {
        let waiting: Vec<usize> =
            (0..self.state.len()).filter(|&step| self.state[step] == StepState::Waiting).collect();
        for &step in &waiting {
            self.state[step] = StepState::Ended;
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(steps: &[(&'static str, Vec<&'static str>)]) -> Graph {
        Graph::new(steps.iter().map(|(name, after)| (name, after.as_slice())))
    }

    #[test]
    fn steps_follow_those_before_them() {
        let mut graph =
            graph(&[("a", vec![]), ("b", vec!["a"]), ("c", vec!["gone"]), ("d", vec!["b", "c"])]);
        assert_eq!((graph.take(), graph.take(), graph.take()), (Some(0), Some(2), None));
        graph.succeeded(2);
        assert_eq!(graph.take(), None);
        graph.succeeded(0);
        assert_eq!((graph.take(), graph.take()), (Some(1), None));
        graph.succeeded(1);
        assert_eq!(graph.take(), Some(3));
    }

    #[test]
    fn a_failure_skips_only_the_dependent_steps() {
        let mut graph = graph(&[
            ("a", vec![]),
            ("b", vec!["a"]),
            ("c", vec!["b"]),
            ("x", vec![]),
            ("y", vec!["x", "c"]),
            ("z", vec!["x"]),
        ]);
        assert_eq!((graph.take(), graph.take()), (Some(0), Some(3)));
        assert_eq!(graph.failed(0), [(1, 0), (2, 1), (4, 2)]);
        graph.succeeded(3);
        assert_eq!((graph.take(), graph.take()), (Some(5), None));
    }

    #[test]
    fn giving_up_leaves_what_runs() {
        let mut graph = graph(&[("a", vec![]), ("b", vec!["a"]), ("c", vec![])]);
        graph.take();
        assert_eq!(graph.give_up(), [1, 2]);
        graph.succeeded(0);
        assert_eq!(graph.take(), None);
    }
}

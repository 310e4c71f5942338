use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Running and finished tasks, by UPID.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Tasks {
    by_upid: BTreeMap<String, Task>,
    /// Number of tasks that were ever started. Process ids and start times are derived from it.
    started: u64,
}

/// Task of a host with its log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    pub node: String,
    pub pid: u32,
    pub pstart: u64,
    /// Start time in seconds since 1970.
    pub started: u64,
    pub kind: String,
    /// Object of the task: a vmid, a file name, or empty.
    pub id: String,
    /// User or token that started the task.
    pub owner: String,
    pub log: Vec<String>,
    pub state: TaskState,
}

/// State of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    Running {
        /// Whether the task was requested to stop.
        interrupted: bool,
    },
    Stopped {
        /// Exit status: `OK`, `WARNINGS: n`, or the error.
        exit: String,
        ended: u64,
    },
}

impl Task {
    pub(crate) fn upid(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, pid, pstart, started, kind, id, owner, .. } = self;
        write!(f, "UPID:{node}:{pid:08X}:{pstart:08X}:{started:08X}:{kind}:{id}:{owner}:")
    }
}

impl Tasks {
    /// Adds a new task and returns its UPID.
    pub(crate) fn begin(
        &mut self,
        node: &str,
        kind: &str,
        id: &str,
        owner: &str,
        now: u64,
    ) -> String {
        self.started += 1;
        let nth = self.started;
        let task = Task {
            node: node.to_owned(),
            pid: 1000 + u32::try_from(nth % 4_000_000).unwrap_or_default(),
            pstart: 100_000 + nth * 100,
            started: now,
            kind: kind.to_owned(),
            id: id.to_owned(),
            owner: owner.to_owned(),
            log: vec![],
            state: TaskState::Running { interrupted: false },
        };
        let upid = task.upid();
        self.by_upid.insert(upid.clone(), task);
        upid
    }

    /// Removes a task that could not be started.
    pub(crate) fn remove(&mut self, upid: &str) {
        self.by_upid.remove(upid);
    }

    pub(crate) fn get(&self, upid: &str) -> Option<&Task> {
        self.by_upid.get(upid)
    }

    pub(crate) fn get_mut(&mut self, upid: &str) -> Option<&mut Task> {
        self.by_upid.get_mut(upid)
    }

    /// Ends all running tasks with an unknown status and without a final log line, as a power failure does.
    pub fn end_running(&mut self, now: u64) {
        for task in self.by_upid.values_mut() {
            if matches!(task.state, TaskState::Running { .. }) {
                let exit = "unexpected status".to_owned();
                task.state = TaskState::Stopped { exit, ended: now };
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.by_upid.values()
    }
}

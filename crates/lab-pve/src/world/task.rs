use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What runs and what ran, by UPID.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Tasks {
    by_upid: BTreeMap<String, Task>,
    /// How many were ever started: process ids and start times are made of it.
    started: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    pub node: String,
    pub pid: u32,
    pub pstart: u64,
    /// In seconds since 1970.
    pub started: u64,
    pub kind: String,
    /// What it works on: a vmid, a file name, or nothing.
    pub id: String,
    /// A user or a token.
    pub owner: String,
    pub log: Vec<String>,
    pub state: TaskState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    Running {
        /// Somebody asked it to stop.
        interrupted: bool,
    },
    Stopped {
        /// `OK`, `WARNINGS: n`, or what went wrong.
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
    /// Writes down a task that begins now, and gives its UPID.
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

    /// Takes back a task that was never started.
    pub(crate) fn forget(&mut self, upid: &str) {
        self.by_upid.remove(upid);
    }

    pub(crate) fn get(&self, upid: &str) -> Option<&Task> {
        self.by_upid.get(upid)
    }

    pub(crate) fn get_mut(&mut self, upid: &str) -> Option<&mut Task> {
        self.by_upid.get_mut(upid)
    }

    /// What ran when the power went has ended without a last line in its log.
    pub fn break_off(&mut self, now: u64) {
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

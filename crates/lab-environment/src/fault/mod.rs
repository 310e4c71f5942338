//! Faults on order: which calls, tasks, requests and boots go wrong, when, and how.
//!
//! A rule looks at one kind of thing that happens (see [`When`]) and counts what it fits. From the `nth` on,
//! `times` times, it acts. The counters are all the state there is, so the same calls meet the same faults
//! again. What happens to a node as a whole is for whoever plays nodes to carry out.

mod node;
mod rules;
mod when;

use std::time::Duration;

pub use node::{Disguise, NodeAction, Who};
pub use rules::{Faults, Order, Seen};
use tonic::Code;
pub use when::{Boot, BootSight, Machine, PathPattern, Place, Sight, When, is_method};

/// One rule.
#[derive(Clone, Debug)]
pub struct Fault {
    pub when: When,
    /// The first that fits and that it acts on, counted from 1.
    pub nth: u64,
    /// How many of them, `None` for all that follow.
    pub times: Option<u64>,
    pub action: Action,
    /// The file and line that it was read from.
    pub written: Option<String>,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The call is refused, and nothing is done.
    Refuse { status: u16, message: String },
    /// The same, for calls of the Talos API.
    RefuseCall { code: Code, message: String },
    /// The call or task takes this much longer.
    Delay(Duration),
    /// The connection breaks before anything is done.
    CutBefore,
    /// The connection breaks after all is done.
    CutAfter,
    /// Nothing is done, and there is never an answer.
    Hang,
    /// All is done, but another host's answer came too late: 596.
    TimedOut,
    /// The task fails after so many percent of its first wait; at 100 when all is done.
    Fail { percent: u8, message: String },
    /// The host cannot start the task's process. What the call did before stays, and there is no task.
    Unstarted,
    /// Nothing more fits on this storage.
    Full { storage: String },
    /// The lock file of the VM cannot be had.
    LostLock,
    /// A host is switched off, for some time or for good.
    Down { host: String, lasts: Option<Duration> },
    /// An API token is taken away.
    Revoke { token: String },
    /// The factory's answer breaks off after so many percent of it.
    Truncate { percent: u8 },
    /// Something happens to a node, or between nodes.
    Node(NodeAction),
}

impl Fault {
    /// Acts once, on the first that fits.
    pub fn new(when: When, action: Action) -> Self {
        Self { when, nth: 1, times: Some(1), action, written: None }
    }
}

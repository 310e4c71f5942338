//! Injected faults: rules that make calls, tasks, requests and boots fail.
//!
//! A rule matches one kind of event (see [`When`]) and counts its matches. From the `nth` match on, the rule acts on `times`
//! matches. Rules have no other state, so the same sequence of calls always gets the same faults. The simulation of the nodes
//! applies the faults that affect a whole node.

mod node;
mod rules;
mod when;

use std::time::Duration;

pub use node::{ImpostorKind, NodeAction, TargetNode};
pub use rules::{Faults, MatchCount, ScheduledFault};
use tonic::Code;
pub use when::{Boot, BootFacts, EventSource, FaultEvent, NodeNames, PathPattern, When, is_method};

/// Rule that injects a fault into a lab.
#[derive(Clone, Debug)]
pub struct Fault {
    pub when: When,
    /// First match that the rule acts on, counted from 1.
    pub nth: u64,
    /// Number of matches that the rule acts on; `None` for no limit.
    pub times: Option<u64>,
    pub action: Action,
    /// File and line of the rule, as `path:line`; `None` for a rule that was not read from a file.
    pub written: Option<String>,
}

/// Effect of an injected fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The call is rejected and has no effect.
    Reject { status: u16, message: String },
    /// A call of the Talos API is rejected and has no effect.
    RejectCall { code: Code, message: String },
    /// The call or the task takes this much longer.
    Delay(Duration),
    /// The connection closes before the call has an effect.
    CutBefore,
    /// The connection closes after the call took effect.
    CutAfter,
    /// The call has no effect and is never answered.
    Hang,
    /// The call takes effect, but the host that forwards the call does not get the answer of the other host in time. The client
    /// gets status 596.
    TimedOut,
    /// The task fails after this percentage of its first wait. With 100, the task fails at its end, after it took effect.
    Fail { percent: u8, message: String },
    /// The host cannot start the process of the task, so no task exists. Changes that the call made before the start remain.
    Unstarted,
    /// The storage has no free space.
    Full { storage: String },
    /// The lock file of the VM cannot be locked before the timeout.
    LostLock,
    /// A host is switched off, for some time or permanently.
    Down { host: String, lasts: Option<Duration> },
    /// An API token of Proxmox is deleted.
    Revoke { token: String },
    /// The answer of the Image Factory ends after this percentage of its length.
    Truncate { percent: u8 },
    /// Fault of a whole node, or between nodes.
    Node(NodeAction),
}

impl Fault {
    /// Creates a rule that acts only on its first match.
    pub fn new(when: When, action: Action) -> Self {
        Self { when, nth: 1, times: Some(1), action, written: None }
    }
}

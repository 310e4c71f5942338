//! Faults of whole nodes.

use std::time::Duration;

/// Fault of a node, or between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAction {
    /// The kernel panics: the machine does not answer for a while, then it reboots.
    Crash(TargetNode),
    /// The machine loses power and stays off.
    Unplug(TargetNode),
    /// The machine hangs: it accepts connections but does not answer. Only a reset ends this fault.
    Freeze(TargetNode),
    /// The disk is full: etcd raises an alarm and images cannot be pulled, until the next boot.
    Fill(TargetNode),
    /// Every operation of etcd takes this much longer, until the next boot.
    Slow(TargetNode, Duration),
    /// At a boot: the clock is off by this many seconds until it is synchronized.
    Clock(i64),
    /// At a boot without a config on the disk: `true` makes the machine stall, `false` prevents a random stall. A stalled
    /// machine has its address, but opens no port until it is reset.
    Stall(bool),
    /// At the first boot after an upgrade: the new Talos version does not start, and the machine boots the old version.
    Revert,
    /// Nodes in different groups cannot reach each other. Nodes that are in no group form one further group.
    Partition { groups: Vec<Vec<String>>, lasts: Option<Duration> },
    /// Ends all network partitions between nodes.
    Heal,
    /// Another server answers on the address of a node.
    Impostor { at: String, kind: ImpostorKind, lasts: Option<Duration> },
}

/// Target node of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetNode {
    /// Node of the event that the fault rule matched.
    This,
    /// Node by the name of its VM, its vmid, or an address.
    Named(String),
}

/// Server that answers in place of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImpostorKind {
    /// Machine in maintenance mode with another UUID.
    Maintenance,
    /// Talos node of another cluster.
    Talos,
    /// TLS server that does not speak gRPC.
    Tls,
    /// TCP server that does not speak TLS.
    Tcp,
    /// TCP server that sends nothing.
    Silent,
}

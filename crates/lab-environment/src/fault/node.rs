//! What can happen to nodes as a whole.

use std::time::Duration;

/// Something that happens to a node, or between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAction {
    /// The kernel panics: the machine is silent for a while, then it boots anew.
    Crash(Who),
    /// It loses its power, and stays off.
    Unplug(Who),
    /// It stands still: connections are taken, and nothing is said. Only a reset helps.
    Freeze(Who),
    /// Its disk is full: etcd raises an alarm, images cannot be pulled. Until it boots anew.
    Fill(Who),
    /// All that its etcd does takes this much longer. Until it boots anew.
    Slow(Who, Duration),
    /// At a boot: its clock is off by so many seconds until it is in sync.
    Clock(i64),
    /// At a boot without a config on its disk: whether the machine stalls. Then its address is up, and no port is opened until
    /// it is reset. False keeps boots from stalling by chance.
    Stall(bool),
    /// At the first boot after an upgrade: what was installed does not come up, and the old one does.
    Revert,
    /// Nodes of different groups do not hear each other. Those that no group names are one more.
    Partition { groups: Vec<Vec<String>>, lasts: Option<Duration> },
    /// All nodes hear each other again.
    Heal,
    /// Something else answers on a node's address.
    Impostor { at: String, disguise: Disguise, lasts: Option<Duration> },
}

/// To whom it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The node that the rule found.
    This,
    /// By the name of the VM, its id, or an address.
    Named(String),
}

/// What an impostor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disguise {
    /// A machine in maintenance mode, with a UUID of its own.
    Maintenance,
    /// A node of another cluster.
    Talos,
    /// A server that speaks TLS, and then not what is expected of it.
    Tls,
    /// A server that does not even speak TLS.
    Tcp,
    /// One that takes connections and says nothing.
    Silent,
}

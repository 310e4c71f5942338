//! What goes wrong with nodes, by script.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is wrong with one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The address is up, and then nothing: no maintenance, until the machine is reset.
    Stall,
    /// It boots, and boots again.
    RebootLoop,
    /// Its clock is off by so many seconds until it is in sync.
    ClockSkew(i64),
    /// Everything that etcd does takes its time.
    SlowEtcd,
    /// Its disk is full: etcd raises an alarm, images cannot be pulled.
    DiskFull,
    /// What is installed by an upgrade does not boot: the old one comes back.
    BadUpgrade,
    /// The Talos API takes connections and says nothing.
    Hang,
}

/// A trouble, whose it is, and how often it strikes.
#[derive(Clone, Debug)]
pub struct NodeFault {
    /// The name of the VM, or its id.
    pub node: String,
    pub trouble: Trouble,
    /// None: always.
    pub times: Option<u32>,
}

/// All troubles that nodes have.
#[derive(Debug, Default)]
pub(crate) struct Troubles(Mutex<Vec<NodeFault>>);

impl Troubles {
    pub(crate) fn add(&self, fault: NodeFault) {
        self.locked().push(fault);
    }

    /// Takes all troubles of a node away.
    pub(crate) fn cure(&self, node: &str) {
        self.locked().retain(|fault| fault.node != node);
    }

    /// What troubles a node now.
    pub(crate) fn of(&self, vmid: u32, name: &str) -> Vec<Trouble> {
        let all = self.locked();
        let own = all.iter().filter(|fault| fault.concerns(vmid, name) && fault.times != Some(0));
        own.map(|fault| fault.trouble.clone()).collect()
    }

    /// Whether this trouble strikes now; if so, it has one time less.
    pub(crate) fn strike(&self, vmid: u32, name: &str, trouble: &Trouble) -> bool {
        let mut all = self.locked();
        let mut own =
            all.iter_mut().filter(|fault| fault.concerns(vmid, name) && fault.trouble == *trouble);
        let Some(fault) = own.find(|fault| fault.times != Some(0)) else { return false };
        if let Some(times) = &mut fault.times {
            *times -= 1;
        }
        true
    }

    fn locked(&self) -> MutexGuard<'_, Vec<NodeFault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeFault {
    fn concerns(&self, vmid: u32, name: &str) -> bool {
        self.node == name || self.node == vmid.to_string()
    }
}

//! Checks of the invariants, with the state that the checks keep between two changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use talmox_lab_pve::pve_state::{Caller, Config, PveState, Vm};
use talmox_lab_talos::{EtcdFacts, MemberFacts, NodeFacts, StateFacts};

use super::{Violation, Watched};

/// State that the checks compare with the next change.
pub(super) struct Checks {
    watched: Watched,
    foreign: BTreeMap<u32, ForeignVm>,
    /// All VMs, and whether each runs.
    vms: BTreeMap<u32, bool>,
    etcds: BTreeMap<u64, KnownEtcd>,
    /// VMs that a user or a fault stopped, each with whether its etcd member was observed down since.
    expected_down: BTreeMap<u32, bool>,
    /// First observed value of each secret, by cluster name and name of the secret.
    secrets: BTreeMap<(String, &'static str), String>,
    /// VMs and secrets whose change is reported. The host name of a node can change while it boots.
    changed_secrets: BTreeSet<(u32, &'static str)>,
    /// Addresses that several machines have now.
    shared_addresses: BTreeSet<IpAddr>,
    violations: Vec<Violation>,
}

/// Properties of a foreign VM that must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ForeignVm {
    node: String,
    config: Config,
    pending: Config,
    snapshots: BTreeSet<String>,
    is_running: bool,
    is_paused: bool,
}

#[derive(Debug, Default)]
struct KnownEtcd {
    had_quorum: bool,
    members: Vec<MemberFacts>,
    /// Ids of the members that ran at least once.
    was_up: BTreeSet<u64>,
    /// Names of the control planes that were reported as down at the same time.
    reported_down: BTreeSet<String>,
}

impl ForeignVm {
    fn of(vm: &Vm) -> Self {
        Self {
            node: vm.node.clone(),
            config: vm.config.clone(),
            pending: vm.pending.clone(),
            snapshots: vm.snapshots.keys().cloned().collect(),
            is_running: vm.is_running(),
            is_paused: vm.run.as_ref().is_some_and(|run| run.paused),
        }
    }
}

impl Checks {
    pub(super) fn new(watched: Watched, pve_state: &PveState) -> Self {
        let is_foreign = |(vmid, _): &(&u32, &Vm)| watched.foreign.contains(*vmid);
        let foreign = pve_state.vms.iter().filter(is_foreign);
        Self {
            foreign: foreign.map(|(vmid, vm)| (*vmid, ForeignVm::of(vm))).collect(),
            vms: running_vms(pve_state),
            etcds: BTreeMap::new(),
            expected_down: BTreeMap::new(),
            secrets: BTreeMap::new(),
            changed_secrets: BTreeSet::new(),
            shared_addresses: BTreeSet::new(),
            violations: vec![],
            watched,
        }
    }

    pub(super) fn add(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    pub(super) fn expect_down(&mut self, vmid: u32) {
        self.expected_down.entry(vmid).or_default();
    }

    /// Checks a change of the simulated Proxmox that `caller` made.
    pub(super) fn check_pve_state(&mut self, pve_state: &PveState, caller: Option<&Caller>) {
        let caller = caller.map(ToString::to_string);
        let (token, is_user) = match caller {
            Some(caller) if self.watched.tokens.contains(&caller) => (Some(caller), false),
            Some(_) => (None, true),
            None => (None, false),
        };
        self.check_foreign_vms(pve_state, token.as_deref());
        let now = running_vms(pve_state);
        for (vmid, was_running) in std::mem::take(&mut self.vms) {
            let is_running = now.get(&vmid).copied();
            if is_user && (is_running.is_none() || (was_running && is_running == Some(false))) {
                self.expect_down(vmid);
            }
            if let (None, Some(token)) = (is_running, &token) {
                self.check_deleted_vm(vmid, token);
            }
        }
        self.vms = now;
    }

    fn check_foreign_vms(&mut self, pve_state: &PveState, token: Option<&str>) {
        let Self { foreign, violations, .. } = self;
        foreign.retain(|vmid, known| {
            let now = pve_state.vms.get(vmid).map(ForeignVm::of);
            if now.as_ref() != Some(&*known)
                && let Some(token) = token
            {
                let token = token.to_owned();
                violations.push(Violation::ForeignVmChanged { vmid: *vmid, token });
            }
            match now {
                Some(now) => {
                    *known = now;
                    true
                }
                None => false,
            }
        });
    }

    /// Checks the deletion of a VM. The etcd member on the VM must have left the cluster before, unless it was the last member.
    fn check_deleted_vm(&mut self, vmid: u32, token: &str) {
        let Self { etcds, violations, .. } = self;
        for etcd in etcds.values().filter(|etcd| etcd.members.len() > 1) {
            for member in etcd.members.iter().filter(|member| member.vmid == vmid) {
                violations.push(Violation::MemberDeleted {
                    vmid,
                    member: member.name.clone(),
                    token: token.to_owned(),
                });
            }
        }
    }

    /// Checks a change of the simulated nodes. Returns the ids of the new etcd clusters.
    pub(super) fn check_state(&mut self, facts: &StateFacts) -> BTreeSet<u64> {
        self.check_addresses(&facts.nodes);
        for node in &facts.nodes {
            self.check_secrets(node);
        }
        let mut new = BTreeSet::new();
        for etcd in &facts.etcds {
            if !self.etcds.contains_key(&etcd.id) {
                new.insert(etcd.id);
            }
            self.check_etcd(etcd);
        }
        new
    }

    fn check_addresses(&mut self, nodes: &[NodeFacts]) {
        let mut machines: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
        for node in nodes {
            let own: BTreeSet<IpAddr> = node.addresses.iter().copied().collect();
            for address in own.into_iter().filter(|address| !address.is_loopback()) {
                let machine = format!("{} (VM {})", node.hostname, node.vmid);
                machines.entry(address).or_default().push(machine);
            }
        }
        machines.retain(|_, machines| machines.len() > 1);
        let before = std::mem::take(&mut self.shared_addresses);
        self.shared_addresses = machines.keys().copied().collect();
        for (address, machines) in machines {
            if !before.contains(&address) {
                self.add(Violation::AddressShared { address, machines });
            }
        }
    }

    fn check_secrets(&mut self, node: &NodeFacts) {
        let Some(cluster) = node.cluster_name() else { return };
        for (secret, value) in node.secrets() {
            let key = (cluster.to_owned(), secret);
            let known = self.secrets.entry(key).or_insert_with(|| value.to_owned());
            if known != value && self.changed_secrets.insert((node.vmid, secret)) {
                self.add(Violation::SecretChanged { node: node.hostname.clone(), secret });
            }
        }
    }

    fn check_etcd(&mut self, etcd: &EtcdFacts) {
        let Self { etcds, expected_down, violations, .. } = self;
        let known = etcds.entry(etcd.id).or_default();
        for member in &etcd.members {
            if member.is_up {
                known.was_up.insert(member.id);
            }
            match expected_down.get_mut(&member.vmid) {
                Some(was_down) if !member.is_up => *was_down = true,
                Some(true) => {
                    expected_down.remove(&member.vmid);
                }
                _ => {}
            }
        }
        let voters: Vec<&MemberFacts> =
            etcd.members.iter().filter(|member| !member.is_learner).collect();
        let down: Vec<&MemberFacts> = voters
            .iter()
            .copied()
            .filter(|voter| !voter.is_up && known.was_up.contains(&voter.id))
            .collect();
        let (excused, own): (Vec<&MemberFacts>, Vec<&MemberFacts>) =
            down.iter().copied().partition(|voter| expected_down.contains_key(&voter.vmid));
        let majority = voters.len() / 2 + 1;
        // The restart of a single voter always interrupts etcd, and a user may stop a majority on purpose.
        let can_have_quorum = voters.len() > 1 && voters.len() - excused.len() >= majority;
        if known.had_quorum && !etcd.has_quorum && can_have_quorum {
            let mut down: Vec<String> = down.iter().map(|voter| voter.name.clone()).collect();
            down.sort();
            violations.push(Violation::QuorumLost { down });
        }
        known.had_quorum = etcd.has_quorum;
        let names: BTreeSet<String> = own.iter().map(|voter| voter.name.clone()).collect();
        if names.len() > 1 && !names.is_subset(&known.reported_down) {
            let names = names.iter().cloned().collect();
            violations.push(Violation::ControlPlanesDown { names });
        }
        known.reported_down = if names.len() > 1 { names } else { BTreeSet::new() };
        known.members.clone_from(&etcd.members);
    }
}

/// Omits the secrets.
impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks").field("violations", &self.violations).finish_non_exhaustive()
    }
}

/// All VMs, and whether each runs.
fn running_vms(pve_state: &PveState) -> BTreeMap<u32, bool> {
    pve_state.vms.iter().map(|(vmid, vm)| (*vmid, vm.is_running())).collect()
}

//! Inventory of the cluster.

use talmox_clock::Chance;

use super::machine::{BRIDGES, MAX_NUMBER, Machine, Nic};
use crate::chaos::pick;

pub(super) const MAX_WORKERS: usize = 4;

#[derive(Clone)]
pub(super) struct Cluster {
    /// How machines get their first config. It also decides whether a machine is replaced if its address changes.
    boot: &'static str,
    pub(super) control_planes: Vec<Machine>,
    pub(super) workers: Vec<Machine>,
    /// Number of the machine that was added last. A number is used again only after all others.
    last: u64,
}

impl Cluster {
    pub(super) fn draw(chance: &mut Chance) -> Self {
        let count = if chance.below(2) == 0 { 1 } else { 3 };
        let boot = pick(chance, &["cidata", "cloudinit"]);
        let mut cluster = Self { boot, control_planes: vec![], workers: vec![], last: 0 };
        for _ in 0..count {
            let plane = cluster.fresh("cp");
            cluster.control_planes.push(plane);
        }
        for _ in 0..2 {
            let worker = cluster.fresh("wk");
            cluster.workers.push(worker);
        }
        cluster
    }

    /// Inventory that names every host and every bridge. The lab is created from it.
    pub(super) fn site() -> Self {
        let nic = |bridge: &'static str| Some(Nic { bridge, vlan: None });
        let machine = |number: u64| Machine { nic: nic(BRIDGES[1]), ..Machine::new("cp", number) };
        let control_planes = (1..=3).map(machine).collect();
        Self { boot: "cidata", control_planes, workers: vec![], last: 3 }
    }

    /// New machine with a number that no other machine has.
    pub(super) fn fresh(&mut self, kind: &str) -> Machine {
        loop {
            self.last = self.last % MAX_NUMBER + 1;
            if self.machines().all(|machine| machine.number != self.last) {
                return Machine::new(kind, self.last);
            }
        }
    }

    pub(super) fn machines(&self) -> impl Iterator<Item = &Machine> {
        self.control_planes.iter().chain(&self.workers)
    }

    /// A random machine.
    pub(super) fn any(&mut self, chance: &mut Chance) -> &mut Machine {
        let nth = index(chance, self.control_planes.len() + self.workers.len());
        let mut all = self.control_planes.iter_mut().chain(&mut self.workers);
        all.nth(nth).expect("an index of the list")
    }

    /// A random worker.
    pub(super) fn worker(&mut self, chance: &mut Chance) -> &mut Machine {
        let nth = index(chance, self.workers.len());
        &mut self.workers[nth]
    }

    /// Random machine that may be unavailable for a while: a worker, or a control plane if there are more than two.
    pub(super) fn dispensable(&self, chance: &mut Chance) -> &Machine {
        let planes = if self.control_planes.len() > 2 { &self.control_planes[..] } else { &[] };
        // Workers are twice as likely as control planes.
        let from =
            if chance.below(3) == 0 && !planes.is_empty() { planes } else { &self.workers[..] };
        &from[index(chance, from.len())]
    }

    pub(super) fn to_yaml(&self) -> String {
        let nodes =
            |machines: &[Machine]| machines.iter().map(Machine::to_yaml).collect::<String>();
        let workers = nodes(&self.workers);
        let workers =
            if workers.is_empty() { String::new() } else { format!("workers:\n{workers}") };
        format!(
            "cluster_name: walk\ntalos_version: v1.13.6\nkubernetes_version: v1.35.0\nboot: {}\n\
             network: {{subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [10.0.0.1], vip: 10.0.0.250}}\n\
             proxmox: {{endpoint: \"https://pve1:8006\", token: {{env: PROXMOX_TOKEN}}, datastore: local-lvm, \
             image_datastore: local, bridge: {}}}\n\
             timeouts: {{task: 5m, image: 5m, boot: 6m, bootstrap: 6m, health: 6m}}\n\
             controlplane:\n{}{workers}",
            self.boot,
            BRIDGES[0],
            nodes(&self.control_planes),
        )
    }
}

/// A random index of a list with this length.
pub(super) fn index(chance: &mut Chance, count: usize) -> usize {
    let count = u64::try_from(count).expect("a short list");
    usize::try_from(chance.below(count)).expect("an index of the list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_only_after_all_others() {
        let mut cluster = Cluster::draw(&mut Chance::new(1));
        let taken: Vec<u64> = cluster.machines().map(|machine| machine.number).collect();
        let free = usize::try_from(MAX_NUMBER).unwrap() - taken.len();
        let fresh: Vec<u64> = (0..free).map(|_| cluster.fresh("wk").number).collect();
        assert!(fresh.iter().all(|number| !taken.contains(number)), "{fresh:?}");
        let again = cluster.fresh("wk").number;
        assert_eq!(again, fresh[0]);
    }
}

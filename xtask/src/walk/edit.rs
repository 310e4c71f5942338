//! Random edits of the inventory.

use talmox_clock::Chance;

use super::cluster::{Cluster, MAX_WORKERS, index};
use super::machine::{BRIDGES, Machine, Nic};
use crate::chaos::HOSTS;

/// Number of GiB that a disk grows at a time, and maximum size of a system disk.
const GROWTH: u64 = 5;
const MAX_DISK: u64 = 60;
/// Size of a further disk in GiB, and maximum number of further disks.
const FURTHER_DISK: u64 = 10;
const MAX_FURTHER_DISKS: usize = 2;
const COLORS: [&str; 3] = ["red", "green", "blue"];
const VLANS: [Option<u64>; 3] = [None, Some(10), Some(20)];
/// One of so many changes consists of two or three edits.
const COMBINED: u64 = 4;

impl Cluster {
    /// Makes a random change of one to three edits, and returns its description. At most one of the edits changes the
    /// control planes.
    pub(super) fn edit(&mut self, chance: &mut Chance) -> String {
        let count = if chance.below(COMBINED) == 0 { 2 + chance.below(2) } else { 1 };
        let mut edits = vec![];
        let mut may_change_planes = true;
        for _ in 0..count {
            edits.push(match chance.below(8) {
                0 if may_change_planes => {
                    may_change_planes = false;
                    self.edit_control_planes(chance)
                }
                0 | 1 => self.edit_workers(chance),
                2 => self.edit_network(chance),
                3 => self.edit_disks(chance),
                _ => self.edit_machine(chance),
            });
        }
        edits.join(", and ")
    }

    /// Changes the number of control planes to one or three: by adding or removing machines, or by another role of machines.
    fn edit_control_planes(&mut self, chance: &mut Chance) -> String {
        let by_role = chance.below(2) == 0;
        if self.control_planes.len() == 1 {
            if by_role && self.workers.len() > 2 {
                let promoted = self.workers.split_off(self.workers.len() - 2);
                let change = format!("{} become control planes", names(&promoted));
                self.control_planes.extend(promoted);
                return change;
            }
            let added = [self.fresh("cp"), self.fresh("cp")];
            let change = format!("add the control planes {}", names(&added));
            self.control_planes.extend(added);
            return change;
        }
        let removed = self.control_planes.split_off(1);
        if by_role && self.workers.len() + removed.len() <= MAX_WORKERS {
            let change = format!("{} become workers", names(&removed));
            self.workers.extend(removed);
            return change;
        }
        format!("remove the control planes {}", names(&removed))
    }

    /// Adds or removes a worker, or changes the memory of all workers.
    fn edit_workers(&mut self, chance: &mut Chance) -> String {
        match chance.below(3) {
            0 if self.workers.len() < MAX_WORKERS => {
                let worker = self.fresh("wk");
                let change = format!("add {}", worker.name);
                self.workers.push(worker);
                change
            }
            1 if self.workers.len() > 1 => {
                let removed = self.workers.remove(index(chance, self.workers.len()));
                format!("remove {}", removed.name)
            }
            _ => {
                let memory = 4096 + 1024 * chance.below(3);
                for worker in &mut self.workers {
                    worker.memory = memory;
                }
                format!("memory of all workers: {memory}")
            }
        }
    }

    /// Changes the address of a worker, or the further network card of a machine.
    fn edit_network(&mut self, chance: &mut Chance) -> String {
        if chance.below(3) == 0 {
            let worker = self.worker(chance);
            worker.has_other_address = !worker.has_other_address;
            return format!("address of {}: 10.0.0.{}", worker.name, worker.address());
        }
        let bridge = BRIDGES[index(chance, BRIDGES.len())];
        let vlan = VLANS[index(chance, VLANS.len())];
        let machine = self.any(chance);
        machine.nic = Some(Nic { bridge, vlan });
        format!("network card of {}: {bridge}, VLAN {vlan:?}", machine.name)
    }

    /// Adds a disk to a machine, or lets its system disk grow.
    fn edit_disks(&mut self, chance: &mut Chance) -> String {
        let adds = chance.below(2) == 0;
        let machine = self.any(chance);
        if adds && machine.further_disks.len() < MAX_FURTHER_DISKS {
            machine.further_disks.push(FURTHER_DISK);
            return format!("disks of {}: {:?}", machine.name, machine.further_disks);
        }
        machine.disk = (machine.disk + GROWTH).min(MAX_DISK);
        format!("disk of {}: {}G", machine.name, machine.disk)
    }

    /// Changes one setting of one machine.
    fn edit_machine(&mut self, chance: &mut Chance) -> String {
        let color = COLORS[index(chance, COLORS.len())];
        let host = HOSTS[index(chance, HOSTS.len())];
        let kind = chance.below(6);
        let machine = self.any(chance);
        let name = &machine.name;
        match kind {
            0 => {
                machine.memory = if machine.memory == 4096 { 6144 } else { 4096 };
                format!("memory of {name}: {}", machine.memory)
            }
            1 => {
                machine.cores = 5 - machine.cores;
                format!("cores of {name}: {}", machine.cores)
            }
            2 => {
                machine.label = Some(color);
                format!("label of {name}: {color}")
            }
            3 => {
                machine.tag = Some(color);
                format!("tag of {name}: {color}")
            }
            4 => {
                machine.ignores_onboot = !machine.ignores_onboot;
                let verb = if machine.ignores_onboot { "accept" } else { "do not accept" };
                format!("{verb} another onboot of {name}")
            }
            _ => {
                machine.host = host;
                format!("host of {name}: {host}")
            }
        }
    }
}

fn names(machines: &[Machine]) -> String {
    machines.iter().map(|machine| machine.name.as_str()).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_keep_a_control_plane_a_worker_and_distinct_machines() {
        let mut chance = Chance::new(1);
        let mut cluster = Cluster::draw(&mut chance);
        let mut seen = String::new();
        for _ in 0..500 {
            let change = cluster.edit(&mut chance);
            assert!(matches!(cluster.control_planes.len(), 1 | 3), "{change}");
            assert!((1..=MAX_WORKERS).contains(&cluster.workers.len()), "{change}");
            let mut parts: Vec<String> = cluster
                .machines()
                .flat_map(|machine| {
                    [machine.name.clone(), machine.vmid.to_string(), machine.address().to_string()]
                })
                .collect();
            let count = parts.len();
            parts.sort_unstable();
            parts.dedup();
            assert_eq!(parts.len(), count, "{change}");
            seen.push_str(&change);
        }
        for kind in [
            "become control planes",
            "become workers",
            "add the control planes",
            "remove the control planes",
            "address of",
            "VLAN Some(10)",
            "disks of",
            "host of",
            "do not accept another onboot",
            ", and ",
        ] {
            assert!(seen.contains(kind), "{kind}");
        }
    }
}

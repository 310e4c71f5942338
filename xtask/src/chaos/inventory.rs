//! Random inventories, and random edits of an inventory.

use talmox_clock::Chance;

pub(crate) const HOSTS: [&str; 3] = ["pve1", "pve2", "pve3"];

#[derive(Clone)]
pub(super) struct Inventory {
    name: &'static str,
    boot: &'static str,
    has_vip: bool,
    control_planes: Vec<Entry>,
    workers: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    name: String,
    address: u64,
    vmid: u64,
    host: &'static str,
}

impl Entry {
    fn new(kind: &str, at: u64, first: u64) -> Self {
        let name = format!("{kind}-{at}");
        Self { name, address: first + at, vmid: 300 + first + at, host: host(at) }
    }
}

impl Inventory {
    /// Random inventory for the cluster under test.
    pub(super) fn draw(chance: &mut Chance) -> Self {
        let count = if chance.below(3) == 0 { 1 } else { 3 };
        Self {
            boot: pick(chance, &["cloudinit", "cidata"]),
            has_vip: chance.below(2) == 0,
            control_planes: (1..=count).map(|at| Entry::new("cp", at, 10)).collect(),
            workers: (1..=chance.below(3)).map(|at| Entry::new("wk", at, 20)).collect(),
            ..Self::site()
        }
    }

    /// Inventory that names every host.
    pub(super) fn site() -> Self {
        let control_planes = (1..=3).map(|at| Entry::new("cp", at, 10)).collect();
        Self { name: "chaos", boot: "cloudinit", has_vip: true, control_planes, workers: vec![] }
    }

    /// Inventory of another cluster on the same hosts. No run may change this cluster. Its nodes have the same names as
    /// those of the cluster under test.
    pub(super) fn foreign_cluster() -> Self {
        let entry = Entry { name: "cp-1".to_owned(), address: 111, vmid: 911, host: HOSTS[0] };
        Self {
            name: "foreign",
            boot: "cloudinit",
            has_vip: false,
            control_planes: vec![entry],
            workers: vec![],
        }
    }

    /// Vmids of all nodes in the inventory.
    pub(super) fn vmids(&self) -> Vec<u64> {
        self.control_planes.iter().chain(&self.workers).map(|entry| entry.vmid).collect()
    }

    /// Same inventory with the control planes in reverse order, so that another control plane is the first.
    pub(super) fn reversed(&self) -> Self {
        let mut reversed = self.clone();
        reversed.control_planes.reverse();
        reversed
    }

    /// Same cluster with other nodes: their names, addresses and vmids differ.
    pub(super) fn with_other_nodes(&self) -> Self {
        let mut other = self.clone();
        for entry in other.control_planes.iter_mut().chain(&mut other.workers) {
            entry.name.insert_str(0, "other-");
            entry.address += 150;
            entry.vmid += 300;
        }
        other
    }

    /// Copy with random edits. The edits are like those that a user makes on purpose or by mistake.
    pub(super) fn edited(&self, chance: &mut Chance) -> Self {
        let mut edited = self.clone();
        for _ in 0..=chance.below(2) {
            edited.edit(chance);
        }
        edited
    }

    fn edit(&mut self, chance: &mut Chance) {
        let shift = 1 + chance.below(40);
        match chance.below(11) {
            0 => self.control_planes.reverse(),
            1 => self.has_vip = !self.has_vip,
            2 => self.control_planes.iter_mut().for_each(|entry| entry.name.insert_str(0, "new-")),
            3 => self.control_planes.iter_mut().for_each(|entry| entry.vmid += 100 + shift),
            4 => self.control_planes.iter_mut().for_each(|entry| entry.address += 100 + shift),
            5 => self
                .control_planes
                .iter_mut()
                .for_each(|entry| entry.host = host(entry.vmid + shift)),
            6 if self.control_planes.len() > 1 => {
                self.control_planes.remove(0);
            }
            7 if !self.workers.is_empty() => {
                self.workers.remove(0);
            }
            // A control plane becomes a worker, with or without a replacement.
            8 if self.control_planes.len() > 1 => {
                let moved = self.control_planes.remove(0);
                self.workers.push(moved);
            }
            9 => {
                let first = 60 + shift;
                let fresh = (1..).zip(&self.control_planes).map(|(nth, old)| Entry {
                    name: format!("next-{}", old.name),
                    address: first + nth,
                    vmid: 400 + first + nth,
                    host: old.host,
                });
                let fresh = fresh.collect();
                let moved = std::mem::replace(&mut self.control_planes, fresh);
                self.workers.extend(moved);
            }
            _ => {
                let (address, vmid) = (60 + shift, 360 + shift);
                let name = format!("wk-{vmid}");
                self.workers.push(Entry { name, address, vmid, host: host(shift) });
            }
        }
    }

    pub(super) fn to_yaml(&self) -> String {
        let vip = if self.has_vip { ", vip: 10.0.0.250" } else { "" };
        let nodes = |entries: &[Entry]| {
            let line = |entry: &Entry| {
                let Entry { name, address, vmid, host } = entry;
                format!("  - {{name: {name}, ip: 10.0.0.{address}, vmid: {vmid}, host: {host}}}\n")
            };
            entries.iter().map(line).collect::<String>()
        };
        let workers = nodes(&self.workers);
        let workers =
            if workers.is_empty() { String::new() } else { format!("workers:\n{workers}") };
        format!(
            "cluster_name: {}\ntalos_version: v1.13.6\nkubernetes_version: v1.35.0\nboot: {}\n\
             network: {{subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [10.0.0.1]{vip}}}\n\
             proxmox: {{endpoint: \"https://pve1:8006\", token: {{env: PROXMOX_TOKEN}}, datastore: local-lvm, \
             image_datastore: local, bridge: vmbr0}}\n\
             machine: {{cores: 2, memory: 4096, disk: 20G}}\n\
             timeouts: {{task: 3m, image: 3m, boot: 4m, bootstrap: 4m, health: 4m}}\n\
             controlplane:\n{}{workers}",
            self.name,
            self.boot,
            nodes(&self.control_planes),
        )
    }
}

fn host(at: u64) -> &'static str {
    HOSTS[usize::try_from(at % 3).expect("at most two")]
}

pub(crate) fn pick<'t, T: ?Sized>(chance: &mut Chance, from: &[&'t T]) -> &'t T {
    let count = u64::try_from(from.len()).expect("a short list");
    from[usize::try_from(chance.below(count)).expect("an index of the list")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_nodes_share_no_identity_with_the_old_ones() {
        let old = Inventory::draw(&mut Chance::new(1));
        let other = old.with_other_nodes();
        let all = |inventory: &Inventory| {
            let entries = inventory.control_planes.iter().chain(&inventory.workers);
            let parts = entries.flat_map(|entry| {
                [entry.name.clone(), entry.address.to_string(), entry.vmid.to_string()]
            });
            parts.collect::<Vec<String>>()
        };
        let (old, other) = (all(&old), all(&other));
        assert_eq!(old.len(), other.len());
        assert!(old.iter().all(|part| !other.contains(part)), "{old:?} {other:?}");
    }
}

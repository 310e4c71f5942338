//! Inventory of the cluster, and random edits of the inventory.

use talmox_clock::Chance;

use crate::chaos::HOSTS;

const MAX_WORKERS: usize = 4;
/// Number of GiB that a disk grows at a time.
const GROWTH: u64 = 5;
const COLORS: [&str; 3] = ["red", "green", "blue"];

#[derive(Clone)]
pub(super) struct Cluster {
    control_planes: Vec<Machine>,
    workers: Vec<Machine>,
    /// Number of the next worker, so that no name is used for two machines.
    next: u64,
}

#[derive(Clone)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) vmid: u64,
    pub(super) host: &'static str,
    address: u64,
    memory: u64,
    cores: u64,
    /// Size of the system disk in GiB.
    disk: u64,
    label: Option<&'static str>,
    tag: Option<&'static str>,
}

impl Machine {
    fn new(kind: &str, number: u64, first: u64) -> Self {
        let hosts = u64::try_from(HOSTS.len()).expect("a short list");
        let host = usize::try_from(number % hosts).expect("an index of the list");
        Self {
            name: format!("{kind}-{number}"),
            vmid: 300 + first + number,
            host: HOSTS[host],
            address: first + number,
            memory: 4096,
            cores: 2,
            disk: 20,
            label: None,
            tag: None,
        }
    }

    fn to_yaml(&self) -> String {
        let Self { name, vmid, host, address, memory, cores, disk, label, tag } = self;
        let label = label.map(|color| format!(", labels: {{color: {color}}}")).unwrap_or_default();
        let tag = tag.map(|color| format!(", tags: [{color}]")).unwrap_or_default();
        format!(
            "  - {{name: {name}, ip: 10.0.0.{address}, vmid: {vmid}, host: {host}, memory: {memory}, \
             cores: {cores}, disk: {disk}G{label}{tag}}}\n"
        )
    }
}

impl Cluster {
    pub(super) fn draw(chance: &mut Chance) -> Self {
        let count = if chance.below(2) == 0 { 1 } else { 3 };
        let control_planes = (1..=count).map(|number| Machine::new("cp", number, 10)).collect();
        let workers = (1..=2).map(|number| Machine::new("wk", number, 20)).collect();
        Self { control_planes, workers, next: 3 }
    }

    /// Inventory that names every host. The lab is created from it.
    pub(super) fn site() -> Self {
        let control_planes = (1..=3).map(|number| Machine::new("cp", number, 10)).collect();
        Self { control_planes, workers: vec![], next: 1 }
    }

    /// A random worker.
    pub(super) fn worker(&self, chance: &mut Chance) -> &Machine {
        &self.workers[index(chance, self.workers.len())]
    }

    /// Random machine that may be unavailable for a while: a worker, or a control plane if there are more than two.
    pub(super) fn dispensable(&self, chance: &mut Chance) -> &Machine {
        if self.control_planes.len() > 2 && chance.below(3) == 0 {
            return &self.control_planes[index(chance, self.control_planes.len())];
        }
        self.worker(chance)
    }

    /// Makes a random edit, and returns its description.
    pub(super) fn edit(&mut self, chance: &mut Chance) -> String {
        match chance.below(9) {
            0 if self.workers.len() < MAX_WORKERS => {
                let worker = Machine::new("wk", self.next, 20);
                self.next += 1;
                let change = format!("add {}", worker.name);
                self.workers.push(worker);
                change
            }
            1 if self.workers.len() > 1 => {
                let removed = self.workers.remove(index(chance, self.workers.len()));
                format!("remove {}", removed.name)
            }
            2 if self.control_planes.len() == 1 => {
                self.control_planes.extend((2..=3).map(|number| Machine::new("cp", number, 10)));
                "three control planes".to_owned()
            }
            2 => {
                self.control_planes.truncate(1);
                "one control plane".to_owned()
            }
            3 => {
                let memory = 4096 + 1024 * chance.below(3);
                for worker in &mut self.workers {
                    worker.memory = memory;
                }
                format!("memory of all workers: {memory}")
            }
            4 => {
                let machine = self.any(chance);
                machine.memory = if machine.memory == 4096 { 6144 } else { 4096 };
                format!("memory of {}: {}", machine.name, machine.memory)
            }
            5 => {
                let machine = self.any(chance);
                machine.cores = 5 - machine.cores;
                format!("cores of {}: {}", machine.name, machine.cores)
            }
            6 => {
                let color = COLORS[index(chance, COLORS.len())];
                let machine = self.any(chance);
                machine.label = Some(color);
                format!("label of {}: {color}", machine.name)
            }
            7 => {
                let color = COLORS[index(chance, COLORS.len())];
                let machine = self.any(chance);
                machine.tag = Some(color);
                format!("tag of {}: {color}", machine.name)
            }
            _ => {
                let machine = self.any(chance);
                machine.disk += GROWTH;
                format!("disk of {}: {}G", machine.name, machine.disk)
            }
        }
    }

    fn any(&mut self, chance: &mut Chance) -> &mut Machine {
        let count = self.control_planes.len() + self.workers.len();
        let nth = index(chance, count);
        let mut all = self.control_planes.iter_mut().chain(&mut self.workers);
        all.nth(nth).expect("an index of the list")
    }

    pub(super) fn to_yaml(&self) -> String {
        let nodes =
            |machines: &[Machine]| machines.iter().map(Machine::to_yaml).collect::<String>();
        let workers = nodes(&self.workers);
        let workers =
            if workers.is_empty() { String::new() } else { format!("workers:\n{workers}") };
        format!(
            "cluster_name: walk\ntalos_version: v1.13.6\nkubernetes_version: v1.35.0\n\
             network: {{subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [10.0.0.1], vip: 10.0.0.250}}\n\
             proxmox: {{endpoint: \"https://pve1:8006\", token: {{env: PROXMOX_TOKEN}}, datastore: local-lvm, \
             image_datastore: local, bridge: vmbr0}}\n\
             timeouts: {{task: 5m, image: 5m, boot: 6m, bootstrap: 6m, health: 6m}}\n\
             controlplane:\n{}{workers}",
            nodes(&self.control_planes),
        )
    }
}

fn index(chance: &mut Chance, count: usize) -> usize {
    let count = u64::try_from(count).expect("a short list");
    usize::try_from(chance.below(count)).expect("an index of the list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_keep_a_control_plane_a_worker_and_distinct_names() {
        let mut chance = Chance::new(1);
        let mut cluster = Cluster::draw(&mut chance);
        for _ in 0..500 {
            let change = cluster.edit(&mut chance);
            assert!(matches!(cluster.control_planes.len(), 1 | 3), "{change}");
            assert!((1..=MAX_WORKERS).contains(&cluster.workers.len()), "{change}");
            let machines = cluster.control_planes.iter().chain(&cluster.workers);
            let mut names: Vec<&str> = machines.map(|machine| machine.name.as_str()).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{change}");
        }
    }
}

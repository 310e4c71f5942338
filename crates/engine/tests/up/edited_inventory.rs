//! Random inventories of three control planes, and random edits by a user between two runs.

use std::fmt::Write as _;

use talmox_clock::Chance;

const HEAD: &str = "
cluster_name: home
talos_version: v1.11.2
proxmox: {endpoint: 'https://pve1:8006', node: pve1, pool: talos, vmid_range: 300-399}
timeouts: {task: 5m, image: 10m, boot: 3m, bootstrap: 5m, health: 4m}
";
const NO_DISCOVERY: &str = "patches: {all: [{cluster: {discovery: {enabled: false}}}]}\n";

/// One entry of an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    /// The last part of the IPv4 address.
    address: u8,
    vmid: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct Inventory {
    has_vip: bool,
    /// Whether nodes find each other through the discovery service. If so, a new control plane joins the existing etcd.
    has_discovery: bool,
    /// Whether the first config comes on a volume, as by default. If so, the config of a VM contains no address.
    has_volume: bool,
    control_planes: Vec<Entry>,
    workers: Vec<Entry>,
}

impl Inventory {
    pub(crate) fn draw(chance: &mut Chance) -> Self {
        let entry = |nth: u8| Entry { name: format!("cp-{nth}"), address: 10 + nth, vmid: None };
        Self {
            has_vip: chance.below(3) == 0,
            has_discovery: chance.below(3) == 0,
            has_volume: false,
            control_planes: (1..=3).map(entry).collect(),
            workers: vec![],
        }
    }

    /// The same inventory with first configs on volumes.
    pub(crate) fn with_volumes(self) -> Self {
        Self { has_volume: true, ..self }
    }

    /// The edit before the second run.
    pub(crate) fn edited(&self, chance: &mut Chance) -> Self {
        let mut edited = self.clone();
        let turn = usize::try_from(chance.below(3)).unwrap();
        edited.control_planes.rotate_left(turn);
        // The old control planes become workers, and new control planes are added.
        let are_moved = chance.below(3) == 0;
        if are_moved {
            edited.workers.clone_from(&self.control_planes);
        }
        if are_moved || chance.below(2) == 0 {
            // Names without a number get vmids that the first nodes do not have.
            for entry in &mut edited.control_planes {
                let letter = ["a", "b", "c"][usize::from(entry.address - 11)];
                entry.name = format!("master-{letter}");
            }
        }
        if are_moved || chance.below(3) > 0 {
            for entry in &mut edited.control_planes {
                entry.address += 50;
            }
        }
        if chance.below(3) > 0 {
            for (vmid, entry) in (350..).zip(&mut edited.control_planes) {
                entry.vmid = Some(vmid);
            }
        }
        edited
    }

    /// Whether all control planes have other vmids than those of the other inventory, because the inventory sets them or because
    /// they are derived from other names. Otherwise the VMs of one plan prevent the creation of the VMs of the other.
    pub(crate) fn has_other_vmids(&self, other: &Self) -> bool {
        let is_known = |name: &str| other.control_planes.iter().any(|one| one.name == name);
        self.control_planes.iter().all(|entry| entry.vmid.is_some() || !is_known(&entry.name))
    }

    /// Whether the control planes of the two inventories cannot find each other: no shared address, no discovery service, no
    /// common node address.
    pub(crate) fn is_apart_from(&self, other: &Self) -> bool {
        let is_shared =
            |entry: &Entry| other.control_planes.iter().any(|one| one.address == entry.address);
        !self.has_vip && !self.has_discovery && !self.control_planes.iter().any(is_shared)
    }

    /// The addresses of the control planes.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.control_planes.iter().map(|entry| format!("10.0.0.{}", entry.address)).collect()
    }

    pub(crate) fn text(&self) -> String {
        let vip = if self.has_vip { ", vip: 10.0.0.20" } else { "" };
        let mut text = format!(
            "{HEAD}network: {{subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [1.1.1.1]{vip}}}\n"
        );
        if !self.has_discovery {
            text.push_str(NO_DISCOVERY);
        }
        if self.has_volume {
            text.push_str("boot: cidata\n");
        }
        for (list, entries) in [("controlplane", &self.control_planes), ("workers", &self.workers)]
        {
            if entries.is_empty() {
                continue;
            }
            writeln!(text, "{list}:").unwrap();
            for Entry { name, address, vmid } in entries {
                let vmid = vmid.map(|vmid| format!(", vmid: {vmid}")).unwrap_or_default();
                writeln!(text, "  - {{name: {name}, ip: 10.0.0.{address}{vmid}}}").unwrap();
            }
        }
        text
    }
}

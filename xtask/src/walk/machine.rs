//! One machine of the inventory.

use crate::chaos::HOSTS;

/// Bridges of the lab. The first one is the bridge of the cluster.
pub(super) const BRIDGES: [&str; 2] = ["vmbr0", "vmbr1"];
/// Highest number of a machine. With it, both addresses of a machine are in the subnet and differ from the shared address.
pub(super) const MAX_NUMBER: u64 = 110;
/// Difference between the two addresses of a machine.
const OTHER_ADDRESS: u64 = 120;

#[derive(Clone)]
pub(super) struct Machine {
    pub(super) name: String,
    /// Number from which the vmid and the addresses follow. No two machines have the same number.
    pub(super) number: u64,
    pub(super) vmid: u64,
    pub(super) host: &'static str,
    pub(super) memory: u64,
    pub(super) cores: u64,
    /// Size of the system disk in GiB.
    pub(super) disk: u64,
    /// Sizes of the further disks in GiB.
    pub(super) further_disks: Vec<u64>,
    pub(super) nic: Option<Nic>,
    pub(super) label: Option<&'static str>,
    pub(super) tag: Option<&'static str>,
    pub(super) has_other_address: bool,
    /// Whether the inventory accepts another value of `onboot`.
    pub(super) ignores_onboot: bool,
}

/// Further network card of a machine.
#[derive(Clone)]
pub(super) struct Nic {
    pub(super) bridge: &'static str,
    pub(super) vlan: Option<u64>,
}

impl Machine {
    pub(super) fn new(kind: &str, number: u64) -> Self {
        let hosts = u64::try_from(HOSTS.len()).expect("a short list");
        let host = usize::try_from(number % hosts).expect("an index of the list");
        Self {
            name: format!("{kind}-{number}"),
            number,
            vmid: 300 + number,
            host: HOSTS[host],
            memory: 4096,
            cores: 2,
            disk: 20,
            further_disks: vec![],
            nic: None,
            label: None,
            tag: None,
            has_other_address: false,
            ignores_onboot: false,
        }
    }

    /// Last number of the address in the subnet of the cluster.
    pub(super) fn address(&self) -> u64 {
        10 + self.number + if self.has_other_address { OTHER_ADDRESS } else { 0 }
    }

    pub(super) fn to_yaml(&self) -> String {
        let Self { name, vmid, host, memory, cores, disk, .. } = self;
        let address = self.address();
        let mut text = format!(
            "  - {{name: {name}, ip: 10.0.0.{address}, vmid: {vmid}, host: {host}, memory: {memory}, \
             cores: {cores}, disk: {disk}G"
        );
        if !self.further_disks.is_empty() {
            let disks = self.further_disks.iter().map(|size| format!("{{size: {size}G}}"));
            text.push_str(&format!(", disks: [{}]", disks.collect::<Vec<_>>().join(", ")));
        }
        if let Some(Nic { bridge, vlan }) = &self.nic {
            let vlan = vlan.map(|vlan| format!(", vlan: {vlan}")).unwrap_or_default();
            let number = 10 + self.number;
            text.push_str(&format!(", nics: [{{bridge: {bridge}, ip: 10.1.0.{number}/24{vlan}}}]"));
        }
        if let Some(color) = self.label {
            text.push_str(&format!(", labels: {{color: {color}}}"));
        }
        if let Some(color) = self.tag {
            text.push_str(&format!(", tags: [{color}]"));
        }
        if self.ignores_onboot {
            text.push_str(", ignore: [{path: onboot, reason: set by a user}]");
        }
        text.push_str("}\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_one_line_of_the_inventory() {
        let plain = Machine::new("wk", 4);
        assert_eq!(
            plain.to_yaml(),
            "  - {name: wk-4, ip: 10.0.0.14, vmid: 304, host: pve2, memory: 4096, cores: 2, disk: 20G}\n"
        );
        let full = Machine {
            further_disks: vec![10, 15],
            nic: Some(Nic { bridge: BRIDGES[1], vlan: Some(10) }),
            tag: Some("red"),
            has_other_address: true,
            ignores_onboot: true,
            ..plain
        };
        assert_eq!(
            full.to_yaml(),
            "  - {name: wk-4, ip: 10.0.0.134, vmid: 304, host: pve2, memory: 4096, cores: 2, disk: 20G, \
             disks: [{size: 10G}, {size: 15G}], nics: [{bridge: vmbr1, ip: 10.1.0.14/24, vlan: 10}], tags: [red], \
             ignore: [{path: onboot, reason: set by a user}]}\n"
        );
        let highest = Machine { has_other_address: true, ..Machine::new("wk", MAX_NUMBER) };
        assert!(highest.address() < 250);
    }
}

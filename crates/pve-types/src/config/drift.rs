use std::collections::{BTreeMap, BTreeSet};

use super::rule::{self, ComparisonRule, DriveParts, NET_DEFAULTS, Parts};
use super::{VmConfig, VmOptions};
use crate::property::{BootOrder, Drive, DriveSource, Net, Properties, Smbios, Tags, truthy};
use crate::wire::split;

/// Option whose observed value differs from the desired value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    pub key: String,
    pub desired: String,
    pub found: Option<String>,
}

/// Options whose observed value differs from the desired value. Differences in notation, order, defaults and values
/// that Proxmox sets itself are ignored.
///
/// Options without a desired value are not compared.
pub fn drift(desired: &VmOptions, found: &VmConfig) -> Vec<Drift> {
    let differs = |(key, desired): &(&str, &str)| !is_same(key, desired, found.get(key));
    let drift = |(key, desired): (&str, &str)| Drift {
        key: key.to_owned(),
        desired: desired.to_owned(),
        found: found.get(key).map(str::to_owned),
    };
    desired.iter().filter(differs).map(drift).collect()
}

fn is_same(key: &str, desired: &str, found: Option<&str>) -> bool {
    let text = found.unwrap_or_default();
    match rule::of(key) {
        ComparisonRule::Number(default) => {
            let number = |text: &str| text.trim().parse::<f64>().ok();
            let default = default.map(|number| number.to_string()).unwrap_or_default();
            match (number(desired), number(found.unwrap_or(&default))) {
                (Some(desired), Some(found)) => (desired - found).abs() < f64::EPSILON,
                (None, None) => desired == text,
                _ => false,
            }
        }
        ComparisonRule::Flag(default) => {
            truthy(desired) == found.map_or(Some(default), |found| truthy(found.trim()))
        }
        ComparisonRule::Text(default) => desired == found.unwrap_or(default),
        ComparisonRule::Description => desired.trim_end() == text.trim_end(),
        ComparisonRule::Set => Tags::parse(desired) == Tags::parse(text),
        ComparisonRule::Hotplug => hotplug(desired) == hotplug(found.unwrap_or("1")),
        ComparisonRule::List => split(desired) == split(text),
        ComparisonRule::Boot => BootOrder::parse(desired) == BootOrder::parse(text),
        ComparisonRule::Smbios => smbios(desired, text),
        ComparisonRule::Net => {
            found.is_some_and(|found| net(&Net::parse(desired), &Net::parse(found)))
        }
        ComparisonRule::Drive(parts) => {
            found.is_some_and(|found| drive(parts, &Drive::parse(desired), &Drive::parse(found)))
        }
        ComparisonRule::Parts(rule) => parts(rule, desired) == parts(rule, text),
        ComparisonRule::Hidden => true,
    }
}

/// Canonical form of a property string: defaults are omitted, flags are 0 or 1, and values are in lower case.
fn canonical(properties: &Properties, defaults: &[(&str, &str)]) -> BTreeMap<String, String> {
    let plain = |text: &str| match truthy(text) {
        Some(flag) => u8::from(flag).to_string(),
        None => text.to_ascii_lowercase(),
    };
    let is_default = |key: &str, value: &str| {
        defaults.iter().any(|(known, default)| *known == key && plain(default) == value)
    };
    properties
        .iter()
        .map(|(key, value)| (key.to_owned(), plain(value)))
        .filter(|(key, value)| !is_default(key, value))
        .collect()
}

fn parts(rule: Parts, text: &str) -> BTreeMap<String, String> {
    canonical(&Properties::parse(text, rule.default_key), rule.defaults)
}

fn hotplug(text: &str) -> BTreeSet<String> {
    match text.trim() {
        "1" => ["network", "disk", "usb"].map(str::to_owned).into(),
        "0" => BTreeSet::new(),
        text => split(text).into_iter().collect(),
    }
}

/// Compares SMBIOS settings. If no UUID is desired, Proxmox generated the observed UUID, so it is not compared.
fn smbios(desired: &str, found: &str) -> bool {
    let (desired, found) = (Smbios::parse(desired), Smbios::parse(found));
    desired.texts == found.texts && (desired.uuid.is_none() || desired.uuid == found.uuid)
}

/// Compares NICs. If no MAC address is desired, Proxmox generated the observed address, so it is not compared.
fn net(desired: &Net, found: &Net) -> bool {
    let other = |net: &Net| canonical(&net.other, NET_DEFAULTS);
    desired.model == found.model
        && (desired.mac.is_none() || desired.mac == found.mac)
        && desired.bridge == found.bridge
        && desired.vlan == found.vlan
        && desired.firewall == found.firewall
        && desired.mtu == found.mtu
        && other(desired) == other(found)
}

/// Compares drives. Names of disk volumes are not compared, because Proxmox chooses them. A larger volume is not drift,
/// because a volume may have grown.
fn drive(rule: DriveParts, desired: &Drive, found: &Drive) -> bool {
    if desired.storage() != found.storage() {
        return false;
    }
    if let DriveSource::Cloudinit { .. } = desired.source {
        return found.is_cloudinit();
    }
    if matches!(&desired.source, DriveSource::Empty | DriveSource::Other(_))
        && desired.source != found.source
    {
        return false;
    }
    // The volume is compared only for CD drives, because it determines their content. A disk may have been moved to
    // another volume.
    if desired.is_cdrom() && desired.volume_id() != found.volume_id() {
        return false;
    }
    let is_big_enough = rule.is_state
        || match (desired.size(), found.size()) {
            (Some(desired), Some(found)) => found >= desired,
            _ => true,
        };
    // A missing serial is not drift: a drive works without a serial, and adding a serial would require a stop of the
    // VM. A different serial is drift, because guests find the drive by its serial.
    let has_serial = found.options.get("serial").is_some();
    let options = |drive: &Drive| {
        let mut options = drive.options.clone();
        // These options apply only when the volume is created, or only Proxmox sets them.
        for transient in ["size", "format", "import-from", "ms-cert"] {
            let _value = options.remove(transient);
        }
        if !has_serial {
            let _value = options.remove("serial");
        }
        canonical(&options, rule.parts.defaults)
    };
    is_big_enough && options(desired) == options(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(key: &str, desired: &str, found: &str) {
        assert!(is_same(key, desired, Some(found)), "{key}: {desired} against {found}");
    }

    fn other(key: &str, desired: &str, found: &str) {
        assert!(!is_same(key, desired, Some(found)), "{key}: {desired} against {found}");
    }

    #[test]
    fn disks_are_compared_by_storage_options_and_minimum_size() {
        let found = "local-lvm:vm-300-disk-1,discard=on,iothread=1,size=40G,ssd=1";
        same(
            "scsi0",
            "local-lvm:0,import-from=local:import/t.qcow2,iothread=1,discard=on,ssd=on",
            found,
        );
        same("scsi0", "local-lvm:40,discard=on,iothread=1,ssd=1", found);
        same("scsi0", "file=local-lvm:vm-300-disk-0,discard=on,iothread=1,ssd=1,backup=1", found);
        other("scsi0", "local-lvm:41,discard=on,iothread=1,ssd=1", found);
        other("scsi0", "tank:40,discard=on,iothread=1,ssd=1", found);
        other("scsi0", "local-lvm:40,discard=on,iothread=1", found);
        other("scsi0", "local-lvm:40,discard=on,iothread=1,ssd=1,cache=writeback", found);
        assert!(!is_same("scsi1", "local-lvm:40", None));
    }

    #[test]
    fn a_missing_serial_is_not_drift_but_another_serial_is() {
        let desired = "local-lvm:40,serial=drive-virtio1";
        same("virtio1", desired, "local-lvm:vm-300-disk-1,size=40G");
        same("virtio1", desired, "local-lvm:vm-300-disk-1,serial=drive-virtio1,size=40G");
        other("virtio1", desired, "local-lvm:vm-300-disk-1,serial=other,size=40G");
        other("scsi1", "local-lvm:40", "local-lvm:vm-300-disk-1,serial=other,size=40G");
    }

    #[test]
    fn firmware_disks_are_compared_without_size() {
        let found = "local-lvm:vm-300-disk-0,efitype=4m,pre-enrolled-keys=0,size=4M";
        same("efidisk0", "local-lvm:1,efitype=4m,pre-enrolled-keys=0", found);
        same("efidisk0", "local-lvm:1,efitype=4m", found);
        other("efidisk0", "local-lvm:1", found);
        same(
            "tpmstate0",
            "local-lvm:1,version=v2.0",
            "local-lvm:vm-300-disk-2,size=4M,version=v2.0",
        );
        other("tpmstate0", "local-lvm:0", "local-lvm:vm-300-disk-2,size=4M,version=v2.0");
    }

    #[test]
    fn cloudinit_drives_are_compared_by_storage() {
        same("ide2", "local-lvm:cloudinit", "local-lvm:vm-300-cloudinit,media=cdrom");
        same("ide2", "local-lvm:cloudinit", "local-lvm:vm-300-cloudinit,media=cdrom,size=4M");
        other("ide2", "local-lvm:cloudinit", "local:300/vm-300-cloudinit.qcow2,media=cdrom");
        other("ide2", "local-lvm:cloudinit", "local-lvm:vm-300-disk-3");
        same("ide3", "local:iso/a.iso,media=cdrom", "local:iso/a.iso,media=cdrom,size=5M");
        other("ide3", "local:iso/a.iso,media=cdrom", "local:iso/b.iso,media=cdrom");
        other("ide3", "none,media=cdrom", "local:iso/b.iso,media=cdrom");
    }

    #[test]
    fn nics_are_compared_without_case_and_defaults() {
        let found = "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=0,tag=40";
        same("net0", "virtio=bc:24:11:00:00:01,bridge=vmbr0,tag=40", found);
        same(
            "net0",
            "model=virtio,macaddr=BC:24:11:00:00:01,bridge=vmbr0,tag=40,link_down=0",
            found,
        );
        same("net0", "virtio,bridge=vmbr0,tag=40", found);
        other("net0", "virtio=BC:24:11:00:00:02,bridge=vmbr0,tag=40", found);
        other("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0", found);
        other("net0", "e1000=BC:24:11:00:00:01,bridge=vmbr0,tag=40", found);
        other("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=40,firewall=1", found);
    }

    #[test]
    fn texts_are_compared_by_meaning() {
        same("tags", "talmox;home", "Home,TALMOX home");
        other("tags", "talmox", "home;talmox");
        same("description", "marker\n", "marker");
        other("description", "\nmarker", "marker");
        same("machine", "q35", "type=q35");
        same("machine", "q35,viommu=virtio", "viommu=virtio,type=q35");
        same("boot", "order=scsi0;ide2", "order=scsi0;ide2,legacy=cdn");
        other("boot", "order=scsi0;ide2", "order=ide2;scsi0");
        same("smbios1", "uuid=ab,serial=eA==,base64=1", "base64=1,serial=eA==,uuid=AB");
        other("smbios1", "uuid=ab", "uuid=ac");
        same("ipconfig0", "ip=10.0.0.11/16,gw=10.0.0.1", "gw=10.0.0.1,ip=10.0.0.11/16");
        same("nameserver", "1.1.1.1 8.8.8.8", "1.1.1.1,8.8.8.8");
        other("nameserver", "1.1.1.1 8.8.8.8", "8.8.8.8 1.1.1.1");
        same("agent", "enabled=1", "1");
        same("agent", "1", "enabled=on,type=virtio");
        other("agent", "enabled=1", "0");
        same("cpu", "host", "cputype=host,hidden=0");
        same("hostpci0", "mapping=gpu,pcie=1", "mapping=gpu,pcie=on,rombar=1");
        other("hostpci0", "mapping=gpu,pcie=1", "mapping=gpu");
        same("hotplug", "disk,network,usb", "1");
        other("hotplug", "0", "1");
    }

    #[test]
    fn numbers_and_flags_are_compared_by_value() {
        same("cores", "4", "04");
        same("memory", "8192", "current=8192");
        other("memory", "8192", "4096");
        same("onboot", "1", "1");
        assert!(is_same("onboot", "0", None) && !is_same("onboot", "1", None));
        assert!(is_same("cores", "1", None) && !is_same("cores", "2", None));
        assert!(is_same("tablet", "1", None) && !is_same("balloon", "0", None));
        assert!(is_same("bios", "seabios", None) && !is_same("bios", "ovmf", None));
        assert!(is_same("description", "", None) && is_same("cipassword", "x", Some("**********")));
    }

    #[test]
    fn options_without_a_desired_value_are_ignored() {
        let desired = VmOptions::new().cores(4).memory_mib(8192).onboot(true);
        let found = VmConfig::new(
            [("cores", "2"), ("memory", "8192"), ("vmgenid", "x"), ("digest", "ab")]
                .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        let keys: Vec<String> =
            drift(&desired, &found).into_iter().map(|drift| drift.key).collect();
        assert_eq!(keys, ["cores", "onboot"]);
    }
}

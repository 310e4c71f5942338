use super::*;
use crate::pve_state::{Mapping, PciDevice};

fn device(address: &str, group: i32) -> PciDevice {
    PciDevice {
        address: address.to_owned(),
        class: "0x030000".to_owned(),
        vendor: "0x10de".to_owned(),
        device: "0x2204".to_owned(),
        vendor_name: None,
        device_name: None,
        iommu_group: group,
        subsystem_vendor: None,
        subsystem_device: None,
        subsystem_vendor_name: None,
        subsystem_device_name: None,
    }
}

/// Test bench whose host has two PCI devices. The mapping `gpu` contains the first device, and `gpus` contains both. The
/// mapping `away` is for another host, and `other` has the ID of another device.
fn bench() -> QemuTestBench {
    let bench = QemuTestBench::new();
    let mut pve_state = bench.site.pve_state();
    pve_state.hosts.get_mut("pve1").unwrap().pci =
        vec![device("0000:01:00.0", 1), device("0000:02:00.0", 2)];
    let entry =
        |path: &str, group: i32| format!("node=pve1,path={path},id=10de:2204,iommugroup={group}");
    let one = Mapping { entries: vec![entry("0000:01:00.0", 1)], ..Mapping::default() };
    let both = vec![entry("0000:01:00.0", 1), entry("0000:02:00.0", 2)];
    let both = Mapping { entries: both, ..Mapping::default() };
    let away = vec!["node=pve2,path=0000:01:00.0,id=10de:2204,iommugroup=1".to_owned()];
    let away = Mapping { entries: away, ..Mapping::default() };
    let other = vec!["node=pve1,path=0000:01:00.0,id=10de:9999,iommugroup=1".to_owned()];
    let other = Mapping { entries: other, ..Mapping::default() };
    pve_state.mappings.pci = [("gpu", one), ("gpus", both), ("away", away), ("other", other)]
        .map(|(id, mapping)| (id.to_owned(), mapping))
        .into();
    drop(pve_state);
    bench
}

async fn start(bench: &QemuTestBench, options: &[(&str, &str)]) -> String {
    bench.vm(100, options);
    let ended = bench.task("/100/status/start", &[]).await;
    assert_eq!(bench.is_running(100), ended == "OK" || ended.starts_with("WARNINGS"), "{ended}");
    ended
}

#[tokio::test]
async fn start_checks_passed_through_devices() {
    let bench = bench();
    let cases = [
        ("mapping=none", "PCI device mapping not found for 'none'"),
        ("mapping=away", "PCI device mapping not found for 'away'"),
        (
            "mapping=other",
            "PCI device mapping invalid (hardware probably changed): 'id' does not match for \
             'other' (10de:2204 != 10de:9999)",
        ),
        ("0000:05:00.0", "no PCI device found for '0000:05:00.0'"),
        (
            "mapping=gpu,pcie=1",
            "q35 machine model is not enabled at /usr/share/perl5/PVE/QemuServer/PCI.pm line 510.",
        ),
        ("mapping=gpu", "OK"),
    ];
    for (value, expected) in cases {
        assert_eq!(start(&bench, &[("hostpci0", value)]).await, expected, "{value}");
    }
}

#[tokio::test]
async fn pci_device_is_used_by_one_vm_at_a_time() {
    let bench = bench();
    bench.running(200, &[("hostpci0", "mapping=gpu")]);
    assert_eq!(
        start(&bench, &[("hostpci0", "01:00,pcie=1"), ("machine", "q35")]).await,
        "PCI device '0000:01:00.0' already in use by VMID '200'"
    );
    assert_eq!(start(&bench, &[("hostpci0", "mapping=gpus")]).await, "OK");
    assert_eq!(bench.site.guests.held(100), Some(vec!["0000:02:00.0".to_owned()]));
    bench.vm(101, &[("hostpci0", "mapping=gpus")]);
    assert_eq!(
        bench.task("/101/status/start", &[]).await,
        "could not find a free device for 'hostpci0'"
    );
    assert_eq!(bench.task("/100/status/stop", &[]).await, "OK");
    assert_eq!(bench.task("/101/status/start", &[]).await, "OK");
}

#[tokio::test]
async fn start_checks_volumes_machine_type_and_cpus() {
    let bench = bench();
    assert_eq!(
        start(&bench, &[("scsi1", "local-lvm:vm-100-disk-9,size=1G")]).await,
        "no such logical volume pve/vm-100-disk-9"
    );
    assert_eq!(
        start(&bench, &[("ide2", "local:iso/gone.iso,media=cdrom")]).await,
        "volume 'local:iso/gone.iso' does not exist"
    );
    assert!(start(&bench, &[("machine", "pc-q35-42.0")]).await.contains("is too old to run"));
    assert_eq!(start(&bench, &[("cores", "9")]).await, "MAX 8 vcpus allowed per VM on this node");
}

#[tokio::test]
async fn missing_bridge_fails_the_start() {
    let bench = bench();
    let net = "virtio=BC:24:11:00:00:01,bridge=vmbr9";
    assert_eq!(start(&bench, &[("net0", net)]).await, "start failed: QEMU exited with code 1");
    assert_eq!(bench.log("qmstart")[0], "bridge 'vmbr9' does not exist");
}

#[tokio::test]
async fn start_with_warnings_succeeds() {
    let bench = bench();
    assert_eq!(start(&bench, &[("bios", "ovmf")]).await, "WARNINGS: 1");
    let line = "WARN: no efidisk configured! Using temporary efivars disk.".to_owned();
    assert_eq!(bench.log("qmstart")[0], line);
}

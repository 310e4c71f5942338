//! StorageService: the disks of the machine.

use talmox_talos_api::proto::storage::storage_service_server::StorageService;
use talmox_talos_api::proto::storage::{Disk, Disks, DisksResponse, disk::DiskType};
use talmox_talos_api::server::{Answered, Asked, Status};

use super::NodeApi;
use crate::talos::hardware;
use crate::talos::land::Node;

#[tonic::async_trait]
impl StorageService for NodeApi {
    async fn disks(&self, _: Asked<()>) -> Result<Answered<DisksResponse>, Status> {
        let messages = vec![Disks { metadata: None, disks: self.0.node(disks)? }];
        Ok(Answered::new(DisksResponse { messages }))
    }
}

/// The disks, and the image that the system itself runs from.
fn disks(node: &Node) -> Vec<Disk> {
    let system = node.system_disk.as_ref().map(|disk| disk.device.as_str());
    let mut disks: Vec<Disk> = node
        .hardware
        .disks
        .iter()
        .map(|disk| Disk {
            size: disk.size,
            model: model(disk).to_owned(),
            device_name: disk.device.clone(),
            name: String::new(),
            serial: String::new(),
            modalias: "scsi:t-0x00".to_owned(),
            uuid: String::new(),
            wwid: String::new(),
            r#type: if disk.is_cdrom { DiskType::Cd } else { DiskType::Hdd }.into(),
            bus_path: bus_path(disk),
            system_disk: system == Some(disk.device.as_str()),
            subsystem: "/sys/class/block".to_owned(),
            readonly: disk.is_cdrom,
        })
        .collect();
    disks.push(Disk {
        size: LOOP_SIZE,
        device_name: "/dev/loop0".to_owned(),
        r#type: DiskType::Hdd.into(),
        bus_path: "/virtual".to_owned(),
        subsystem: "/sys/class/block".to_owned(),
        readonly: true,
        ..Disk::default()
    });
    disks
}

/// The compressed system that is mounted from memory.
pub(crate) const LOOP_SIZE: u64 = 75_423_744;

pub(crate) fn model(disk: &hardware::Disk) -> &'static str {
    match (disk.is_cdrom, disk.slot.starts_with("virtio")) {
        (true, _) => "QEMU DVD-ROM",
        (_, true) => "",
        _ => "QEMU HARDDISK",
    }
}

pub(crate) fn bus_path(disk: &hardware::Disk) -> String {
    let digits = disk.slot.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    match disk.slot.trim_end_matches(|letter: char| letter.is_ascii_digit()) {
        "virtio" => format!("/pci0000:00/0000:00:0a.{digits}/virtio{digits}"),
        "ide" | "sata" => format!(
            "/pci0000:00/0000:00:1f.2/ata{digits}/host{digits}/target{digits}:0:0/{digits}:0:0:0"
        ),
        _ => format!("/pci0000:00/0000:00:05.0/virtio3/host2/target2:0:{digits}/2:0:{digits}:0"),
    }
}

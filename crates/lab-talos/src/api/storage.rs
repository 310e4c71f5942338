//! `StorageService`: disks of the machine.

use talmox_talos_api::proto::storage::storage_service_server::StorageService;
use talmox_talos_api::proto::storage::{Disk, Disks, DisksResponse, disk::DiskType};
use talmox_talos_api::server::{Answered, Asked, Status};

use super::NodeApi;
use crate::talos_state::Node;

#[tonic::async_trait]
impl StorageService for NodeApi {
    async fn disks(&self, _: Asked<()>) -> Result<Answered<DisksResponse>, Status> {
        let messages = vec![Disks { metadata: None, disks: self.0.node(disks)? }];
        Ok(Answered::new(DisksResponse { messages }))
    }
}

/// Disks of the machine, followed by the loop device of the root file system.
fn disks(node: &Node) -> Vec<Disk> {
    let system = node.system_disk.as_ref().map(|disk| disk.device.as_str());
    let mut disks: Vec<Disk> = node
        .hardware
        .disks
        .iter()
        .map(|disk| Disk {
            size: disk.size,
            model: disk.model().to_owned(),
            device_name: disk.device.clone(),
            name: String::new(),
            serial: disk.shown_serial().to_owned(),
            modalias: disk.modalias().to_owned(),
            uuid: String::new(),
            wwid: disk.wwid(),
            r#type: match (disk.is_cdrom, disk.is_rotational()) {
                (true, _) => DiskType::Cd,
                (_, true) => DiskType::Hdd,
                _ => DiskType::Ssd,
            }
            .into(),
            bus_path: disk.bus_path(),
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

/// Size of the loop device that holds the squashfs root file system.
pub(crate) const LOOP_SIZE: u64 = 75_423_744;

//! Volumes are on the disks that the inventory names, independent of the order in which the kernel finds the disks.

use std::collections::BTreeSet;

use talmox_talos_api::Client;
use talmox_talos_api::client::ResourceKind;

use super::inventory::HEAD;
use super::rig::{LabOptions, Rig};

const DISKS: ResourceKind<'_> = ResourceKind::new("runtime", "Disks.block.talos.dev");

/// One node with two additional disks that differ only in their slots.
fn inventory(talos: &str, bus: &str, boot: &str) -> String {
    let head = HEAD.replace("v1.11.2", talos);
    assert!(head.contains(talos));
    format!(
        "{head}controlplane:\n  - {{name: cp-1, ip: 10.0.0.11, disk_bus: {bus}, boot: {boot}, \
         disks: [{{size: 20, volume: alpha}}, {{size: 20, volume: beta}}]}}\n"
    )
}

/// The device that is mounted at this path, and the bus path of its disk.
async fn mounted(client: &Client, path: &str) -> (String, String) {
    let volumes = client.list(ResourceKind::VOLUME_STATUS).await.unwrap();
    let target = |desired: &str| {
        volumes.iter().find(|one| one.text("mountSpec.targetPath").as_deref() == Some(desired))
    };
    let volume = target(path).unwrap_or_else(|| panic!("{path}: {volumes:#?}"));
    let device = volume.text("parentLocation").unwrap();
    let disks = client.list(DISKS).await.unwrap();
    let disk = disks.iter().find(|disk| disk.text("dev_path").as_ref() == Some(&device)).unwrap();
    (device, disk.text("bus_path").unwrap())
}

async fn volumes_are_where_they_belong(talos: &str, bus: &str, boot: &str, plugs: [&str; 2]) {
    let text = inventory(talos, bus, boot);
    let mut letters = BTreeSet::new();
    for seed in 0..5 {
        let rig = Rig::of(LabOptions { seed, ..LabOptions::default() });
        let ran = rig.up(&text).await;
        ran.assert_done();
        let client = rig.talos("10.0.0.11".parse().unwrap());
        for (volume, plug) in ["alpha", "beta"].into_iter().zip(plugs) {
            let (device, path) = mounted(&client, &format!("/var/mnt/{volume}")).await;
            assert!(path.ends_with(plug), "{talos} {bus}, seed {seed}: {volume} is on {path}");
            letters.insert((volume, device));
        }
    }
    // The device names differ between labs, so names alone would not identify the disks.
    assert!(letters.len() > 2, "{talos} {bus}: {letters:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_virtio_scsi() {
    volumes_are_where_they_belong("v1.13.6", "scsi", "cidata", ["/2:0:0:1", "/2:0:0:2"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_virtio_blk() {
    let plugs = ["/0000:00:0b.0/virtio5", "/0000:00:0c.0/virtio6"];
    volumes_are_where_they_belong("v1.10.1", "virtio", "cloudinit", plugs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sata() {
    let plugs = ["/ata2/host2/target2:0:0/2:0:0:0", "/ata3/host3/target3:0:0/3:0:0:0"];
    volumes_are_where_they_belong("v1.12.4", "sata", "cloudinit", plugs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_machine_disks_of_old_releases() {
    volumes_are_where_they_belong("v1.9.5", "scsi", "cidata", ["/2:0:0:1", "/2:0:0:2"]).await;
    let plugs = ["/0000:00:0b.0/virtio5", "/0000:00:0c.0/virtio6"];
    volumes_are_where_they_belong("v1.8.2", "virtio", "cloudinit", plugs).await;
}

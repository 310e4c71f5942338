//! Tests of disks. Device letters change at each boot; ids, paths and contents do not.

use std::collections::{BTreeMap, BTreeSet};

use talmox_talos_api::Client;
use talmox_talos_api::client::{Resource, ResourceKind};
use talmox_talos_config::secret::SecretText;

use super::test_bed::{TestBed, until};

const DISKS: ResourceKind<'_> = ResourceKind::new("runtime", "Disks.block.talos.dev");
const LINKS: ResourceKind<'_> = ResourceKind::new("runtime", "BlockSymlinks.block.talos.dev");
const DEVICES: ResourceKind<'_> = ResourceKind::new("runtime", "BlockDevices.block.talos.dev");

const BY_ID: &str = "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-";
/// Additional disks: two of the same size, and one like a cidata volume.
const EXTRA_DISKS: [(&str, &str); 3] =
    [("scsi1", "local-lvm:5"), ("scsi2", "local-lvm:5"), ("scsi30", "local-lvm:1")];

fn yaml(resource: &Resource) -> String {
    resource.yaml().expose().to_owned()
}

/// Device of each slot. The slot is read from a symlink of the disk.
fn letters(disks: &[Resource]) -> BTreeMap<String, String> {
    let mut letters = BTreeMap::new();
    for disk in disks {
        let yaml = yaml(disk);
        let link =
            yaml.lines().find_map(|line| line.trim().strip_prefix("- ")?.strip_prefix(BY_ID));
        if let Some(slot) = link {
            letters.insert(slot.to_owned(), disk.text("dev_path").unwrap());
        }
    }
    letters
}

async fn disks(client: &Client) -> Vec<Resource> {
    until("disks", || async {
        let disks = client.list(DISKS).await.ok()?;
        (!disks.is_empty()).then_some(disks)
    })
    .await
}

#[test]
fn device_letters_change_between_boots_and_links_do_not() {
    let bed = TestBed::new("v1.13.6");
    bed.start_with(11, &EXTRA_DISKS);
    let mut seen = BTreeSet::new();
    let slots = ["scsi0", "scsi1", "scsi2", "scsi30"];
    for _ in 0..6 {
        let client = bed.maintenance(11);
        let found = bed.lab.wait(disks(&client));
        let letters = letters(&found);
        assert_eq!(letters.keys().map(String::as_str).collect::<Vec<_>>(), slots);
        let devices: BTreeSet<&str> = letters.values().map(String::as_str).collect();
        assert_eq!(devices, ["/dev/sda", "/dev/sdb", "/dev/sdc", "/dev/sdd"].into());
        seen.insert(letters);
        bed.stop(11);
        bed.power(11, "start");
    }
    assert!(seen.len() > 1, "{seen:#?}");
    bed.lab.stop();
}

#[test]
fn disks_match_those_of_proxmox() {
    let bed = TestBed::new("v1.13.6");
    let further = [
        ("scsi1", "local-lvm:12,ssd=1"),
        ("virtio1", "local-lvm:5,serial=drive-virtio1"),
        ("virtio2", "local-lvm:5"),
        ("sata1", "local-lvm:5,serial=drive-sata1"),
        ("machine", "q35"),
    ];
    bed.start_with(11, &further);
    bed.lab.wait(async {
        let client = bed.maintenance(11);
        let found = disks(&client).await;
        let at = |link: &str| {
            let disk = found.iter().find(|disk| yaml(disk).contains(link));
            disk.unwrap_or_else(|| {
                panic!("{link}: {:#?}", found.iter().map(yaml).collect::<Vec<_>>())
            })
        };
        let of = |disk: &Resource, key: &str| disk.text(key).unwrap_or_default();
        let scsi = at("scsi-0QEMU_QEMU_HARDDISK_drive-scsi1");
        assert_eq!(of(scsi, "pretty_size"), "13 GB");
        assert_eq!(
            (of(scsi, "model"), of(scsi, "transport")),
            ("QEMU HARDDISK".into(), "virtio".into())
        );
        for absent in ["serial", "wwid", "rotational"] {
            assert_eq!(of(scsi, absent), "", "{absent}");
        }
        let virtio = at("by-id/virtio-drive-virtio1");
        assert_eq!(
            (of(virtio, "serial"), of(virtio, "model")),
            ("drive-virtio1".into(), String::new())
        );
        assert_eq!(of(virtio, "rotational"), "true");
        let bare = at("by-path/virtio-pci-0000:00:0c.0");
        assert!(!yaml(bare).contains("by-id"), "{}", yaml(bare));
        let sata = at("by-id/ata-QEMU_HARDDISK_drive-sata1");
        assert_eq!((of(sata, "serial"), of(sata, "transport")), (String::new(), "sata".into()));
        assert!(of(sata, "wwid").starts_with("t10.ATA     QEMU HARDDISK  "), "{}", yaml(sata));
        assert!(of(sata, "wwid").ends_with("drive-sata1"));
        let cd = at("by-label/cidata");
        assert_eq!(
            (cd.id.as_str(), of(cd, "readonly"), of(cd, "cdrom")),
            ("sr0", "true".into(), "true".into())
        );
        assert_eq!(of(cd, "model"), "QEMU DVD-ROM");
        let system = found.iter().find(|disk| disk.id == "loop0").unwrap();
        assert_eq!(of(system, "readonly"), "true");

        let links = client.list(LINKS).await.unwrap();
        let devices = client.list(DEVICES).await.unwrap();
        for disk in &found {
            let own = links.iter().find(|links| links.id == disk.id).unwrap();
            assert!(yaml(own).contains("/dev/disk/by-diskseq/"), "{}", yaml(own));
            assert!(devices.iter().any(|device| device.id == disk.id), "{}", disk.id);
        }
        let meta = links.iter().find(|links| yaml(links).contains("by-partlabel/META")).unwrap();
        assert!(yaml(meta).contains("drive-scsi0-part"), "{}", yaml(meta));
    });
    bed.lab.stop();
}

#[test]
fn releases_without_block_symlinks_list_none() {
    let bed = TestBed::new("v1.9.5");
    bed.start_with(11, &EXTRA_DISKS);
    bed.lab.wait(async {
        let client = bed.maintenance(11);
        let found = disks(&client).await;
        assert!(found.iter().all(|disk| !yaml(disk).contains("symlinks")));
        assert!(client.list(LINKS).await.is_err());
    });
    bed.lab.stop();
}

fn volume(name: &str, wanted: &str) -> String {
    format!(
        "---\napiVersion: v1alpha1\nkind: UserVolumeConfig\nname: {name}\nprovisioning:\n  diskSelector:\n    match: '{wanted}'\n  minSize: 1GiB\n  grow: true\n"
    )
}

/// SCSI slot of each of these volumes.
async fn slots(client: &Client, ids: &[&str]) -> Vec<String> {
    let volumes = until("volumes", || async {
        let volumes = client.list(ResourceKind::VOLUME_STATUS).await.ok()?;
        ids.iter().all(|id| volumes.iter().any(|volume| volume.id == *id)).then_some(volumes)
    })
    .await;
    let letters = letters(&disks(client).await);
    let slot = |id: &&str| {
        let volume = volumes.iter().find(|volume| volume.id == *id).unwrap();
        let parent = volume.text("parentLocation").unwrap_or_else(|| panic!("{}", yaml(volume)));
        letters.iter().find(|(_, device)| **device == parent).unwrap().0.clone()
    };
    ids.iter().map(slot).collect()
}

#[test]
fn a_volume_stays_on_its_disk() {
    let bed = TestBed::new("v1.13.6");
    bed.start_with(11, &EXTRA_DISKS);
    let wanted = |slot: &str| format!("\"{BY_ID}{slot}\" in disk.symlinks");
    let documents = [
        volume("named", &wanted("scsi2")),
        // The device letter matters only when the volume is created.
        volume("lettered", "disk.dev_path == \"/dev/sdc\""),
    ];
    let ids = ["u-named", "u-lettered"];
    let first = bed.lab.wait(async {
        let config = format!("{}{}", bed.config(11, true).expose(), documents.concat());
        let client = bed.configure_with(11, &SecretText::new(config)).await;
        slots(&client, &ids).await
    });
    assert_eq!(first[0], "scsi2");
    for _ in 0..4 {
        bed.stop(11);
        bed.power(11, "start");
        let later = bed.lab.wait(async {
            let client = bed.client(11);
            until("the node to be configured", || async { client.version().await.ok() }).await;
            slots(&client, &ids).await
        });
        assert_eq!(later, first);
    }
    bed.lab.stop();
}

#[test]
fn user_disks_are_found_by_link_and_block_the_boot_if_missing() {
    let bed = TestBed::new("v1.9.5");
    bed.start_with(11, &EXTRA_DISKS);
    bed.start_with(12, &EXTRA_DISKS);
    let patch = |device: &str| {
        format!(
            "machine:\n  disks:\n    - device: {device}\n      partitions: [{{mountpoint: /var/mnt/data}}]\n"
        )
    };
    bed.lab.wait(async {
        let device = format!("{BY_ID}scsi2");
        let client = bed.configure_with(11, &bed.patched(11, true, &patch(&device))).await;
        let id = format!("{device}-1");
        let volume = until("the volume", || async {
            client.get(ResourceKind::VOLUME_STATUS, &id).await.ok()?
        })
        .await;
        let parent = volume.text("parentLocation").unwrap();
        let found = disks(&client).await;
        let disk = found.iter().find(|disk| disk.text("dev_path").unwrap() == parent).unwrap();
        assert!(disk.text("bus_path").unwrap().ends_with("/2:0:0:2"), "{}", yaml(disk));

        // Talos starts no service before it has found all disks of the config.
        bed.apply(12, &bed.patched(12, false, &patch("/dev/disk/by-id/nothing"))).await;
        until("bootstrap", || async { client.bootstrap().await.ok() }).await;
        bed.ready(&client).await;
        assert!(bed.client(12).version().await.is_err());
    });
    bed.lab.stop();
}

//! Settings of a config about addresses, disks and the node object do what they say.

use std::collections::BTreeMap;

use talmox_lab::NodeSettings;
use talmox_talos_api::Client;
use talmox_talos_api::client::{Resource, ResourceKind};

use super::world::{SCHEMATIC, World, until};

const NODE_STATUS: ResourceKind<'_> = ResourceKind::new("k8s", "NodeStatuses.kubernetes.talos.dev");

async fn addresses(client: &Client) -> Vec<String> {
    let all = client.list(ResourceKind::ADDRESS_STATUS).await.unwrap();
    all.into_iter().map(|one| one.id).filter(|id| id.starts_with("eth")).collect()
}

#[test]
fn every_card_gets_what_the_drive_has_for_it() {
    let leases: BTreeMap<String, String> =
        [("bc:24:11:00:02:0b".to_owned(), "10.0.2.77/24".to_owned())].into();
    let around = NodeSettings { leases, ..NodeSettings::default() };
    let world = World::with("v1.13.6", SCHEMATIC, around);
    world.start_with(
        11,
        &[
            ("net1", "virtio=BC:24:11:00:01:0B,bridge=vmbr0"),
            ("ipconfig1", "ip=10.0.1.11/24"),
            ("net2", "virtio=BC:24:11:00:02:0B,bridge=vmbr0"),
            ("ipconfig2", "ip=dhcp"),
        ],
    );
    let subnets = "machine:\n  kubelet:\n    nodeIP:\n      validSubnets: [10.0.1.0/24]\n  nodeLabels: {rack: r7}\n  nodeAnnotations: {example.com/owner: ops}\n  nodeTaints: {dedicated: 'db:NoSchedule'}\ncluster:\n  etcd:\n    advertisedSubnets: ['!10.0.0.0/24', '!10.0.2.0/24']\n";
    world.lab.wait(async {
        let config = world.patched(11, true, subnets);
        let client = world.configure_with(11, &config).await;
        let all = ["eth0/10.0.0.11/24", "eth1/10.0.1.11/24", "eth2/10.0.2.77/24"];
        assert_eq!(addresses(&client).await, all);
        let node = client.get(ResourceKind::NODE_IP, "kubelet").await.unwrap().unwrap();
        let text = node.yaml().expose();
        assert!(text.contains("10.0.1.11") && !text.contains("10.0.0.11"), "{text}");

        until("bootstrap", || async { client.bootstrap().await.ok() }).await;
        world.ready(&client).await;
        let members = client.etcd_members().await.unwrap();
        assert_eq!(members[0].peer_urls, ["https://10.0.1.11:2380"]);
        let status =
            until("the node object", || async { client.get(NODE_STATUS, "node-11").await.ok()? })
                .await;
        let text = status.yaml().expose();
        assert!(text.contains("rack: r7") && text.contains("example.com/owner: ops"), "{text}");
        // What the config no longer has is taken back.
        let bare = world.patched(11, true, &subnets.replace("{example.com/owner: ops}", "{}"));
        let apply = talmox_talos_api::client::Apply {
            config: &bare,
            mode: talmox_talos_api::client::ApplyMode::NoReboot,
            dry_run: false,
        };
        client.apply(&apply).await.unwrap();
        until("a node object without it", || async {
            let status: Resource = client.get(NODE_STATUS, "node-11").await.ok()??;
            (!status.yaml().expose().contains("example.com/owner: ops")).then_some(())
        })
        .await;
    });
    world.lab.stop();
}

#[test]
fn volumes_are_where_a_disk_fits_or_say_that_none_does() {
    let world = World::new("v1.13.6");
    world.start_with(11, &[("scsi1", "local-lvm:50")]);
    let volume = |name: &str, wanted: &str, least: &str| {
        format!(
            "---\napiVersion: v1alpha1\nkind: UserVolumeConfig\nname: {name}\nprovisioning:\n  diskSelector:\n    match: {wanted}\n  minSize: {least}\n  maxSize: 20GiB\n"
        )
    };
    let documents = [
        volume("data", "'!system_disk'", "10GiB"),
        volume("huge", "'!system_disk'", "100GiB").replace("20GiB", "200GiB"),
        volume("fast", "disk.transport == 'nvme'", "1GiB"),
        "---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: EPHEMERAL\nprovisioning:\n  maxSize: 8GiB\n"
            .to_owned(),
        volume("rest", "system_disk", "1GiB"),
    ];
    world.lab.wait(async {
        let config = world.config(11, true);
        let config = format!("{}{}", config.expose(), documents.concat());
        let config = talmox_talos_config::secret::SecretText::new(config);
        let client = world.configure_with(11, &config).await;
        let volumes = client.list(ResourceKind::VOLUME_STATUS).await.unwrap();
        let of = |id: &str, key: &str| {
            let found = volumes.iter().find(|volume| volume.id == id).expect(id);
            found.text(key).unwrap_or_default()
        };
        assert_eq!(
            (of("u-data", "phase"), of("u-data", "location")),
            ("ready".into(), "/dev/sdb1".into())
        );
        assert_eq!(of("u-data", "size"), (20_u64 << 30).to_string());
        assert_eq!(of("u-huge", "phase"), "failed");
        assert!(of("u-huge", "errorMessage").contains("1 have not enough space"));
        assert_eq!(of("u-fast", "errorMessage"), "no disks matched selector for volume");
        assert_eq!(of("EPHEMERAL", "size"), (8_u64 << 30).to_string());
        assert_eq!(of("u-rest", "phase"), "ready");
        assert_eq!(of("u-rest", "parentLocation"), "/dev/sda");
    });
    world.lab.stop();
}

#[test]
fn talos_is_installed_on_the_disk_that_the_selector_means() {
    let world = World::new("v1.13.6");
    let url = world.image_url("nocloud-amd64.iso");
    world.download("iso", "talos.iso", &url);
    let from_cd = [
        ("ide0", "local:iso/talos.iso,media=cdrom"),
        ("scsi0", "local-lvm:20"),
        ("scsi1", "local-lvm:40"),
        ("boot", "order=scsi0;scsi1;ide0"),
    ];
    world.start_with(11, &from_cd);
    world.lab.wait(async {
        let none = "machine:\n  install:\n    diskSelector:\n      size: '>= 1TB'\n";
        world.apply(11, &world.patched(11, true, none)).await;
        let anonymous = world.maintenance(11);
        // No disk fits: it tries, boots anew, and is where it was.
        until("maintenance again", || async {
            let status = anonymous.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()??;
            status.text("stage").filter(|stage| stage == "maintenance")
        })
        .await;
        let larger = "machine:\n  install:\n    diskSelector:\n      size: '> 30GB'\n";
        let client = world.configure_with(11, &world.patched(11, true, larger)).await;
        let disks = client.disks().await.unwrap();
        let system = disks.iter().find(|disk| disk.system_disk).unwrap();
        assert_eq!(system.device_name, "/dev/sdb");
    });
    world.lab.stop();
}

//! Our client and nodes of every release, from the first boot to the last.

use talmox_talos_api::client::{
    Apply, ApplyMode, Change, LegacyUpgrade, LogSource, RebootMode, Reset, ResourceKind, Service,
    Since, Step, Wipe, check_snapshot,
};
use talmox_talos_api::{Client, Code, TalosError, Verdict};

use super::sequence::booted;
use super::world::{SCHEMATIC_ID, World, until};

/// A release, and where it is upgraded to.
const RELEASES: [(&str, &str); 7] = [
    ("v1.8.4", "v1.9.6"),
    ("v1.9.6", "v1.10.9"),
    ("v1.10.9", "v1.11.6"),
    ("v1.11.6", "v1.12.7"),
    ("v1.12.7", "v1.13.6"),
    ("v1.13.6", "v1.14.0-rc.1"),
    ("v1.14.0-rc.1", "v1.14.0-rc.1"),
];

fn minor(version: &str) -> u32 {
    version.split('.').nth(1).unwrap().parse().unwrap()
}

fn installer(version: &str) -> String {
    // Before 1.10, installers are for every platform.
    let name = if minor(version) < 10 { "installer" } else { "nocloud-installer" };
    format!("factory.talos.dev/{name}/{SCHEMATIC_ID}:{version}")
}

async fn begin(world: &World, version: &str) -> Client {
    let anonymous = world.maintenance(11);
    let status = until("maintenance", || async {
        anonymous.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()?
    });
    assert_eq!(status.await.text("stage").unwrap(), "maintenance", "{version}");
    let Verdict::Maintenance(found) = world.probe(11).await else { panic!("{version}") };
    assert_eq!(found.machine.uuid.unwrap(), "01234567-89ab-4def-8123-45678900000b");
    let config = world.config(11, true);
    let apply = Apply { config: &config, mode: ApplyMode::Auto, dry_run: true };
    anonymous.apply(&apply).await.unwrap();
    let client = world.bootstrap(11).await;
    assert_eq!(client.version().await.unwrap().tag, version);
    client
}

async fn look(client: &Client, version: &str) {
    let services = client.services().await.unwrap();
    for wanted in ["apid", "etcd", "kubelet"] {
        let service = services.iter().find(|service| service.id == wanted);
        assert!(service.is_some_and(Service::is_fine), "{version}: {services:?}");
    }
    let mut events = client.events(&Since::TheBeginning, None).await.unwrap();
    assert!(events.next().await.unwrap().is_some(), "{version}");

    let members = client.etcd_members().await.unwrap();
    assert_eq!(members.len(), 1, "{version}");
    assert_eq!(client.etcd_status().await.unwrap().leader, members[0].id, "{version}");
    let snapshot = client.etcd_snapshot().await.unwrap().all().await.unwrap();
    check_snapshot(&snapshot).unwrap();
    assert!(client.kubeconfig().await.unwrap().expose().contains("https://10.0.0.11:6443"));

    let name = client.get(ResourceKind::NODENAME, "nodename").await.unwrap().unwrap();
    assert_eq!(name.text("nodename").unwrap(), "node-11", "{version}");
    assert!(!client.list(ResourceKind::EXTENSION_STATUS).await.unwrap().is_empty(), "{version}");
    let mut watch = client.watch(ResourceKind::MACHINE_STATUS, None).await.unwrap();
    assert!(matches!(watch.next().await.unwrap(), Some(Change::Created(_))), "{version}");

    let log = client.logs(&LogSource::Service("kubelet".to_owned()), Some(5), false).await;
    assert!(!log.unwrap().all().await.unwrap().is_empty(), "{version}");
    let dmesg = client.dmesg(false).await.unwrap().all().await.unwrap();
    assert!(String::from_utf8(dmesg).unwrap().contains("service[kubelet]"), "{version}");
    let disks = client.disks().await.unwrap();
    assert!(disks.iter().any(|disk| disk.system_disk), "{version}");
}

/// Both ways of an upgrade; the newer one is there from 1.13 on.
async fn upgrade(world: &World, client: &Client, (from, to): (&str, &str)) {
    let before = client.boot_id().await.unwrap();
    let image = installer(to);
    if minor(from) < 13 {
        let refused = match client.upgrade(&image).await {
            Ok(mut steps) => steps.next().await.unwrap_err(),
            Err(refused) => refused,
        };
        let is_unknown = matches!(refused, TalosError::No { code: Code::Unimplemented, .. });
        assert!(is_unknown, "{from}: {refused:?}");
    } else {
        let mut pull = client.pull(&image).await.unwrap();
        while pull.next().await.unwrap().is_some() {}
        let mut steps = client.upgrade(&image).await.unwrap();
        let mut last = None;
        while let Some(step) = steps.next().await.unwrap() {
            last = Some(step);
        }
        assert_eq!(last, Some(Step::Exit(0)), "{from}");
        client.reboot(RebootMode::Default).await.unwrap();
        let before = booted(world, client, &before).await;
        assert_eq!(client.version().await.unwrap().tag, to, "{from}");
        client.rollback().await.unwrap();
        booted(world, client, &before).await;
    }
    let before = client.boot_id().await.unwrap();
    let wanted = LegacyUpgrade { image, stage: false, force: false };
    client.legacy_upgrade(&wanted).await.unwrap();
    booted(world, client, &before).await;
    assert_eq!(client.version().await.unwrap().tag, to, "{from}");
}

#[test]
fn nodes_of_every_release_live_a_whole_life() {
    for (version, next) in RELEASES {
        let world = World::new(version);
        world.start(11);
        world.lab.wait(async {
            let client = begin(&world, version).await;
            look(&client, version).await;
            let before = client.boot_id().await.unwrap();
            client.reboot(RebootMode::Default).await.unwrap();
            booted(&world, &client, &before).await;
            upgrade(&world, &client, (version, next)).await;
            let labels = vec!["STATE".to_owned(), "EPHEMERAL".to_owned()];
            let wipe = Wipe::Partitions(labels);
            client.reset(&Reset { graceful: false, reboot: true, wipe }).await.unwrap();
            until("maintenance again", || async {
                matches!(world.probe(11).await, Verdict::Maintenance(_)).then_some(())
            })
            .await;
        });
        world.lab.stop();
    }
}

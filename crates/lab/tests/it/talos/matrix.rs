//! Tests of the Talos client with nodes of every release, from boot to reset.

use talmox_talos_api::client::{
    Apply, ApplyMode, Change, LegacyUpgrade, LogSource, RebootMode, Reset, ResourceKind, Service,
    Since, Step, Wipe, check_snapshot,
};
use talmox_talos_api::{Client, Code, TalosError, Verdict};

use super::sequence::booted;
use super::test_bed::{SCHEMATIC_ID, TestBed, until};

/// Releases, each with the release that it is upgraded to.
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
    // Before 1.10, one installer is used for every platform.
    let name = if minor(version) < 10 { "installer" } else { "nocloud-installer" };
    format!("factory.talos.dev/{name}/{SCHEMATIC_ID}:{version}")
}

async fn first_boot(bed: &TestBed, version: &str) -> Client {
    let anonymous = bed.maintenance(11);
    let status = until("maintenance mode", || async {
        anonymous.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()?
    });
    assert_eq!(status.await.text("stage").unwrap(), "maintenance", "{version}");
    let Verdict::Maintenance(found) = bed.probe(11).await else { panic!("{version}") };
    assert_eq!(found.machine.uuid.unwrap(), "01234567-89ab-4def-8123-45678900000b");
    let config = bed.config(11, true);
    let apply = Apply { config: &config, mode: ApplyMode::Auto, dry_run: true };
    anonymous.apply(&apply).await.unwrap();
    let client = bed.bootstrap(11).await;
    assert_eq!(client.version().await.unwrap().tag, version);
    client
}

async fn check_reads(client: &Client, version: &str) {
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

/// Tests both upgrade calls. The newer call exists since 1.13.
async fn upgrade(bed: &TestBed, client: &Client, (from, to): (&str, &str)) {
    let before = client.boot_id().await.unwrap();
    let image = installer(to);
    if minor(from) < 13 {
        let rejected = match client.upgrade(&image).await {
            Ok(mut steps) => steps.next().await.unwrap_err(),
            Err(rejected) => rejected,
        };
        let is_unknown = matches!(rejected, TalosError::No { code: Code::Unimplemented, .. });
        assert!(is_unknown, "{from}: {rejected:?}");
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
        let before = booted(bed, client, &before).await;
        assert_eq!(client.version().await.unwrap().tag, to, "{from}");
        client.rollback().await.unwrap();
        booted(bed, client, &before).await;
    }
    let before = client.boot_id().await.unwrap();
    let wanted = LegacyUpgrade { image, stage: false, force: false };
    client.legacy_upgrade(&wanted).await.unwrap();
    booted(bed, client, &before).await;
    assert_eq!(client.version().await.unwrap().tag, to, "{from}");
}

#[test]
fn nodes_of_every_release_support_all_operations() {
    for (version, next) in RELEASES {
        let bed = TestBed::new(version);
        bed.start(11);
        bed.lab.wait(async {
            let client = first_boot(&bed, version).await;
            check_reads(&client, version).await;
            let before = client.boot_id().await.unwrap();
            client.reboot(RebootMode::Default).await.unwrap();
            booted(&bed, &client, &before).await;
            upgrade(&bed, &client, (version, next)).await;
            let labels = vec!["STATE".to_owned(), "EPHEMERAL".to_owned()];
            let wipe = Wipe::Partitions(labels);
            client.reset(&Reset { graceful: false, reboot: true, wipe }).await.unwrap();
            until("maintenance mode after the reboot", || async {
                matches!(bed.probe(11).await, Verdict::Maintenance(_)).then_some(())
            })
            .await;
        });
        bed.lab.stop();
    }
}

//! Tests of reboots, upgrades and resets.

use talmox_talos_api::client::{
    LegacyUpgrade, Payload, RebootMode, Reset, ResourceKind, Since, Step, Wipe,
};
use talmox_talos_api::proto::machine::sequence_event::Action;
use talmox_talos_api::{Client, Code, TalosError};

use super::test_bed::{SCHEMATIC_ID, TestBed, until};

pub(super) fn installer(version: &str) -> String {
    format!("factory.talos.dev/nocloud-installer/{SCHEMATIC_ID}:{version}")
}

async fn tag(client: &Client) -> String {
    until("a version", || async { Some(client.version().await.ok()?.tag) }).await
}

/// Waits until the node has rebooted and is ready, and returns the new boot id.
pub(super) async fn booted(bed: &TestBed, client: &Client, before: &str) -> String {
    let now = until("a new boot id", || async {
        client.boot_id().await.ok().filter(|now| now != before)
    });
    let now = now.await;
    bed.ready(client).await;
    now
}

#[test]
fn a_reboot_sends_events_and_ends_with_a_new_boot_id() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let before = client.boot_id().await.unwrap();
        let mut events = client.events(&Since::Now, None).await.unwrap();
        let actor = client.reboot(RebootMode::Default).await.unwrap();
        let mut phases = vec![];
        let mut has_started = false;
        // The stream of events ends when the machine goes down.
        while let Ok(Some(event)) = events.next().await {
            if event.actor != actor {
                continue;
            }
            match event.payload {
                Payload::Sequence(detail) => {
                    assert_eq!(
                        (detail.sequence.as_str(), detail.action()),
                        ("reboot", Action::Start)
                    );
                    has_started = true;
                }
                Payload::Phase(detail) => phases.push(detail.phase),
                _ => {}
            }
        }
        assert!(has_started);
        assert_eq!(phases.first().unwrap(), "cleanup");
        assert!(phases.contains(&"stopEverything".to_owned()), "{phases:?}");
        booted(&bed, &client, &before).await;
    });
    bed.lab.stop();
}

#[test]
fn upgrades_with_both_calls_and_rollback() {
    let bed = TestBed::new("v1.13.0");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let before = client.boot_id().await.unwrap();
        let pulled = installer("v1.13.6");
        let mut pull = client.pull(&pulled).await.unwrap();
        while pull.next().await.unwrap().is_some() {}
        let rejected = match client.install(&pulled, "/dev/sda").await {
            Ok(mut words) => words.next().await.unwrap_err(),
            Err(rejected) => rejected,
        };
        let is_installed = matches!(rejected, TalosError::No { code: Code::AlreadyExists, .. });
        assert!(is_installed, "{rejected:?}");
        let mut install = client.upgrade(&pulled).await.unwrap();
        let mut last = None;
        while let Some(step) = install.next().await.unwrap() {
            last = Some(step);
        }
        assert_eq!(last, Some(Step::Exit(0)));
        assert_eq!(tag(&client).await, "v1.13.0");
        client.reboot(RebootMode::Default).await.unwrap();
        let before = booted(&bed, &client, &before).await;
        assert_eq!(tag(&client).await, "v1.13.6");

        client.rollback().await.unwrap();
        let before = booted(&bed, &client, &before).await;
        assert_eq!(tag(&client).await, "v1.13.0");

        let image = installer("v1.13.6");
        let wanted = LegacyUpgrade { image, stage: false, force: false };
        client.legacy_upgrade(&wanted).await.unwrap();
        let before = booted(&bed, &client, &before).await;
        assert_eq!(tag(&client).await, "v1.13.6");
        let staged = LegacyUpgrade { image: installer("v1.13.0"), stage: true, force: false };
        client.legacy_upgrade(&staged).await.unwrap();
        until("the old version", || async {
            (client.version().await.ok()?.tag == "v1.13.0").then_some(())
        })
        .await;
        booted(&bed, &client, &before).await;
    });
    bed.lab.stop();
}

#[test]
fn invalid_upgrades_are_rejected() {
    let bed = TestBed::new("v1.12.7");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let unknown = "factory.talos.dev/nocloud-installer/0000:v1.13.6".to_owned();
        let rejected = LegacyUpgrade { image: unknown, stage: false, force: false };
        let text = format!("{:?}", client.legacy_upgrade(&rejected).await.unwrap_err());
        assert!(text.contains("error validating installer image"), "{text}");
        assert!(client.upgrade("anything").await.is_err());

        // If the new Talos does not boot, the node reverts to the previous Talos.
        bed.fault("{node: node-11, revert: true}");
        let before = client.boot_id().await.unwrap();
        let bad = LegacyUpgrade { image: installer("v1.13.6"), stage: false, force: false };
        client.legacy_upgrade(&bad).await.unwrap();
        let before = booted(&bed, &client, &before).await;
        assert_eq!(tag(&client).await, "v1.12.7");

        // The installer rejects a downgrade by two releases. The node then runs the same Talos as before.
        let old = LegacyUpgrade { image: installer("v1.10.0"), stage: false, force: false };
        client.legacy_upgrade(&old).await.unwrap();
        booted(&bed, &client, &before).await;
        assert_eq!(tag(&client).await, "v1.12.7");
    });
    bed.lab.stop();
}

#[test]
fn resets_wipe_the_selected_partitions() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let labels = vec!["STATE".to_owned(), "EPHEMERAL".to_owned()];
        let wipe = Wipe::Partitions(labels);
        client.reset(&Reset { graceful: false, reboot: true, wipe }).await.unwrap();
        let anonymous = bed.maintenance(11);
        let stage = until("maintenance mode", || async {
            let status = anonymous.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()??;
            status.text("stage")
        });
        assert_eq!(stage.await, "maintenance");

        let client = bed.bootstrap(11).await;
        let wipe = Wipe::All { user_disks: vec![] };
        client.reset(&Reset { graceful: false, reboot: false, wipe }).await.unwrap();
    });
    bed.lab.wait(until("the machine to be off", || async { (!bed.is_running(11)).then_some(()) }));
    bed.lab.stop();
}

//! Reboots, upgrades and resets.

use talmox_talos_api::client::{
    LegacyUpgrade, Payload, RebootMode, Reset, ResourceKind, Since, Step, Wipe,
};
use talmox_talos_api::proto::machine::sequence_event::Action;
use talmox_talos_api::{Client, Code, TalosError};

use super::world::{SCHEMATIC_ID, World, until};

pub(super) fn installer(version: &str) -> String {
    format!("factory.talos.dev/nocloud-installer/{SCHEMATIC_ID}:{version}")
}

async fn tag(client: &Client) -> String {
    until("a version", || async { Some(client.version().await.ok()?.tag) }).await
}

/// The node has booted anew and is ready.
pub(super) async fn booted(world: &World, client: &Client, before: &str) -> String {
    let now =
        until("another boot", || async { client.boot_id().await.ok().filter(|now| now != before) });
    let now = now.await;
    world.ready(client).await;
    now
}

#[test]
fn a_reboot_tells_its_story_and_ends_in_another_boot() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.lab.wait(async {
        let client = world.bootstrap(11).await;
        let before = client.boot_id().await.unwrap();
        let mut events = client.events(&Since::Now, None).await.unwrap();
        let actor = client.reboot(RebootMode::Default).await.unwrap();
        let mut phases = vec![];
        let mut has_begun = false;
        // The stream ends with the machine.
        while let Ok(Some(event)) = events.next().await {
            if event.actor != actor {
                continue;
            }
            match event.payload {
                Payload::Sequence(told) => {
                    assert_eq!((told.sequence.as_str(), told.action()), ("reboot", Action::Start));
                    has_begun = true;
                }
                Payload::Phase(told) => phases.push(told.phase),
                _ => {}
            }
        }
        assert!(has_begun);
        assert_eq!(phases.first().unwrap(), "cleanup");
        assert!(phases.contains(&"stopEverything".to_owned()), "{phases:?}");
        booted(&world, &client, &before).await;
    });
    world.lab.stop();
}

#[test]
fn upgrades_of_both_kinds_and_the_way_back() {
    let world = World::new("v1.13.0");
    world.start(11);
    world.lab.wait(async {
        let client = world.bootstrap(11).await;
        let before = client.boot_id().await.unwrap();
        let pulled = installer("v1.13.6");
        let mut pull = client.pull(&pulled).await.unwrap();
        while pull.next().await.unwrap().is_some() {}
        let refused = match client.install(&pulled, "/dev/sda").await {
            Ok(mut words) => words.next().await.unwrap_err(),
            Err(refused) => refused,
        };
        let is_installed = matches!(refused, TalosError::No { code: Code::AlreadyExists, .. });
        assert!(is_installed, "{refused:?}");
        let mut install = client.upgrade(&pulled).await.unwrap();
        let mut last = None;
        while let Some(step) = install.next().await.unwrap() {
            last = Some(step);
        }
        assert_eq!(last, Some(Step::Exit(0)));
        assert_eq!(tag(&client).await, "v1.13.0");
        client.reboot(RebootMode::Default).await.unwrap();
        let before = booted(&world, &client, &before).await;
        assert_eq!(tag(&client).await, "v1.13.6");

        client.rollback().await.unwrap();
        let before = booted(&world, &client, &before).await;
        assert_eq!(tag(&client).await, "v1.13.0");

        let image = installer("v1.13.6");
        let wanted = LegacyUpgrade { image, stage: false, force: false };
        client.legacy_upgrade(&wanted).await.unwrap();
        let before = booted(&world, &client, &before).await;
        assert_eq!(tag(&client).await, "v1.13.6");
        let staged = LegacyUpgrade { image: installer("v1.13.0"), stage: true, force: false };
        client.legacy_upgrade(&staged).await.unwrap();
        until("the old version", || async {
            (client.version().await.ok()?.tag == "v1.13.0").then_some(())
        })
        .await;
        booted(&world, &client, &before).await;
    });
    world.lab.stop();
}

#[test]
fn upgrades_that_cannot_be() {
    let world = World::new("v1.12.7");
    world.start(11);
    world.lab.wait(async {
        let client = world.bootstrap(11).await;
        let unknown = "factory.talos.dev/nocloud-installer/0000:v1.13.6".to_owned();
        let refused = LegacyUpgrade { image: unknown, stage: false, force: false };
        let text = format!("{:?}", client.legacy_upgrade(&refused).await.unwrap_err());
        assert!(text.contains("error validating installer image"), "{text}");
        assert!(client.upgrade("anything").await.is_err());

        // What does not boot is given up for what did.
        world.fault("{node: node-11, revert: true}");
        let before = client.boot_id().await.unwrap();
        let bad = LegacyUpgrade { image: installer("v1.13.6"), stage: false, force: false };
        client.legacy_upgrade(&bad).await.unwrap();
        let before = booted(&world, &client, &before).await;
        assert_eq!(tag(&client).await, "v1.12.7");

        // Two releases back is too far: the installer says no, and the node comes back as it was.
        let old = LegacyUpgrade { image: installer("v1.10.0"), stage: false, force: false };
        client.legacy_upgrade(&old).await.unwrap();
        booted(&world, &client, &before).await;
        assert_eq!(tag(&client).await, "v1.12.7");
    });
    world.lab.stop();
}

#[test]
fn resets_forget_what_they_are_told_to() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.lab.wait(async {
        let client = world.bootstrap(11).await;
        let labels = vec!["STATE".to_owned(), "EPHEMERAL".to_owned()];
        let wipe = Wipe::Partitions(labels);
        client.reset(&Reset { graceful: false, reboot: true, wipe }).await.unwrap();
        let anonymous = world.maintenance(11);
        let stage = until("maintenance", || async {
            let status = anonymous.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()??;
            status.text("stage")
        });
        assert_eq!(stage.await, "maintenance");

        let client = world.bootstrap(11).await;
        let wipe = Wipe::All { user_disks: vec![] };
        client.reset(&Reset { graceful: false, reboot: false, wipe }).await.unwrap();
    });
    world
        .lab
        .wait(until("a machine that is off", || async { (!world.is_running(11)).then_some(()) }));
    world.lab.stop();
}

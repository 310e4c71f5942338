//! The ways to apply a config: when it takes effect, for how long, and what is on the disk meanwhile.

use std::time::Duration;

use talmox_talos_api::client::{Applied, Apply, ApplyMode, RebootMode, ResourceKind};
use talmox_talos_api::{Client, TalosError};
use talmox_talos_config::secret::SecretText;

use super::sequence::booted;
use super::world::{World, until};

/// Longer than this test takes, in the lab's time.
const FOR_NOW: Duration = Duration::from_hours(100);
/// Longer than what is taken where no time is given.
const GIVEN: Duration = Duration::from_mins(3);

async fn apply(client: &Client, config: &SecretText, mode: ApplyMode) -> Applied {
    client.apply(&Apply { config, mode, dry_run: false }).await.unwrap()
}

/// The same where the node reboots for it, a moment later: the answer may be lost.
async fn apply_and_reboot(client: &Client, config: &SecretText, mode: ApplyMode) {
    match client.apply(&Apply { config, mode, dry_run: false }).await {
        Ok(told) => assert_eq!(told.mode, Some(ApplyMode::Reboot)),
        Err(TalosError::Lost { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
}

/// Whether what runs, and what is on the disk, are these.
async fn are(client: &Client, running: &SecretText, saved: &SecretText) -> [bool; 2] {
    let config = async |id: &str| client.get(ResourceKind::MACHINE_CONFIG, id).await.unwrap();
    let (found, kept) = (config("v1alpha1").await.unwrap(), config("persistent").await.unwrap());
    [found.config_text() == *running, kept.config_text() == *saved]
}

#[test]
fn configs_are_tried_staged_and_applied_with_a_reboot() {
    let world = World::new("v1.13.6");
    world.start(11);
    let first = world.config(11, true);
    let named = |name: &str| SecretText::new(first.expose().replace("node-11", name));
    world.lab.wait(async {
        let client = world.bootstrap(11).await;
        let boot = client.boot_id().await.unwrap();
        assert_eq!(are(&client, &first, &first).await, [true; 2]);

        // Tried: in effect, and not on the disk.
        let tried = named("tried");
        let told = apply(&client, &tried, ApplyMode::Try(Some(FOR_NOW))).await;
        assert!(matches!(told.mode, Some(ApplyMode::Try(_))), "{told:?}");
        assert!(told.details.expose().ends_with(" automatically reverted back in 100h0m0s"));
        assert_eq!(client.hostname().await.unwrap(), "tried");
        assert_eq!(are(&client, &tried, &first).await, [true; 2]);
        // Whatever is applied next takes its place.
        apply(&client, &first, ApplyMode::NoReboot).await;
        assert_eq!(are(&client, &first, &first).await, [true; 2]);

        // It goes back by itself, and not before the time that was given.
        let before = world.lab.lab().clock().moment();
        apply(&client, &named("again"), ApplyMode::Try(Some(GIVEN))).await;
        until("the way back", || async {
            (client.hostname().await.ok()? == "node-11").then_some(())
        })
        .await;
        let took = world.lab.lab().clock().moment().since(before);
        assert!(took >= GIVEN, "{took:?}");
        assert_eq!(are(&client, &first, &first).await, [true; 2]);

        // Staged: on the disk, and in effect after a reboot that somebody else asks for.
        let staged = named("staged");
        let told = apply(&client, &staged, ApplyMode::Staged).await;
        assert_eq!(told.mode, Some(ApplyMode::Staged));
        assert_eq!(client.hostname().await.unwrap(), "node-11");
        assert_eq!(are(&client, &first, &staged).await, [true; 2]);
        assert_eq!(client.boot_id().await.unwrap(), boot);
        client.reboot(RebootMode::Default).await.unwrap();
        let boot = booted(&world, &client, &boot).await;
        assert_eq!(client.hostname().await.unwrap(), "staged");
        assert_eq!(are(&client, &staged, &staged).await, [true; 2]);

        // What needs a reboot gets one where the node may choose.
        let text = staged.expose().replace("diskQuotaSupport: true", "diskQuotaSupport: false");
        let quota = SecretText::new(text);
        apply_and_reboot(&client, &quota, ApplyMode::Auto).await;
        let boot = booted(&world, &client, &boot).await;
        assert_eq!(are(&client, &quota, &quota).await, [true; 2]);

        // What needs none gets one where it is asked for.
        apply_and_reboot(&client, &first, ApplyMode::Reboot).await;
        booted(&world, &client, &boot).await;
        assert_eq!(are(&client, &first, &first).await, [true; 2]);
    });
    world.lab.stop();
}

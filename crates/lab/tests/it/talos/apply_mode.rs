//! Tests of the apply modes: when a config takes effect, for how long, and when it is on the disk.

use std::time::Duration;

use talmox_talos_api::client::{Applied, Apply, ApplyMode, RebootMode, ResourceKind};
use talmox_talos_api::{Client, TalosError};
use talmox_talos_config::secret::SecretText;

use super::sequence::booted;
use super::test_bed::{TestBed, until};

/// Timeout of the try mode in lab time, longer than this test takes.
const LONG_TRY: Duration = Duration::from_hours(100);
/// Timeout of the try mode that is longer than its default.
const EXPLICIT_TRY: Duration = Duration::from_mins(3);

async fn apply(client: &Client, config: &SecretText, mode: ApplyMode) -> Applied {
    client.apply(&Apply { config, mode, dry_run: false }).await.unwrap()
}

/// Applies a config with a reboot, which may lose the answer.
async fn apply_and_reboot(client: &Client, config: &SecretText, mode: ApplyMode) {
    match client.apply(&Apply { config, mode, dry_run: false }).await {
        Ok(applied) => assert_eq!(applied.mode, Some(ApplyMode::Reboot)),
        Err(TalosError::Lost { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
}

/// Whether the running and the saved config are these.
async fn are_configs(client: &Client, running: &SecretText, saved: &SecretText) -> [bool; 2] {
    let config = async |id: &str| client.get(ResourceKind::MACHINE_CONFIG, id).await.unwrap();
    let (found, persistent) =
        (config("v1alpha1").await.unwrap(), config("persistent").await.unwrap());
    [found.config_text() == *running, persistent.config_text() == *saved]
}

#[test]
fn configs_are_tried_staged_and_applied_with_a_reboot() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    let first = bed.config(11, true);
    let named = |name: &str| SecretText::new(first.expose().replace("node-11", name));
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let boot = client.boot_id().await.unwrap();
        assert_eq!(are_configs(&client, &first, &first).await, [true; 2]);

        // Try mode: in effect, but not on the disk.
        let tried = named("tried");
        let applied = apply(&client, &tried, ApplyMode::Try(Some(LONG_TRY))).await;
        assert!(matches!(applied.mode, Some(ApplyMode::Try(_))), "{applied:?}");
        assert!(applied.details.expose().ends_with(" automatically reverted back in 100h0m0s"));
        assert_eq!(client.hostname().await.unwrap(), "tried");
        assert_eq!(are_configs(&client, &tried, &first).await, [true; 2]);
        // The next applied config replaces it.
        apply(&client, &first, ApplyMode::NoReboot).await;
        assert_eq!(are_configs(&client, &first, &first).await, [true; 2]);

        // The config is reverted automatically, but not before the timeout.
        let before = bed.lab.lab().clock().moment();
        apply(&client, &named("again"), ApplyMode::Try(Some(EXPLICIT_TRY))).await;
        until("the revert", || async {
            (client.hostname().await.ok()? == "node-11").then_some(())
        })
        .await;
        let took = bed.lab.lab().clock().moment().since(before);
        assert!(took >= EXPLICIT_TRY, "{took:?}");
        assert_eq!(are_configs(&client, &first, &first).await, [true; 2]);

        // Staged mode: on the disk, and in effect after the next reboot.
        let staged = named("staged");
        let applied = apply(&client, &staged, ApplyMode::Staged).await;
        assert_eq!(applied.mode, Some(ApplyMode::Staged));
        assert_eq!(client.hostname().await.unwrap(), "node-11");
        assert_eq!(are_configs(&client, &first, &staged).await, [true; 2]);
        assert_eq!(client.boot_id().await.unwrap(), boot);
        client.reboot(RebootMode::Default).await.unwrap();
        let boot = booted(&bed, &client, &boot).await;
        assert_eq!(client.hostname().await.unwrap(), "staged");
        assert_eq!(are_configs(&client, &staged, &staged).await, [true; 2]);

        // A change that needs a reboot causes one in auto mode.
        let text = staged.expose().replace("diskQuotaSupport: true", "diskQuotaSupport: false");
        let quota = SecretText::new(text);
        apply_and_reboot(&client, &quota, ApplyMode::Auto).await;
        let boot = booted(&bed, &client, &boot).await;
        assert_eq!(are_configs(&client, &quota, &quota).await, [true; 2]);

        // Reboot mode reboots for a change that needs none.
        apply_and_reboot(&client, &first, ApplyMode::Reboot).await;
        booted(&bed, &client, &boot).await;
        assert_eq!(are_configs(&client, &first, &first).await, [true; 2]);
    });
    bed.lab.stop();
}

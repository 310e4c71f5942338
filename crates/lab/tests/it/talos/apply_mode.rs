//! Tests of the apply modes: when a config takes effect, for how long, and when it is on the disk.

use std::time::Duration;

use talmox_talos_api::client::{Applied, Apply, ApplyMode, RebootMode, ResourceKind};
use talmox_talos_api::{Client, TalosError};
use talmox_talos_config::secret::SecretText;

use super::sequence::booted;
use super::test_bed::{TestBed, until};

/// Timeout of try mode in lab time. The test does not take this long.
const LONG_TRY: Duration = Duration::from_hours(100);
/// Timeout of try mode that is longer than the default.
const EXPLICIT_TRY: Duration = Duration::from_mins(3);

async fn apply(client: &Client, config: &SecretText, mode: ApplyMode) -> Applied {
    client.apply(&Apply { config, mode, dry_run: false }).await.unwrap()
}

/// Applies a config in a way that reboots the node. The reboot may lose the answer.
async fn apply_and_reboot(client: &Client, config: &SecretText, mode: ApplyMode) {
    match client.apply(&Apply { config, mode, dry_run: false }).await {
        Ok(applied) => assert_eq!(applied.mode, Some(ApplyMode::Reboot)),
        Err(TalosError::Lost { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
}

/// Whether `running` is the running config, and `saved` is the saved config. A node reports a saved config only if it was saved
/// in this boot.
async fn are_configs(
    client: &Client,
    running: &SecretText,
    saved: Option<&SecretText>,
) -> [bool; 2] {
    let config = async |id: &str| client.get(ResourceKind::MACHINE_CONFIG, id).await.unwrap();
    let (found, persistent) = (config("v1alpha1").await.unwrap(), config("persistent").await);
    let persistent = persistent.map(|saved| saved.config_text());
    [found.config_text() == *running, persistent.as_ref() == saved]
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
        assert_eq!(are_configs(&client, &first, Some(&first)).await, [true; 2]);

        // In try mode, the config is in effect but not on the disk.
        let tried = named("tried");
        let applied = apply(&client, &tried, ApplyMode::Try(Some(LONG_TRY))).await;
        assert!(matches!(applied.mode, Some(ApplyMode::Try(_))), "{applied:?}");
        assert!(applied.details.expose().ends_with(" automatically reverted back in 100h0m0s"));
        assert_eq!(client.hostname().await.unwrap(), "tried");
        assert_eq!(are_configs(&client, &tried, Some(&first)).await, [true; 2]);
        // The next applied config replaces the tried config.
        apply(&client, &first, ApplyMode::NoReboot).await;
        assert_eq!(are_configs(&client, &first, Some(&first)).await, [true; 2]);

        // The tried config is reverted automatically, but not before the timeout.
        let before = bed.lab.lab().clock().moment();
        apply(&client, &named("again"), ApplyMode::Try(Some(EXPLICIT_TRY))).await;
        until("the revert", || async {
            (client.hostname().await.ok()? == "node-11").then_some(())
        })
        .await;
        let took = bed.lab.lab().clock().moment().since(before);
        assert!(took >= EXPLICIT_TRY, "{took:?}");
        assert_eq!(are_configs(&client, &first, Some(&first)).await, [true; 2]);

        // In staged mode, the config is on the disk, and in effect after the next reboot.
        let staged = named("staged");
        let applied = apply(&client, &staged, ApplyMode::Staged).await;
        assert_eq!(applied.mode, Some(ApplyMode::Staged));
        assert_eq!(client.hostname().await.unwrap(), "node-11");
        assert_eq!(are_configs(&client, &first, Some(&staged)).await, [true; 2]);
        assert_eq!(client.boot_id().await.unwrap(), boot);
        client.reboot(RebootMode::Default).await.unwrap();
        let boot = booted(&bed, &client, &boot).await;
        assert_eq!(client.hostname().await.unwrap(), "staged");
        assert_eq!(are_configs(&client, &staged, None).await, [true; 2]);

        // In auto mode, a change that needs a reboot causes a reboot.
        let text = staged.expose().replace("diskQuotaSupport: true", "diskQuotaSupport: false");
        let quota = SecretText::new(text);
        apply_and_reboot(&client, &quota, ApplyMode::Auto).await;
        let boot = booted(&bed, &client, &boot).await;
        assert_eq!(are_configs(&client, &quota, None).await, [true; 2]);

        // In reboot mode, even a change that needs no reboot causes a reboot.
        apply_and_reboot(&client, &first, ApplyMode::Reboot).await;
        booted(&bed, &client, &boot).await;
        assert_eq!(are_configs(&client, &first, None).await, [true; 2]);
    });
    bed.lab.stop();
}

#[test]
fn a_dry_run_ends_a_trial() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    let first = bed.config(11, true);
    let tried = SecretText::new(first.expose().replace("node-11", "tried"));
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        apply(&client, &tried, ApplyMode::Try(Some(EXPLICIT_TRY))).await;
        let dry = Apply { config: &first, mode: ApplyMode::Auto, dry_run: true };
        assert_eq!(client.apply(&dry).await.unwrap().mode, Some(ApplyMode::NoReboot));
        bed.lab.lab().clock().sleep(EXPLICIT_TRY * 2).await;
        // The tried config stays in effect until the next boot, which uses the earlier config.
        assert_eq!(client.hostname().await.unwrap(), "tried");
        let saved = client.get(ResourceKind::MACHINE_CONFIG, "persistent").await.unwrap().unwrap();
        let saved = saved.config_text();
        assert!(saved.expose().contains("node-11") && !saved.expose().contains("tried"));
    });
    bed.lab.stop();
}

#[test]
fn nodes_before_1_12_report_the_config_on_their_disk_too() {
    let bed = TestBed::new("v1.11.2");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let config = async |id: &str| client.get(ResourceKind::MACHINE_CONFIG, id).await.unwrap();
        let (running, saved) = (config("v1alpha1").await, config("persistent").await);
        assert_eq!(running.unwrap().config_text(), saved.unwrap().config_text());
    });
    bed.lab.stop();
}

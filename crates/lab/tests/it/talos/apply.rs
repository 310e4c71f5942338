//! What nodes say to configs: to good ones that are only tried on, and to bad ones.

use talmox_talos_api::client::{Applied, Apply, ApplyMode, ResourceKind};
use talmox_talos_api::{Client, Code, TalosError, Verdict};
use talmox_talos_config::cidata;
use talmox_talos_config::secret::SecretText;

use super::world::{World, until};

async fn try_on(client: &Client, config: &SecretText) -> Result<Applied, TalosError> {
    client.apply(&Apply { config, mode: ApplyMode::Auto, dry_run: true }).await
}

#[test]
fn a_dry_run_shows_what_would_be_different() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.lab.wait(async {
        let config = world.config(11, true);
        let anonymous = world.maintenance(11);
        let tried = until("maintenance", || async { try_on(&anonymous, &config).await.ok() }).await;
        assert_eq!(tried.mode, Some(ApplyMode::NoReboot));
        let told = tried.details.expose();
        let begin = "Dry run summary:\nApplied configuration without a reboot (skipped in dry-run).\nConfig diff:\n\n--- a\n+++ b\n@@ -0,0 +1,";
        assert!(told.starts_with(begin), "{}", &told[..begin.len()]);
        // All of it, keys and all.
        let keys = config.expose().lines().filter(|line| line.trim_start().starts_with("key: "));
        let missing = keys.filter(|line| !told.contains(&format!("\n+{line}\n")));
        assert_eq!(missing.count(), 0);

        let client = world.configure(11, true).await;
        let same = try_on(&client, &config).await.unwrap();
        assert!(same.details.expose().ends_with("(skipped in dry-run).\nConfig diff:\n\nNo changes."));
        let renamed = SecretText::new(config.expose().replace("node-11", "renamed"));
        let told = try_on(&client, &renamed).await.unwrap();
        assert_eq!(told.mode, Some(ApplyMode::NoReboot));
        let lines: Vec<&str> = told.details.expose().lines().collect();
        let changes: Vec<&str> =
            lines.iter().copied().filter(|line| line.starts_with(['+', '-'])).collect();
        assert_eq!(changes, ["--- a", "+++ b", "-hostname: node-11", "+hostname: renamed"]);
        let files = config.expose().replace("diskQuotaSupport: true", "diskQuotaSupport: false");
        let told = try_on(&client, &SecretText::new(files)).await.unwrap();
        assert_eq!(told.mode, Some(ApplyMode::Reboot));
        let begin = "Dry run summary:\nApplied configuration with a reboot (skipped in dry-run).\n";
        assert!(told.details.expose().starts_with(begin));
        // Nothing of that has happened.
        assert_eq!(client.hostname().await.unwrap(), "node-11");
    });
    world.lab.stop();

    let world = World::new("v1.12.7");
    world.start(11);
    world.lab.wait(async {
        let config = world.config(11, true);
        let anonymous = world.maintenance(11);
        let tried = until("maintenance", || async { try_on(&anonymous, &config).await.ok() }).await;
        let wanted =
            "Dry run summary:\nNode is running in maintenance mode and does not have a config yet.";
        assert_eq!((tried.mode, tried.details.expose()), (None, wanted));
    });
    world.lab.stop();
}

#[test]
fn bad_configs_are_refused_in_the_words_of_talos() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.lab.wait(async {
        let client = world.configure(11, true).await;
        let good = world.config(11, true);
        let refused = async |from: &str, to: &str| {
            let bad = good.expose().replacen(from, to, 1);
            assert_ne!(bad, *good.expose(), "{from}");
            let bad = SecretText::new(bad);
            let apply = Apply { config: &bad, mode: ApplyMode::Auto, dry_run: false };
            match client.apply(&apply).await.unwrap_err() {
                TalosError::No { code: Code::InvalidArgument, message, .. } => message,
                other => panic!("{from}: {other:?}"),
            }
        };
        let unknown = refused("    certSANs:", "    colour: red\n    certSANs:").await;
        assert!(unknown.contains("unknown keys found during decoding:"), "{unknown}");
        assert!(unknown.contains("colour: …"), "{unknown}");
        let wrong = refused("diskQuotaSupport: true", "diskQuotaSupport: [1]").await;
        assert!(wrong.contains("cannot ") && wrong.contains(" into bool"), "{wrong}");
        let value = refused("type: controlplane", "type: controller").await;
        assert!(value.contains("configuration validation failed: "), "{value}");
        let twice = refused("auto: off", "auto: stable").await;
        assert!(twice.contains("HostnameConfig"), "{twice}");
        let kind = refused("kind: HostnameConfig", "kind: HostNameConfig").await;
        assert!(kind.contains("not registered"), "{kind}");
        assert_eq!(client.hostname().await.unwrap(), "node-11");
    });
    world.lab.stop();
}

/// A volume of files for cloud-init, as a CD in the machine's drive.
fn insert(world: &World, name: &str, user_data: &str, number: u8) -> String {
    let network = format!(
        "version: 1\nconfig:\n  - type: physical\n    name: eth0\n    mac_address: bc:24:11:00:00:{number:02x}\n    subnets:\n      - type: static\n        address: 10.0.0.{number}/24\n        gateway: 10.0.0.1\n"
    );
    let files: [(&str, &[u8]); 3] = [
        ("user-data", user_data.as_bytes()),
        ("meta-data", b"instance-id: cd\n"),
        ("network-config", network.as_bytes()),
    ];
    let image = cidata::volume(&files).unwrap();
    crate::upload::upload_iso(&world.lab, name, image.as_bytes());
    format!("local:iso/{name},media=cdrom")
}

#[test]
fn a_machine_whose_config_on_a_volume_is_wrong_opens_no_port() {
    let world = World::new("v1.13.6");
    let good = world.config(12, true);
    let bad = world.config(11, true).expose().replace("type: controlplane", "type: controller");
    let wrong = insert(&world, "wrong.iso", &bad, 11);
    let right = insert(&world, "right.iso", good.expose(), 12);
    world.start_with(11, &[("ide2", &wrong)]);
    world.start_with(12, &[("ide2", &right)]);
    world.lab.wait(async {
        let client = world.client(12);
        until("a node that needs no maintenance", || async { client.version().await.ok() }).await;
        assert_eq!(client.hostname().await.unwrap(), "node-12");
        // It began earlier, and would be there by now.
        assert!(matches!(world.probe(11).await, Verdict::Nothing(_)));
    });
    // With another volume it is like any other.
    world.stop(11);
    let mended = insert(&world, "mended.iso", world.config(11, true).expose(), 11);
    world.set(11, &format!("ide2={}", mended.replace('=', "%3D")));
    world.power(11, "start");
    world.lab.wait(async {
        let client = world.client(11);
        until("a node with a good config", || async { client.version().await.ok() }).await;
    });
    world.lab.stop();
}

#[test]
fn a_release_that_does_not_know_what_is_on_state_opens_no_port() {
    use talmox_talos_api::client::LegacyUpgrade;

    let world = World::new("v1.13.6");
    world.start(11);
    world.start(12);
    let newer = "apiVersion: v1alpha1\nkind: EnvironmentConfig\nvariables:\n  GRPC_GO_LOG_SEVERITY_LEVEL: info\n";
    world.lab.wait(async {
        let strange = world.configure_with(11, &world.patched(11, true, newer)).await;
        let plain = world.configure(12, true).await;
        for client in [&strange, &plain] {
            let image = super::sequence::installer("v1.12.7");
            let upgrade = LegacyUpgrade { image, stage: false, force: true };
            client.legacy_upgrade(&upgrade).await.unwrap();
        }
        until("a node of the older release", || async {
            (plain.version().await.ok()?.tag == "v1.12.7").then_some(())
        })
        .await;
        until("no answer", || async {
            matches!(world.probe(11).await, Verdict::Nothing(_)).then_some(())
        })
        .await;
    });
    world.lab.stop();
}

#[test]
fn documents_alone_are_in_effect_and_maintenance_goes_on() {
    let world = World::new("v1.13.6");
    world.start(11);
    let part = "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses:\n  - address: 10.0.0.78/24\n";
    world.lab.wait(async {
        world.apply(11, &SecretText::new(part.to_owned())).await;
        until("maintenance at another address too", || async {
            matches!(world.probe(78).await, Verdict::Maintenance(_)).then_some(())
        })
        .await;
        assert!(matches!(world.probe(11).await, Verdict::Maintenance(_)));
        // A whole config takes their place.
        let client = world.configure(11, true).await;
        let all = client.list(ResourceKind::ADDRESS_STATUS).await.unwrap();
        let ids = all.into_iter().map(|one| one.id).filter(|id| id.starts_with("eth0/10."));
        assert_eq!(ids.collect::<Vec<_>>(), ["eth0/10.0.0.11/24"]);
    });
    world.lab.stop();
}

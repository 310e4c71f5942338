//! Tests of dry runs and of invalid configs.

use talmox_talos_api::client::{Applied, Apply, ApplyMode, ResourceKind};
use talmox_talos_api::{Client, Code, TalosError, Verdict};
use talmox_talos_config::cidata;
use talmox_talos_config::secret::SecretText;

use super::test_bed::{TestBed, until};

async fn dry_run(client: &Client, config: &SecretText) -> Result<Applied, TalosError> {
    client.apply(&Apply { config, mode: ApplyMode::Auto, dry_run: true }).await
}

#[test]
fn a_dry_run_shows_the_changes() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let config = bed.config(11, true);
        let anonymous = bed.maintenance(11);
        let tried = until("maintenance mode", || async { dry_run(&anonymous, &config).await.ok() }).await;
        assert_eq!(tried.mode, Some(ApplyMode::NoReboot));
        let summary = tried.details.expose();
        let prefix = "Dry run summary:\nApplied configuration without a reboot (skipped in dry-run).\nConfig diff:\n\n--- a\n+++ b\n@@ -0,0 +1,";
        assert!(summary.starts_with(prefix), "{}", &summary[..prefix.len()]);
        // The diff contains the whole config, including its keys.
        let keys = config.expose().lines().filter(|line| line.trim_start().starts_with("key: "));
        let missing = keys.filter(|line| !summary.contains(&format!("\n+{line}\n")));
        assert_eq!(missing.count(), 0);

        let client = bed.configure(11, true).await;
        let same = dry_run(&client, &config).await.unwrap();
        assert!(same.details.expose().ends_with("(skipped in dry-run).\nConfig diff:\n\nNo changes."));
        let renamed = SecretText::new(config.expose().replace("node-11", "renamed"));
        let summary = dry_run(&client, &renamed).await.unwrap();
        assert_eq!(summary.mode, Some(ApplyMode::NoReboot));
        let lines: Vec<&str> = summary.details.expose().lines().collect();
        let changes: Vec<&str> =
            lines.iter().copied().filter(|line| line.starts_with(['+', '-'])).collect();
        assert_eq!(changes, ["--- a", "+++ b", "-hostname: node-11", "+hostname: renamed"]);
        let files = config.expose().replace("diskQuotaSupport: true", "diskQuotaSupport: false");
        let summary = dry_run(&client, &SecretText::new(files)).await.unwrap();
        assert_eq!(summary.mode, Some(ApplyMode::Reboot));
        let prefix = "Dry run summary:\nApplied configuration with a reboot (skipped in dry-run).\n";
        assert!(summary.details.expose().starts_with(prefix));
        // The dry run changed nothing.
        assert_eq!(client.hostname().await.unwrap(), "node-11");
    });
    bed.lab.stop();

    let bed = TestBed::new("v1.12.7");
    bed.start(11);
    bed.lab.wait(async {
        let config = bed.config(11, true);
        let anonymous = bed.maintenance(11);
        let tried =
            until("maintenance mode", || async { dry_run(&anonymous, &config).await.ok() }).await;
        let wanted =
            "Dry run summary:\nNode is running in maintenance mode and does not have a config yet.";
        assert_eq!((tried.mode, tried.details.expose()), (None, wanted));
    });
    bed.lab.stop();
}

#[test]
fn invalid_configs_are_rejected_with_the_messages_of_talos() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.configure(11, true).await;
        let good = bed.config(11, true);
        let rejected = async |from: &str, to: &str| {
            let bad = good.expose().replacen(from, to, 1);
            assert_ne!(bad, *good.expose(), "{from}");
            let bad = SecretText::new(bad);
            let apply = Apply { config: &bad, mode: ApplyMode::Auto, dry_run: false };
            match client.apply(&apply).await.unwrap_err() {
                TalosError::No { code: Code::InvalidArgument, message, .. } => message,
                other => panic!("{from}: {other:?}"),
            }
        };
        let unknown = rejected("    certSANs:", "    colour: red\n    certSANs:").await;
        assert!(unknown.contains("unknown keys found during decoding:"), "{unknown}");
        assert!(unknown.contains("colour: …"), "{unknown}");
        let wrong = rejected("diskQuotaSupport: true", "diskQuotaSupport: [1]").await;
        assert!(wrong.contains("cannot ") && wrong.contains(" into bool"), "{wrong}");
        let value = rejected("type: controlplane", "type: controller").await;
        assert!(value.contains("configuration validation failed: "), "{value}");
        let twice = rejected("auto: off", "auto: stable").await;
        assert!(twice.contains("HostnameConfig"), "{twice}");
        let kind = rejected("kind: HostnameConfig", "kind: HostNameConfig").await;
        assert!(kind.contains("not registered"), "{kind}");
        assert_eq!(client.hostname().await.unwrap(), "node-11");
    });
    bed.lab.stop();
}

/// Creates a cidata volume with these files, as a CD of the machine.
fn insert(bed: &TestBed, name: &str, user_data: &str, number: u8) -> String {
    let network = format!(
        "version: 1\nconfig:\n  - type: physical\n    name: eth0\n    mac_address: bc:24:11:00:00:{number:02x}\n    subnets:\n      - type: static\n        address: 10.0.0.{number}/24\n        gateway: 10.0.0.1\n"
    );
    let files: [(&str, &[u8]); 3] = [
        ("user-data", user_data.as_bytes()),
        ("meta-data", b"instance-id: cd\n"),
        ("network-config", network.as_bytes()),
    ];
    let image = cidata::volume(&files).unwrap();
    crate::upload::upload_iso(&bed.lab, name, image.as_bytes());
    format!("local:iso/{name},media=cdrom")
}

#[test]
fn a_machine_with_an_invalid_cidata_config_opens_no_port() {
    let bed = TestBed::new("v1.13.6");
    let good = bed.config(12, true);
    let bad = bed.config(11, true).expose().replace("type: controlplane", "type: controller");
    let wrong = insert(&bed, "wrong.iso", &bad, 11);
    let right = insert(&bed, "right.iso", good.expose(), 12);
    bed.start_with(11, &[("ide2", &wrong)]);
    bed.start_with(12, &[("ide2", &right)]);
    bed.lab.wait(async {
        let client = bed.client(12);
        until("the node without maintenance mode", || async { client.version().await.ok() }).await;
        assert_eq!(client.hostname().await.unwrap(), "node-12");
        // The machine has been running for some time, so the port would be open by now.
        assert!(matches!(bed.probe(11).await, Verdict::Nothing(_)));
    });
    // With another cidata volume, the machine boots normally.
    bed.stop(11);
    let corrected = insert(&bed, "corrected.iso", bed.config(11, true).expose(), 11);
    bed.set(11, &format!("ide2={}", corrected.replace('=', "%3D")));
    bed.power(11, "start");
    bed.lab.wait(async {
        let client = bed.client(11);
        until("the node with a valid config", || async { client.version().await.ok() }).await;
    });
    bed.lab.stop();
}

#[test]
fn a_machine_with_an_unknown_document_in_state_opens_no_port() {
    use talmox_talos_api::client::LegacyUpgrade;

    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.start(12);
    let newer = "apiVersion: v1alpha1\nkind: EnvironmentConfig\nvariables:\n  GRPC_GO_LOG_SEVERITY_LEVEL: info\n";
    bed.lab.wait(async {
        let strange = bed.configure_with(11, &bed.patched(11, true, newer)).await;
        let plain = bed.configure(12, true).await;
        for client in [&strange, &plain] {
            let image = super::sequence::installer("v1.12.7");
            let upgrade = LegacyUpgrade { image, stage: false, force: true };
            client.legacy_upgrade(&upgrade).await.unwrap();
        }
        until("a node of the older release", || async {
            (plain.version().await.ok()?.tag == "v1.12.7").then_some(())
        })
        .await;
        until("the node to stop answering", || async {
            matches!(bed.probe(11).await, Verdict::Nothing(_)).then_some(())
        })
        .await;
    });
    bed.lab.stop();
}

#[test]
fn partial_configs_apply_in_maintenance_mode() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    let part = "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses:\n  - address: 10.0.0.78/24\n";
    bed.lab.wait(async {
        bed.apply(11, &SecretText::new(part.to_owned())).await;
        until("maintenance mode at the second address", || async {
            matches!(bed.probe(78).await, Verdict::Maintenance(_)).then_some(())
        })
        .await;
        assert!(matches!(bed.probe(11).await, Verdict::Maintenance(_)));
        // A complete config replaces the partial config.
        let client = bed.configure(11, true).await;
        let all = client.list(ResourceKind::ADDRESS_STATUS).await.unwrap();
        let ids = all.into_iter().map(|one| one.id).filter(|id| id.starts_with("eth0/10."));
        assert_eq!(ids.collect::<Vec<_>>(), ["eth0/10.0.0.11/24"]);
    });
    bed.lab.stop();
}

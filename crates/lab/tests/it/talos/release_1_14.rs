//! Tests of the differences between the newest release and earlier releases.

use talmox_talos_api::client::{Apply, ApplyMode, ResourceKind};
use talmox_talos_api::{Code, TalosError};
use talmox_talos_config::secret::SecretText;

use super::test_bed::TestBed;

#[test]
fn nodes_of_1_14_apply_configs_without_a_reboot() {
    let bed = TestBed::new("v1.14.0-rc.1");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        assert_eq!(client.version().await.unwrap().tag, "v1.14.0-rc.1");
        let boot = client.boot_id().await.unwrap();
        let config = bed.config(11, true);
        let apply = Apply { config: &config, mode: ApplyMode::Reboot, dry_run: false };
        let rejected = client.apply(&apply).await.unwrap_err();
        assert!(
            matches!(rejected, TalosError::No { code: Code::Unimplemented, .. }),
            "{rejected:?}"
        );
        // In earlier releases, this change needed a reboot at once. Here it takes effect at the next boot.
        let other = config.expose().replace("diskQuotaSupport: true", "diskQuotaSupport: false");
        assert_ne!(other, *config.expose());
        let other = SecretText::new(other);
        let apply = Apply { config: &other, mode: ApplyMode::Auto, dry_run: false };
        let applied = client.apply(&apply).await.unwrap();
        assert_eq!(applied.mode, Some(ApplyMode::NoReboot));
        assert_eq!(client.boot_id().await.unwrap(), boot);
        let now = client.get(ResourceKind::MACHINE_CONFIG, "v1alpha1").await.unwrap().unwrap();
        assert_eq!(now.config_text(), other);
    });
    bed.lab.stop();
}

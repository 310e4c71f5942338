//! What is different on the newest nodes.

use talmox_talos_api::client::{Apply, ApplyMode, ResourceKind};
use talmox_talos_api::{Code, TalosError};
use talmox_talos_config::secret::SecretText;

use super::world::World;

#[test]
fn nodes_of_1_14_boot_take_configs_and_reboot_for_none() {
    let world = World::new("v1.14.0-rc.1");
    world.start(11);
    world.lab.wait(async {
        let client = world.bootstrap(11).await;
        assert_eq!(client.version().await.unwrap().tag, "v1.14.0-rc.1");
        let boot = client.boot_id().await.unwrap();
        let config = world.config(11, true);
        let apply = Apply { config: &config, mode: ApplyMode::Reboot, dry_run: false };
        let refused = client.apply(&apply).await.unwrap_err();
        assert!(matches!(refused, TalosError::No { code: Code::Unimplemented, .. }), "{refused:?}");
        // What once needed a reboot waits for the next one, whenever that is.
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
    world.lab.stop();
}

//! How much is asked of Proxmox, without looks at tasks.

use super::inventory::home;
use super::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn proxmox_is_not_asked_more_than_it_must_be() {
    let rig = Rig::start();
    rig.up(&home()).await.assert_done();
    let fresh = rig.asked();
    assert!(fresh.len() <= 50, "{} requests:\n{}", fresh.len(), fresh.join("\n"));
    let plan = rig.plan(&home()).await;
    assert!(plan.is_empty());
    let all = rig.asked();
    let again = &all[fresh.len()..];
    assert!(again.len() <= 5 + 6, "{} requests:\n{}", again.len(), again.join("\n"));
}

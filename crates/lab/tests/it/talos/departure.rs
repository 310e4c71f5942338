//! Nodes that leave: gracefully, for a while, or for good.

use talmox_talos_api::client::{Reset, ResourceKind, Wipe};
use talmox_talos_api::{Client, Code, TalosError};

use super::world::{World, until};

async fn stage(client: &Client) -> Option<String> {
    client.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()??.text("stage")
}

async fn members(client: &Client) -> Vec<String> {
    let members = client.etcd_members().await.unwrap_or_default();
    let mut voters: Vec<String> =
        members.into_iter().filter(|one| !one.is_learner).map(|one| one.hostname).collect();
    voters.sort();
    voters
}

#[test]
fn a_graceful_reset_leaves_etcd_and_ends_in_maintenance() {
    let world = World::new("v1.13.6");
    for number in [11, 12, 13] {
        world.start(number);
    }
    world.lab.wait(async {
        let first = world.bootstrap(11).await;
        for number in [12, 13] {
            let other = world.configure(number, true).await;
            world.ready(&other).await;
        }
        let all = ["node-11", "node-12", "node-13"];
        until("three members", || async { (members(&first).await == all).then_some(()) }).await;

        let labels = vec!["STATE".to_owned(), "EPHEMERAL".to_owned()];
        let wipe = Wipe::Partitions(labels);
        let leaving = world.client(13);
        leaving.reset(&Reset { graceful: true, reboot: true, wipe }).await.unwrap();
        let anonymous = world.maintenance(13);
        until("maintenance", || async {
            stage(&anonymous).await.filter(|stage| stage == "maintenance")
        })
        .await;
        assert_eq!(members(&first).await, ["node-11", "node-12"]);
        // It can begin again, and etcd takes it as somebody new.
        let again = world.configure(13, true).await;
        world.ready(&again).await;
        until("three members", || async { (members(&first).await == all).then_some(()) }).await;
    });
    world.lab.stop();
}

#[test]
fn a_shutdown_ends_with_the_power_off() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.lab.wait(async {
        let client = world.bootstrap(11).await;
        client.shutdown(false).await.unwrap();
        until("a machine that is off", || async { (!world.is_running(11)).then_some(()) }).await;
        // A connection that was open breaks first.
        until("nobody there", || async {
            matches!(client.version().await, Err(TalosError::Unreachable { .. })).then_some(())
        })
        .await;
    });
    world.lab.stop();
}

#[test]
fn of_two_members_none_is_upgraded_by_the_old_call() {
    use talmox_talos_api::client::LegacyUpgrade;

    let world = World::new("v1.12.7");
    world.start(11);
    world.start(12);
    world.lab.wait(async {
        let first = world.bootstrap(11).await;
        let second = world.configure(12, true).await;
        world.ready(&second).await;
        let both = ["node-11", "node-12"];
        until("two members", || async { (members(&first).await == both).then_some(()) }).await;
        let image = super::sequence::installer("v1.13.6");
        let upgrade = LegacyUpgrade { image, stage: false, force: false };
        let refused = first.legacy_upgrade(&upgrade).await.unwrap_err();
        let TalosError::No { code, message, .. } = refused else { panic!("{refused:?}") };
        assert_eq!(code, Code::Unknown);
        assert!(message.contains("etcd member count(2) is insufficient"), "{message}");
        assert_eq!(stage(&first).await.unwrap(), "running");
    });
    world.lab.stop();
}

//! Tests of reset and shutdown.

use talmox_talos_api::client::{Reset, ResourceKind, Wipe};
use talmox_talos_api::{Client, Code, TalosError};

use super::test_bed::{TestBed, until};

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
fn a_graceful_reset_leaves_etcd_and_ends_in_maintenance_mode() {
    let bed = TestBed::new("v1.13.6");
    for number in [11, 12, 13] {
        bed.start(number);
    }
    bed.lab.wait(async {
        let first = bed.bootstrap(11).await;
        for number in [12, 13] {
            let other = bed.configure(number, true).await;
            bed.ready(&other).await;
        }
        let all = ["node-11", "node-12", "node-13"];
        until("three members", || async { (members(&first).await == all).then_some(()) }).await;

        let labels = vec!["STATE".to_owned(), "EPHEMERAL".to_owned()];
        let wipe = Wipe::Partitions(labels);
        let leaving = bed.client(13);
        leaving.reset(&Reset { graceful: true, reboot: true, wipe }).await.unwrap();
        let anonymous = bed.maintenance(13);
        until("maintenance mode", || async {
            stage(&anonymous).await.filter(|stage| stage == "maintenance")
        })
        .await;
        assert_eq!(members(&first).await, ["node-11", "node-12"]);
        // The node can be configured again, and joins etcd as a new member.
        let again = bed.configure(13, true).await;
        bed.ready(&again).await;
        until("three members", || async { (members(&first).await == all).then_some(()) }).await;
    });
    bed.lab.stop();
}

#[test]
fn a_shutdown_stops_the_vm() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        client.shutdown(false).await.unwrap();
        until("the machine to be off", || async { (!bed.is_running(11)).then_some(()) }).await;
        // The open connection is closed first.
        until("the node to be unreachable", || async {
            matches!(client.version().await, Err(TalosError::Unreachable { .. })).then_some(())
        })
        .await;
    });
    bed.lab.stop();
}

#[test]
fn the_old_upgrade_call_rejects_members_of_a_two_member_cluster() {
    use talmox_talos_api::client::LegacyUpgrade;

    let bed = TestBed::new("v1.12.7");
    bed.start(11);
    bed.start(12);
    bed.lab.wait(async {
        let first = bed.bootstrap(11).await;
        let second = bed.configure(12, true).await;
        bed.ready(&second).await;
        let both = ["node-11", "node-12"];
        until("two members", || async { (members(&first).await == both).then_some(()) }).await;
        let image = super::sequence::installer("v1.13.6");
        let upgrade = LegacyUpgrade { image, stage: false, force: false };
        let rejected = first.legacy_upgrade(&upgrade).await.unwrap_err();
        let TalosError::No { code, message, .. } = rejected else { panic!("{rejected:?}") };
        assert_eq!(code, Code::Unknown);
        assert!(message.contains("etcd member count(2) is insufficient"), "{message}");
        assert_eq!(stage(&first).await.unwrap(), "running");
    });
    bed.lab.stop();
}

//! Nodes that do not hear each other.

use talmox_talos_api::{Client, TalosError, Verdict};

use super::forward::{machine, to};
use super::world::{World, until};

async fn has_leader(client: &Client) -> Option<bool> {
    Some(client.etcd_status().await.ok()?.leader != 0)
}

#[test]
fn the_smaller_side_of_a_partition_is_alone_until_it_heals() {
    let world = World::new("v1.13.6");
    for number in [11, 12, 13, 14] {
        world.start(number);
    }
    world.lab.wait(async {
        let first = world.bootstrap(11).await;
        let mut planes = vec![];
        for number in [12, 13] {
            planes.push(world.configure(number, true).await);
        }
        for plane in &planes {
            world.ready(plane).await;
        }
        let third = &planes[1];

        world.fault("{after: 0s, partition: [[node-11, 112], [10.0.0.13]]}");
        until("no leader on the smaller side", || async {
            (!has_leader(third).await?).then_some(())
        })
        .await;
        let lost = third.etcd_alarms().await.unwrap_err();
        assert!(
            matches!(&lost, TalosError::NotYet { reason, .. } if reason.contains("request timed out")),
            "{lost:?}"
        );
        until("a leader on the larger side", || async {
            has_leader(&first).await?.then_some(())
        })
        .await;
        until("an answer on the larger side", || async { first.etcd_alarms().await.ok() }).await;

        // Calls are not passed on across it.
        let raw = world.raw(11).await;
        let refused = machine(&raw).hostname(to((), "node", &["10.0.0.13"])).await.unwrap_err();
        assert!(refused.message().contains("no route to host"), "{refused:?}");
        let passed = machine(&raw).hostname(to((), "node", &["10.0.0.12"])).await.unwrap();
        assert_eq!(passed.get_ref().messages[0].hostname, "node-12");

        // A worker that nobody named is on a side of its own: no control plane signs its certificate.
        world.apply(14, &world.config(14, false)).await;
        until("a port that is closed", || async {
            matches!(world.probe(14).await, Verdict::Nothing(_)).then_some(())
        })
        .await;

        world.fault("{after: 0s, heal: true}");
        let worker = world.client(14);
        until("a worker with a certificate", || async { worker.version().await.ok() }).await;
        until("a leader again", || async { has_leader(third).await?.then_some(()) }).await;
        assert_eq!(third.etcd_members().await.unwrap().len(), 3);
        let passed = machine(&raw).hostname(to((), "node", &["10.0.0.13"])).await.unwrap();
        assert_eq!(passed.get_ref().messages[0].hostname, "node-13");
    });
    world.lab.stop();
}

#[test]
fn two_bootstraps_make_two_clusters_for_good() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.start(12);
    world.lab.wait(async {
        // So that the second does not join the first before it is bootstrapped itself.
        world.fault("{after: 0s, partition: [node-12]}");
        let clients = [world.configure(11, true).await, world.configure(12, true).await];
        for client in &clients {
            until("bootstrap", || async { client.bootstrap().await.ok() }).await;
            world.ready(client).await;
        }
        world.fault("{after: 0s, heal: true}");
        let mut seen = vec![];
        for (client, name) in clients.iter().zip(["node-11", "node-12"]) {
            let members = until("members", || async { client.etcd_members().await.ok() }).await;
            let names: Vec<&str> = members.iter().map(|member| member.hostname.as_str()).collect();
            assert_eq!(names, [name]);
            let status = client.etcd_status().await.unwrap();
            assert_eq!(status.leader, members[0].id);
            seen.push(status.leader);
        }
        assert_ne!(seen[0], seen[1]);
    });
    world.lab.stop();
}

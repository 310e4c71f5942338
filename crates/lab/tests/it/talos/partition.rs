//! Tests of network partitions.

use talmox_talos_api::{Client, TalosError, Verdict};

use super::call_forwarding::{machine, to};
use super::test_bed::{TestBed, until};

async fn has_leader(client: &Client) -> Option<bool> {
    Some(client.etcd_status().await.ok()?.leader != 0)
}

#[test]
fn the_minority_of_a_partition_has_no_leader_until_it_heals() {
    let bed = TestBed::new("v1.13.6");
    for number in [11, 12, 13, 14] {
        bed.start(number);
    }
    bed.lab.wait(async {
        let first = bed.bootstrap(11).await;
        let mut planes = vec![];
        for number in [12, 13] {
            planes.push(bed.configure(number, true).await);
        }
        for plane in &planes {
            bed.ready(plane).await;
        }
        let third = &planes[1];

        bed.fault("{after: 0s, partition: [[node-11, 112], [10.0.0.13]]}");
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

        // A call is not forwarded to a node on the other side of the partition.
        let raw = bed.raw(11).await;
        let rejected = machine(&raw).hostname(to((), "node", &["10.0.0.13"])).await.unwrap_err();
        assert!(rejected.message().contains("no route to host"), "{rejected:?}");
        let passed = machine(&raw).hostname(to((), "node", &["10.0.0.12"])).await.unwrap();
        assert_eq!(passed.get_ref().messages[0].hostname, "node-12");

        // The worker is in no group, so it reaches no control-plane node that could sign its certificate.
        bed.apply(14, &bed.config(14, false)).await;
        until("the port to be closed", || async {
            matches!(bed.probe(14).await, Verdict::Nothing(_)).then_some(())
        })
        .await;

        bed.fault("{after: 0s, heal: true}");
        let worker = bed.client(14);
        until("a worker with a certificate", || async { worker.version().await.ok() }).await;
        until("a leader again", || async { has_leader(third).await?.then_some(()) }).await;
        assert_eq!(third.etcd_members().await.unwrap().len(), 3);
        let passed = machine(&raw).hostname(to((), "node", &["10.0.0.13"])).await.unwrap();
        assert_eq!(passed.get_ref().messages[0].hostname, "node-13");
    });
    bed.lab.stop();
}

#[test]
fn two_bootstraps_create_two_etcd_clusters() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.start(12);
    bed.lab.wait(async {
        // Because of the partition, the second node cannot join the first before its own bootstrap.
        bed.fault("{after: 0s, partition: [node-12]}");
        let clients = [bed.configure(11, true).await, bed.configure(12, true).await];
        for client in &clients {
            until("bootstrap", || async { client.bootstrap().await.ok() }).await;
            bed.ready(client).await;
        }
        bed.fault("{after: 0s, heal: true}");
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
    bed.lab.stop();
}

//! Tests of suspended machines and of disconnected network cards.

use std::time::Duration;

use talmox_talos_api::Verdict;
use talmox_talos_api::probe::Whose;

use super::test_bed::{TestBed, until};

async fn until_unreachable(bed: &TestBed, number: u8) {
    until("the machine to be unreachable", || async {
        matches!(bed.probe(number).await, Verdict::Nothing(_) | Verdict::Mute(_)).then_some(())
    })
    .await;
}

async fn until_reachable(bed: &TestBed, number: u8) {
    until("an answer", || async {
        matches!(bed.probe(number).await, Verdict::OwnNode).then_some(())
    })
    .await;
}

#[test]
fn a_suspended_machine_is_silent_and_resumes() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    let before = bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        client.boot_id().await.unwrap()
    });
    bed.power(11, "suspend");
    bed.lab.wait(until_unreachable(&bed, 11));
    bed.power(11, "resume");
    bed.lab.wait(async {
        until_reachable(&bed, 11).await;
        let client = bed.client(11);
        assert_eq!(client.boot_id().await.unwrap(), before);
        bed.ready(&client).await;
    });
    bed.lab.stop();
}

#[test]
fn a_machine_renews_a_certificate_that_expired_while_suspended() {
    let bed = TestBed::with_fast_days("v1.13.6");
    bed.start(11);
    let before = bed.lab.wait(async {
        // At this speed, the node renews its certificate every few seconds, and closes connections each time.
        let client = bed.configure(11, true).await;
        until("the boot to finish", || async { client.boot_id().await.ok() }).await
    });
    let brief = bed.brief_credentials();
    bed.power(11, "suspend");
    let day = bed.lab.lab().clock().deadline(Duration::from_hours(25));
    bed.lab.wait(until("the next day of lab time", || async { day.has_passed().then_some(()) }));
    bed.power(11, "resume");
    bed.lab.wait(async {
        until_reachable(&bed, 11).await;
        let client = bed.client(11);
        let after = until("the boot to finish", || async { client.boot_id().await.ok() }).await;
        assert_eq!(after, before);
        // Nothing renews the certificate of the client.
        until("the client certificate to expire", || async {
            let verdict = bed.probe_as(11, &brief).await;
            matches!(verdict, Verdict::Expired { whose: Whose::Client, .. }).then_some(())
        })
        .await;
    });
    bed.lab.stop();
}

#[test]
fn a_disconnected_machine_is_unreachable() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    let before = bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        client.boot_id().await.unwrap()
    });
    let card = "virtio%3DBC:24:11:00:00:0B,bridge%3Dvmbr0";
    let away = [
        format!("net0={card},link_down%3D1"),
        format!("net0={card},tag%3D20"),
        "delete=net0".to_owned(),
    ];
    for change in away {
        bed.set(11, &change);
        bed.lab.wait(until_unreachable(&bed, 11));
        bed.set(11, &format!("net0={card}"));
        bed.lab.wait(until_reachable(&bed, 11));
    }
    bed.lab.wait(async {
        let client = bed.client(11);
        assert_eq!(client.boot_id().await.unwrap(), before);
        bed.ready(&client).await;
    });
    bed.lab.stop();
}

#[test]
fn etcd_continues_without_a_suspended_member() {
    let bed = TestBed::new("v1.13.6");
    for number in [11, 12, 13] {
        bed.start(number);
    }
    let first = bed.lab.wait(async {
        let first = bed.bootstrap(11).await;
        for number in [12, 13] {
            let other = bed.configure(number, true).await;
            bed.ready(&other).await;
        }
        first
    });
    bed.power(11, "suspend");
    bed.lab.wait(async {
        // One of the two remaining members is the leader now, so etcd answers.
        let second = bed.client(12);
        until("another leader", || async {
            second.etcd_alarms().await.ok()?;
            let members = second.etcd_members().await.ok()?;
            let away = members.iter().find(|member| member.hostname == "node-11")?.id;
            let leader = second.etcd_status().await.ok()?.leader;
            (leader != 0 && leader != away).then_some(())
        })
        .await;
    });
    bed.power(11, "resume");
    bed.lab.wait(async {
        until("the member to join again", || async { first.etcd_alarms().await.ok() }).await;
        bed.ready(&first).await;
    });
    bed.lab.stop();
}

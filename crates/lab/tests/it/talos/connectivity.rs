//! Machines that stand still, and cables that are out.

use std::time::Duration;

use talmox_talos_api::Verdict;
use talmox_talos_api::probe::Whose;

use super::world::{World, until};

async fn until_silent(world: &World, number: u8) {
    until("silence", || async {
        matches!(world.probe(number).await, Verdict::Nothing(_) | Verdict::Mute(_)).then_some(())
    })
    .await;
}

async fn until_heard(world: &World, number: u8) {
    until("an answer", || async {
        matches!(world.probe(number).await, Verdict::Ours).then_some(())
    })
    .await;
}

#[test]
fn a_machine_that_stands_still_says_nothing_and_goes_on_where_it_was() {
    let world = World::new("v1.13.6");
    world.start(11);
    let before = world.lab.wait(async {
        let client = world.bootstrap(11).await;
        client.boot_id().await.unwrap()
    });
    world.power(11, "suspend");
    world.lab.wait(until_silent(&world, 11));
    world.power(11, "resume");
    world.lab.wait(async {
        until_heard(&world, 11).await;
        let client = world.client(11);
        assert_eq!(client.boot_id().await.unwrap(), before);
        world.ready(&client).await;
    });
    world.lab.stop();
}

#[test]
fn a_machine_that_slept_through_its_certificate_makes_another_one() {
    let world = World::in_a_hurry("v1.13.6");
    world.start(11);
    let before = world.lab.wait(async {
        // In such a hurry, it makes one every few seconds, and hangs up.
        let client = world.configure(11, true).await;
        until("its boot", || async { client.boot_id().await.ok() }).await
    });
    let brief = world.brief_credentials();
    world.power(11, "suspend");
    let day = world.lab.lab().clock().deadline(Duration::from_hours(25));
    world.lab.wait(until("the next day", || async { day.has_passed().then_some(()) }));
    world.power(11, "resume");
    world.lab.wait(async {
        until_heard(&world, 11).await;
        let client = world.client(11);
        let after = until("its boot", || async { client.boot_id().await.ok() }).await;
        assert_eq!(after, before);
        // Nobody makes another one for who calls.
        until("a certificate of ours that is over", || async {
            let verdict = world.probe_as(11, &brief).await;
            matches!(verdict, Verdict::Expired { whose: Whose::Ours, .. }).then_some(())
        })
        .await;
    });
    world.lab.stop();
}

#[test]
fn nobody_is_heard_whose_cable_is_out() {
    let world = World::new("v1.13.6");
    world.start(11);
    let before = world.lab.wait(async {
        let client = world.bootstrap(11).await;
        client.boot_id().await.unwrap()
    });
    let card = "virtio%3DBC:24:11:00:00:0B,bridge%3Dvmbr0";
    let away = [
        format!("net0={card},link_down%3D1"),
        format!("net0={card},tag%3D20"),
        "delete=net0".to_owned(),
    ];
    for change in away {
        world.set(11, &change);
        world.lab.wait(until_silent(&world, 11));
        world.set(11, &format!("net0={card}"));
        world.lab.wait(until_heard(&world, 11));
    }
    world.lab.wait(async {
        let client = world.client(11);
        assert_eq!(client.boot_id().await.unwrap(), before);
        world.ready(&client).await;
    });
    world.lab.stop();
}

#[test]
fn the_others_go_on_without_a_member_that_stands_still() {
    let world = World::new("v1.13.6");
    for number in [11, 12, 13] {
        world.start(number);
    }
    let first = world.lab.wait(async {
        let first = world.bootstrap(11).await;
        for number in [12, 13] {
            let other = world.configure(number, true).await;
            world.ready(&other).await;
        }
        first
    });
    world.power(11, "suspend");
    world.lab.wait(async {
        // One of the two leads now, and etcd answers.
        let second = world.client(12);
        until("another leader", || async {
            second.etcd_alarms().await.ok()?;
            let members = second.etcd_members().await.ok()?;
            let away = members.iter().find(|member| member.hostname == "node-11")?.id;
            let leader = second.etcd_status().await.ok()?.leader;
            (leader != 0 && leader != away).then_some(())
        })
        .await;
    });
    world.power(11, "resume");
    world.lab.wait(async {
        until("a member again", || async { first.etcd_alarms().await.ok() }).await;
        world.ready(&first).await;
    });
    world.lab.stop();
}

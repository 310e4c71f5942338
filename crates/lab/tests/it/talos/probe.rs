//! What our probe makes of lab nodes, in each of the states that it tells apart.

use talmox_talos_api::Verdict;
use talmox_talos_api::client::{Apply, ApplyMode};
use talmox_talos_api::probe::Whose;

use super::world::{World, new_bundle, until};

#[test]
fn nodes_are_told_apart_before_anything_is_asked_of_them() {
    let world = World::new("v1.13.6");
    world.lab.wait(async {
        let verdict = world.probe(11).await;
        assert!(matches!(verdict, Verdict::Nothing(_)), "{verdict:?}");
        assert!(verdict.to_string().starts_with("nothing answers"), "{verdict}");
    });
    world.start(11);
    world.lab.wait(async {
        until("maintenance", || async {
            let Verdict::Maintenance(found) = world.probe(11).await else { return None };
            assert_eq!(found.machine.macs, ["bc:24:11:00:00:0b"]);
            Some(())
        })
        .await;
        world.configure(11, true).await;
        let verdict = world.probe(11).await;
        assert!(matches!(verdict, Verdict::Ours), "{verdict:?}");
        let verdict = world.probe_from(&new_bundle(), 11).await;
        assert!(matches!(verdict, Verdict::OtherAuthority), "{verdict:?}");
        let verdict = world.probe_late(11).await;
        let ended = matches!(verdict, Verdict::Expired { whose: Whose::Ours, .. });
        assert!(ended, "{verdict:?}");
    });
    world.stop(11);
    world.lab.wait(async {
        let verdict = world.probe(11).await;
        assert!(matches!(verdict, Verdict::Nothing(_) | Verdict::Mute(_)), "{verdict:?}");
    });
    world.lab.stop();
}

#[test]
fn a_node_whose_clock_is_behind_says_so_by_refusing_us() {
    let world = World::new("v1.13.6");
    // Its own certificate is still good for us, and ours is from its future.
    world.fault("{node: node-11, clock: -11h, times: always}");
    world.start_alone(11);
    world.lab.wait(async {
        let verdict = once_configured(&world, 11).await;
        assert!(matches!(verdict, Verdict::ClockSkew { at_least: None }), "{verdict:?}");
        assert!(verdict.to_string().contains("clock"), "{verdict}");
    });
    world.lab.stop();
}

#[test]
fn a_node_issues_its_certificate_by_its_own_clock() {
    let world = World::new("v1.13.6");
    world.fault("{node: node-11, clock: -48h, times: always}");
    world.fault("{node: node-12, clock: 48h, times: always}");
    world.fault("{node: node-13, clock: -48h, times: always}");
    world.start_alone(11);
    world.start_alone(12);
    // This one learns the time, and then has a certificate that is good.
    world.start(13);
    world.lab.wait(async {
        let behind = once_configured(&world, 11).await;
        let is_past = matches!(behind, Verdict::Expired { whose: Whose::TheNode, .. });
        assert!(is_past, "{behind:?}");
        let ahead = once_configured(&world, 12).await;
        let is_ahead = matches!(ahead, Verdict::ClockSkew { at_least: Some(_) });
        assert!(is_ahead, "{ahead:?}");
        once_configured(&world, 13).await;
        until("a certificate of the right time", || async {
            matches!(world.probe(13).await, Verdict::Ours).then_some(())
        })
        .await;
    });
    world.lab.stop();
}

/// Gives a node its config, and says what is made of it with that.
async fn once_configured(world: &World, number: u8) -> Verdict {
    let anonymous = world.maintenance(number);
    let config = world.config(number, true);
    let apply = Apply { config: &config, mode: ApplyMode::Auto, dry_run: false };
    until("maintenance", || async { anonymous.apply(&apply).await.ok() }).await;
    until("a configured node", || async {
        let verdict = world.probe(number).await;
        let is_on_its_way = matches!(
            verdict,
            Verdict::Nothing(_) | Verdict::Mute(_) | Verdict::Unclear(_) | Verdict::Maintenance(_)
        );
        (!is_on_its_way).then_some(verdict)
    })
    .await
}

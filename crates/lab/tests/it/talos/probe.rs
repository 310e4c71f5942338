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
    world.fault("{node: node-11, clock: -336h, times: always}");
    world.start_alone(11);
    world.lab.wait(async {
        let anonymous = world.maintenance(11);
        let config = world.config(11, true);
        let apply = Apply { config: &config, mode: ApplyMode::Auto, dry_run: false };
        until("maintenance", || async { anonymous.apply(&apply).await.ok() }).await;
        let verdict = until("a configured node", || async {
            let verdict = world.probe(11).await;
            let is_on_its_way =
                matches!(verdict, Verdict::Nothing(_) | Verdict::Mute(_) | Verdict::Maintenance(_));
            (!is_on_its_way).then_some(verdict)
        });
        let verdict = verdict.await;
        assert!(matches!(verdict, Verdict::ClockSkew { .. }), "{verdict:?}");
        assert!(verdict.to_string().contains("clock"), "{verdict}");
    });
    world.lab.stop();
}

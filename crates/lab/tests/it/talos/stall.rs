//! First boots from a nocloud drive that stall, as real ones do.

use std::time::Duration;

use talmox_lab::pve::Profile;
use talmox_talos_api::{DialError, Verdict};

use super::world::{World, until};

/// Longer than any boot takes, in the lab's time.
const LONG: Duration = Duration::from_mins(5);

/// "nocloud stall before maintenance: 1.12.0 in 3 of 6 first boots under load (0 of 8 on an idle machine), once with a cidata
/// volume; a reset cured it. 1.13.6: 0 of 3 this time, 3 of 9 earlier": the address is up, and port 50000 stays closed.
#[test]
fn some_first_boots_stall_until_a_reset_and_others_never() {
    const NUMBERS: [u8; 8] = [11, 12, 13, 14, 15, 16, 17, 18];
    let world = World::with_profile("v1.13.6", Profile::Homelab, 400.0);
    // What a script says goes before chance.
    world.fault("{node: node-11, stall: false, times: always}");
    world.fault("{node: node-12, stall: true}");
    for number in NUMBERS {
        world.start(number);
    }
    world.lab.wait(async {
        let up = async |number: u8| matches!(world.probe(number).await, Verdict::Maintenance(_));
        until("a machine that must not stall", || async { up(11).await.then_some(()) }).await;
        world.lab.lab().clock().sleep(LONG).await;
        let mut stalled = vec![];
        for number in NUMBERS {
            if !up(number).await {
                stalled.push(number);
            }
        }
        // Of the six left to chance, with the seed of this lab.
        assert!(stalled.contains(&12) && stalled.len() > 1 && stalled.len() < 6, "{stalled:?}");
        for number in stalled {
            let verdict = world.probe(number).await;
            let is_closed = matches!(verdict, Verdict::Nothing(DialError::Connect { .. }));
            assert!(is_closed && world.is_running(number), "{number}: {verdict:?}");
            // Once only the second reset helped.
            for _ in 0..4 {
                world.power(number, "reset");
                world.lab.lab().clock().sleep(LONG).await;
                if up(number).await {
                    break;
                }
            }
            assert!(up(number).await, "{number} comes up after a reset");
        }
    });
    world.lab.stop();
}

/// "Boots with a config in STATE did not stall."
#[test]
fn boots_with_a_config_never_stall() {
    let world = World::with_profile("v1.13.6", Profile::Homelab, 400.0);
    world.fault("{boot: true, nth: 1, stall: false}");
    world.start(11);
    world.lab.wait(async {
        let client = world.configure(11, true).await;
        for _ in 0..6 {
            let before = client.boot_id().await.unwrap();
            world.power(11, "reset");
            until("another boot", || async {
                client.boot_id().await.ok().filter(|now| *now != before)
            })
            .await;
        }
    });
    world.lab.stop();
}

//! What goes wrong with nodes by script: with their calls, at their boots, and with them as a whole.

use std::cell::Cell;
use std::time::Duration;

use talmox_lab::FaultScript as _;
use talmox_lab::pve::Fault;
use talmox_talos_api::client::{Alarm, Apply, ApplyMode, ResourceKind};
use talmox_talos_api::probe::Whose;
use talmox_talos_api::{Client, Code, DialError, TalosError, Verdict};
use talmox_talos_config::secret::SecretText;

use super::sequence::{booted, installer};
use super::world::{World, until};

/// Longer than anything takes, in the lab's time.
const LONG: Duration = Duration::from_hours(2);

async fn rename(world: &World, client: &Client, name: &str) -> Result<(), TalosError> {
    let config = world.config(11, true).expose().replace("node-11", name);
    let config = SecretText::new(config);
    let apply = Apply { config: &config, mode: ApplyMode::NoReboot, dry_run: false };
    client.apply(&apply).await.map(drop)
}

#[test]
fn calls_are_refused_cut_delayed_and_left_unanswered() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.lab.wait(async {
        let client = world.bootstrap(11).await.within(LONG);
        let refuse = "refuse: {code: ResourceExhausted, message: too much}";
        world.fault(&format!("{{talos: Hostname, node: node-11, nth: 2, times: 2, {refuse}}}"));
        world.fault(&format!("{{talos: Hostname, node: node-12, times: always, {refuse}}}"));
        client.hostname().await.unwrap();
        for _ in 0..2 {
            client.version().await.unwrap();
            match client.hostname().await.unwrap_err() {
                TalosError::No { code, message, .. } => {
                    assert_eq!((code, message.as_str()), (Code::ResourceExhausted, "too much"));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(client.hostname().await.unwrap(), "node-11");

        world.fault("{talos: MachineService/ApplyConfiguration, node: 111, cut: before}");
        let lost = rename(&world, &client, "before").await.unwrap_err();
        assert!(matches!(lost, TalosError::Lost { .. }), "{lost:?}");
        assert_eq!(client.hostname().await.unwrap(), "node-11");
        world.fault("{talos: ApplyConfiguration, node: 10.0.0.11, cut: after}");
        let lost = rename(&world, &client, "after").await.unwrap_err();
        assert!(matches!(lost, TalosError::Lost { .. }), "{lost:?}");
        until("the new name", || async {
            (client.hostname().await.ok()? == "after").then_some(())
        })
        .await;

        world.fault("{talos: \"*\", delay: 30s}");
        let before = world.lab.lab().clock().moment();
        client.hostname().await.unwrap();
        let took = world.lab.lab().clock().moment().since(before);
        assert!(took >= Duration::from_secs(30), "{took:?}");
        world.fault("{talos: Version, hang: true}");
        let late = client.within(Duration::from_secs(20)).version().await.unwrap_err();
        assert!(matches!(late, TalosError::Late { .. }), "{late:?}");
        client.version().await.unwrap();
    });
    world.lab.stop();
}

#[test]
fn machines_crash_stand_still_and_lose_their_power() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.lab.wait(async {
        let client = world.bootstrap(11).await;
        let before = client.boot_id().await.unwrap();
        // It takes what it was told, and then nobody hears of it.
        world.fault("{talos: ApplyConfiguration, node: node-11, crash: true}");
        assert!(rename(&world, &client.within(LONG), "after").await.is_err());
        let before = booted(&world, &client, &before).await;
        assert_eq!(client.hostname().await.unwrap(), "after");

        world.fault("{after: 1s, freeze: node-11}");
        until("silence", || async {
            let found = world.probe(11).await;
            matches!(found, Verdict::Mute(DialError::Silent { .. })).then_some(())
        })
        .await;
        assert!(world.is_running(11));
        world.power(11, "reset");
        booted(&world, &client, &before).await;

        world.fault("{after: 0s, node: 111, unplug: true}");
        until("a machine that is off", || async { (!world.is_running(11)).then_some(()) }).await;
    });
    world.lab.stop();
}

#[test]
fn boots_stall_take_long_fail_again_and_again_and_have_wrong_clocks() {
    let world = World::new("v1.13.6");
    world.fault("{node: node-11, stall: true}");
    world.fault("{node: 112, boot: true, times: 3, crash: true}");
    world.fault("{node: 10.0.0.13, clock: -48h, times: always}");
    world.fault("{node: node-14, boot: true, delay: 4m}");
    world.start(11);
    world.start(12);
    // Without a gateway it never learns what time it is.
    world.start_with(13, &[("ipconfig0", "ip=10.0.0.13/24")]);
    let before = world.lab.lab().clock().moment();
    world.start(14);
    world.lab.wait(async {
        until("a machine that takes its time", || async {
            matches!(world.probe(14).await, Verdict::Maintenance(_)).then_some(())
        })
        .await;
        let took = world.lab.lab().clock().moment().since(before);
        assert!(took >= Duration::from_mins(4), "{took:?}");
        until("a machine that booted four times", || async {
            matches!(world.probe(12).await, Verdict::Maintenance(_)).then_some(())
        })
        .await;
        assert!(matches!(world.probe(11).await, Verdict::Nothing(DialError::Connect { .. })));
        world.power(11, "reset");
        until("maintenance after a reset", || async {
            matches!(world.probe(11).await, Verdict::Maintenance(_)).then_some(())
        })
        .await;

        world.apply(13, &world.config(13, true)).await;
        until("a clock that is wrong", || async {
            let is_past =
                matches!(world.probe(13).await, Verdict::Expired { whose: Whose::TheNode, .. });
            is_past.then_some(())
        })
        .await;
    });
    world.lab.stop();
}

#[test]
fn disks_are_full_and_etcd_is_slow() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.fault("{node: node-12, slow: 40s}");
    world.start(12);
    world.lab.wait(async {
        let client = world.bootstrap(11).await;
        let before = world.lab.lab().clock().moment();
        let second = world.configure(12, true).await;
        world.ready(&second).await;
        let took = world.lab.lab().clock().moment().since(before);
        assert!(took >= Duration::from_mins(2), "{took:?}");
        assert!(client.etcd_alarms().await.unwrap().is_empty());

        world.fault("{after: 0s, fill: node-12}");
        let full = second.etcd_status().await.unwrap().member_id;
        let alarm = vec![(full, Alarm::NoSpace)];
        until("an alarm", || async { (client.etcd_alarms().await.ok()? == alarm).then_some(()) })
            .await;
        let refused = second.legacy_pull(&installer("v1.13.6"), true).await.unwrap_err();
        let text = format!("{refused:?}");
        assert!(text.contains("no space left on device"), "{text}");
        // Whose disk is not full can go on, but for etcd.
        client.legacy_pull(&installer("v1.13.6"), true).await.unwrap();
        assert_eq!(client.etcd_status().await.unwrap().errors.len(), 1);

        // While the disk is full the alarm comes back; it outlives the reboot that ends the fault.
        assert_eq!(client.etcd_disarm().await.unwrap(), alarm);
        assert_eq!(client.etcd_alarms().await.unwrap(), alarm);
        let before = second.boot_id().await.unwrap();
        world.power(12, "reset");
        booted(&world, &second, &before).await;
        assert_eq!(client.etcd_alarms().await.unwrap(), alarm);
        second.legacy_pull(&installer("v1.13.6"), true).await.unwrap();
        assert_eq!(client.etcd_disarm().await.unwrap(), alarm);
        assert!(client.etcd_alarms().await.unwrap().is_empty());
        assert!(second.etcd_status().await.unwrap().errors.is_empty());
    });
    world.lab.stop();
}

#[test]
fn strangers_answer_on_the_addresses_of_nodes() {
    let world = World::new("v1.13.6");
    world.start(11);
    for (number, disguise) in [(31, "talos"), (32, "tls"), (33, "tcp"), (34, "silent")] {
        let entry = format!("impostor: {{node: 10.0.0.{number}, as: {disguise}}}");
        world.fault(&format!("{{after: 0s, {entry}}}"));
    }
    world.lab.wait(async {
        world.configure(11, true).await;
        assert!(matches!(world.probe(31).await, Verdict::OtherAuthority));
        // It waits to be spoken to, which no node does.
        let found = world.probe(32).await;
        assert!(matches!(found, Verdict::NoNode(DialError::Silent { .. })), "{found:?}");
        let found = world.probe(33).await;
        assert!(matches!(found, Verdict::NoNode(DialError::Tls { .. })), "{found:?}");
        assert!(matches!(world.probe(34).await, Verdict::Mute(DialError::Silent { .. })));

        world.fault("{after: 0s, impostor: {node: node-11, as: maintenance, for: 10m}}");
        let other = until("a stranger", || async {
            match world.probe(11).await {
                Verdict::Maintenance(found) => found.machine.uuid,
                _ => None,
            }
        });
        assert_ne!(other.await, "01234567-89ab-4def-8123-45678900000b");
        until("the node itself", || async {
            matches!(world.probe(11).await, Verdict::Ours).then_some(())
        })
        .await;
    });
    world.lab.stop();
}

#[test]
fn the_sample_of_the_documentation_runs() {
    let text = include_str!("../../../../../docs/LAB.md");
    let sample = text.split("```yaml\n").nth(2).and_then(|rest| rest.split("```").next()).unwrap();
    let faults = Fault::parse("docs/LAB.md", sample).unwrap();
    let world = World::new("v1.13.6");
    for fault in faults {
        world.lab.lab().faults().add(fault);
    }
    world.start_with(11, &[("name", "cp-1")]);
    world.start_with(21, &[("name", "wk-1")]);
    world.lab.wait(async {
        // Nobody is told what became of the first Bootstrap.
        let client = world.configure(11, true).await.within(LONG);
        let is_lost = Cell::new(false);
        until("a cluster", || async {
            if let Err(TalosError::Lost { .. }) = client.bootstrap().await {
                is_lost.set(true);
            }
            client.etcd_members().await.ok()
        })
        .await;
        assert!(is_lost.get());
        assert!(matches!(world.probe(31).await, Verdict::OtherAuthority));
        assert!(matches!(world.probe(21).await, Verdict::Nothing(DialError::Connect { .. })));
        world.power(21, "reset");
        let anonymous = world.maintenance(21);
        until("maintenance after a reset", || async {
            anonymous.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()?
        })
        .await;
    });
    world.lab.stop();
}

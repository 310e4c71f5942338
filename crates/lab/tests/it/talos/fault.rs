//! Tests of faults in Talos calls, at boots, and of whole nodes.

use std::cell::Cell;
use std::time::Duration;

use talmox_lab::FaultScript as _;
use talmox_lab::pve::Fault;
use talmox_talos_api::client::{Alarm, Apply, ApplyMode, ResourceKind};
use talmox_talos_api::probe::Whose;
use talmox_talos_api::{Client, Code, DialError, TalosError, Verdict};
use talmox_talos_config::secret::SecretText;

use super::sequence::{booted, installer};
use super::test_bed::{TestBed, until};

/// Timeout in lab time. No operation takes this long.
const LONG: Duration = Duration::from_hours(2);

async fn rename(bed: &TestBed, client: &Client, name: &str) -> Result<(), TalosError> {
    let config = bed.config(11, true).expose().replace("node-11", name);
    let config = SecretText::new(config);
    let apply = Apply { config: &config, mode: ApplyMode::NoReboot, dry_run: false };
    client.apply(&apply).await.map(drop)
}

#[test]
fn talos_calls_are_rejected_cut_delayed_and_left_unanswered() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await.within(LONG);
        let refuse = "refuse: {code: ResourceExhausted, message: too much}";
        bed.fault(&format!("{{talos: Hostname, node: node-11, nth: 2, times: 2, {refuse}}}"));
        bed.fault(&format!("{{talos: Hostname, node: node-12, times: always, {refuse}}}"));
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

        bed.fault("{talos: MachineService/ApplyConfiguration, node: 111, cut: before}");
        let lost = rename(&bed, &client, "before").await.unwrap_err();
        assert!(matches!(lost, TalosError::Lost { .. }), "{lost:?}");
        assert_eq!(client.hostname().await.unwrap(), "node-11");
        bed.fault("{talos: ApplyConfiguration, node: 10.0.0.11, cut: after}");
        let lost = rename(&bed, &client, "after").await.unwrap_err();
        assert!(matches!(lost, TalosError::Lost { .. }), "{lost:?}");
        until("the new name", || async {
            (client.hostname().await.ok()? == "after").then_some(())
        })
        .await;

        bed.fault("{talos: \"*\", delay: 30s}");
        let before = bed.lab.lab().clock().moment();
        client.hostname().await.unwrap();
        let took = bed.lab.lab().clock().moment().since(before);
        assert!(took >= Duration::from_secs(30), "{took:?}");
        bed.fault("{talos: Version, hang: true}");
        let late = client.within(Duration::from_secs(20)).version().await.unwrap_err();
        assert!(matches!(late, TalosError::Late { .. }), "{late:?}");
        client.version().await.unwrap();
    });
    bed.lab.stop();
}

#[test]
fn machines_crash_hang_and_lose_power() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let before = client.boot_id().await.unwrap();
        // The node applies the config, but the answer is lost.
        bed.fault("{talos: ApplyConfiguration, node: node-11, crash: true}");
        assert!(rename(&bed, &client.within(LONG), "after").await.is_err());
        let before = booted(&bed, &client, &before).await;
        assert_eq!(client.hostname().await.unwrap(), "after");

        bed.fault("{after: 1s, freeze: node-11}");
        until("the machine to be unreachable", || async {
            let found = bed.probe(11).await;
            matches!(found, Verdict::Mute(DialError::Silent { .. })).then_some(())
        })
        .await;
        assert!(bed.is_running(11));
        bed.power(11, "reset");
        booted(&bed, &client, &before).await;

        bed.fault("{after: 0s, node: 111, unplug: true}");
        until("the machine to be off", || async { (!bed.is_running(11)).then_some(()) }).await;
    });
    bed.lab.stop();
}

#[test]
fn boots_stall_are_delayed_fail_and_have_wrong_clocks() {
    let bed = TestBed::new("v1.13.6");
    bed.fault("{node: node-11, stall: true}");
    bed.fault("{node: 112, boot: true, times: 3, crash: true}");
    bed.fault("{node: 10.0.0.13, clock: -48h, times: always}");
    bed.fault("{node: node-14, boot: true, delay: 4m}");
    bed.start(11);
    bed.start(12);
    // Without a gateway, the node cannot synchronize its time.
    bed.start_with(13, &[("ipconfig0", "ip=10.0.0.13/24")]);
    let before = bed.lab.lab().clock().moment();
    bed.start(14);
    bed.lab.wait(async {
        until("the machine with the delayed boot", || async {
            matches!(bed.probe(14).await, Verdict::Maintenance(_)).then_some(())
        })
        .await;
        let took = bed.lab.lab().clock().moment().since(before);
        assert!(took >= Duration::from_mins(4), "{took:?}");
        until("the fourth boot", || async {
            matches!(bed.probe(12).await, Verdict::Maintenance(_)).then_some(())
        })
        .await;
        assert!(matches!(bed.probe(11).await, Verdict::Nothing(DialError::Connect { .. })));
        bed.power(11, "reset");
        until("maintenance mode after the reset", || async {
            matches!(bed.probe(11).await, Verdict::Maintenance(_)).then_some(())
        })
        .await;

        bed.apply(13, &bed.config(13, true)).await;
        until("the wrong clock", || async {
            let is_past =
                matches!(bed.probe(13).await, Verdict::Expired { whose: Whose::TheNode, .. });
            is_past.then_some(())
        })
        .await;
    });
    bed.lab.stop();
}

#[test]
fn disks_are_full_and_etcd_is_slow() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.fault("{node: node-12, slow: 40s}");
    bed.start(12);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let before = bed.lab.lab().clock().moment();
        let second = bed.configure(12, true).await;
        bed.ready(&second).await;
        let took = bed.lab.lab().clock().moment().since(before);
        assert!(took >= Duration::from_mins(2), "{took:?}");
        assert!(client.etcd_alarms().await.unwrap().is_empty());

        bed.fault("{after: 0s, fill: node-12}");
        let full = second.etcd_status().await.unwrap().member_id;
        let alarm = vec![(full, Alarm::NoSpace)];
        until("an alarm", || async { (client.etcd_alarms().await.ok()? == alarm).then_some(()) })
            .await;
        let rejected = second.legacy_pull(&installer("v1.13.6"), true).await.unwrap_err();
        let text = format!("{rejected:?}");
        assert!(text.contains("no space left on device"), "{text}");
        // With free space, the pull succeeds. Only etcd still has an alarm.
        client.legacy_pull(&installer("v1.13.6"), true).await.unwrap();
        assert_eq!(client.etcd_status().await.unwrap().errors.len(), 1);

        // While the disk is full, the alarm is raised again after each disarm. It also persists after the reboot that ends the
        // fault.
        assert_eq!(client.etcd_disarm().await.unwrap(), alarm);
        assert_eq!(client.etcd_alarms().await.unwrap(), alarm);
        let before = second.boot_id().await.unwrap();
        bed.power(12, "reset");
        booted(&bed, &second, &before).await;
        assert_eq!(client.etcd_alarms().await.unwrap(), alarm);
        second.legacy_pull(&installer("v1.13.6"), true).await.unwrap();
        assert_eq!(client.etcd_disarm().await.unwrap(), alarm);
        assert!(client.etcd_alarms().await.unwrap().is_empty());
        assert!(second.etcd_status().await.unwrap().errors.is_empty());
    });
    bed.lab.stop();
}

#[test]
fn impostors_answer_on_the_addresses_of_nodes() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    for (number, kind) in [(31, "talos"), (32, "tls"), (33, "tcp"), (34, "silent")] {
        let entry = format!("impostor: {{node: 10.0.0.{number}, as: {kind}}}");
        bed.fault(&format!("{{after: 0s, {entry}}}"));
    }
    bed.lab.wait(async {
        bed.configure(11, true).await;
        assert!(matches!(bed.probe(31).await, Verdict::OtherAuthority));
        // Unlike a node, this server waits until the client sends data first.
        let found = bed.probe(32).await;
        assert!(matches!(found, Verdict::NoNode(DialError::Silent { .. })), "{found:?}");
        let found = bed.probe(33).await;
        assert!(matches!(found, Verdict::NoNode(DialError::Tls { .. })), "{found:?}");
        assert!(matches!(bed.probe(34).await, Verdict::Mute(DialError::Silent { .. })));

        bed.fault("{after: 0s, impostor: {node: node-11, as: maintenance, for: 10m}}");
        let other = until("the impostor", || async {
            match bed.probe(11).await {
                Verdict::Maintenance(found) => found.machine.uuid,
                _ => None,
            }
        });
        assert_ne!(other.await, "01234567-89ab-4def-8123-45678900000b");
        until("the node", || async {
            matches!(bed.probe(11).await, Verdict::OwnNode).then_some(())
        })
        .await;
    });
    bed.lab.stop();
}

#[test]
fn the_documented_sample_faults_run() {
    let text = include_str!("../../../../../docs/LAB.md");
    let sample = text.split("```yaml\n").nth(2).and_then(|rest| rest.split("```").next()).unwrap();
    let faults = Fault::parse("docs/LAB.md", sample).unwrap();
    let bed = TestBed::new("v1.13.6");
    for fault in faults {
        bed.lab.lab().faults().add(fault);
    }
    bed.start_with(11, &[("name", "cp-1")]);
    bed.start_with(21, &[("name", "wk-1")]);
    bed.lab.wait(async {
        // The answer to the first Bootstrap is lost.
        let client = bed.configure(11, true).await.within(LONG);
        let is_lost = Cell::new(false);
        until("the cluster", || async {
            if let Err(TalosError::Lost { .. }) = client.bootstrap().await {
                is_lost.set(true);
            }
            client.etcd_members().await.ok()
        })
        .await;
        assert!(is_lost.get());
        assert!(matches!(bed.probe(31).await, Verdict::OtherAuthority));
        assert!(matches!(bed.probe(21).await, Verdict::Nothing(DialError::Connect { .. })));
        bed.power(21, "reset");
        let anonymous = bed.maintenance(21);
        until("maintenance mode after the reset", || async {
            anonymous.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()?
        })
        .await;
    });
    bed.lab.stop();
}

//! Tests of the results of the probe for nodes in each state.

use talmox_talos_api::Verdict;
use talmox_talos_api::client::{Apply, ApplyMode};
use talmox_talos_api::probe::Whose;

use super::test_bed::{TestBed, new_bundle, until};

#[test]
fn the_probe_distinguishes_nodes() {
    let bed = TestBed::new("v1.13.6");
    bed.lab.wait(async {
        let verdict = bed.probe(11).await;
        assert!(matches!(verdict, Verdict::Nothing(_)), "{verdict:?}");
        assert!(verdict.to_string().starts_with("nothing answers"), "{verdict}");
    });
    bed.start(11);
    bed.lab.wait(async {
        until("maintenance mode", || async {
            let Verdict::Maintenance(found) = bed.probe(11).await else { return None };
            assert_eq!(found.machine.macs, ["bc:24:11:00:00:0b"]);
            Some(())
        })
        .await;
        bed.configure(11, true).await;
        let verdict = bed.probe(11).await;
        assert!(matches!(verdict, Verdict::OwnNode), "{verdict:?}");
        let verdict = bed.probe_from(&new_bundle(), 11).await;
        assert!(matches!(verdict, Verdict::OtherAuthority), "{verdict:?}");
        let verdict = bed.probe_late(11).await;
        let ended = matches!(verdict, Verdict::Expired { whose: Whose::Client, .. });
        assert!(ended, "{verdict:?}");
    });
    bed.stop(11);
    bed.lab.wait(async {
        let verdict = bed.probe(11).await;
        assert!(matches!(verdict, Verdict::Nothing(_) | Verdict::Mute(_)), "{verdict:?}");
    });
    bed.lab.stop();
}

#[test]
fn a_node_with_a_slow_clock_rejects_the_client_certificate() {
    let bed = TestBed::new("v1.13.6");
    // For the client, the certificate of the node is still valid. For the node, the certificate of the client is not valid yet.
    bed.fault("{node: node-11, clock: -11h, times: always}");
    bed.start_alone(11);
    bed.lab.wait(async {
        let verdict = verdict_after_apply(&bed, 11).await;
        assert!(matches!(verdict, Verdict::ClockSkew { at_least: None }), "{verdict:?}");
        assert!(verdict.to_string().contains("clock"), "{verdict}");
    });
    bed.lab.stop();
}

#[test]
fn a_node_issues_its_certificate_by_its_own_clock() {
    let bed = TestBed::new("v1.13.6");
    bed.fault("{node: node-11, clock: -48h, times: always}");
    bed.fault("{node: node-12, clock: 48h, times: always}");
    bed.fault("{node: node-13, clock: -48h, times: always}");
    bed.start_alone(11);
    bed.start_alone(12);
    // This node synchronizes its time, and then gets a valid certificate.
    bed.start(13);
    bed.lab.wait(async {
        let behind = verdict_after_apply(&bed, 11).await;
        let is_past = matches!(behind, Verdict::Expired { whose: Whose::TheNode, .. });
        assert!(is_past, "{behind:?}");
        let ahead = verdict_after_apply(&bed, 12).await;
        let is_ahead = matches!(ahead, Verdict::ClockSkew { at_least: Some(_) });
        assert!(is_ahead, "{ahead:?}");
        verdict_after_apply(&bed, 13).await;
        until("a certificate with the right time", || async {
            matches!(bed.probe(13).await, Verdict::OwnNode).then_some(())
        })
        .await;
    });
    bed.lab.stop();
}

/// Applies the config of a node, and returns the result of the probe.
async fn verdict_after_apply(bed: &TestBed, number: u8) -> Verdict {
    let anonymous = bed.maintenance(number);
    let config = bed.config(number, true);
    let apply = Apply { config: &config, mode: ApplyMode::Auto, dry_run: false };
    until("maintenance mode", || async { anonymous.apply(&apply).await.ok() }).await;
    until("the node to be configured", || async {
        let verdict = bed.probe(number).await;
        let is_on_its_way = matches!(
            verdict,
            Verdict::Nothing(_) | Verdict::Mute(_) | Verdict::Unclear(_) | Verdict::Maintenance(_)
        );
        (!is_on_its_way).then_some(verdict)
    })
    .await
}

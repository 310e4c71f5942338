//! Test that new etcd members are learners before they become voters, and that only one member is a learner at a time.

use std::time::Duration;

use talmox_talos_api::client::{Health, Member, Service};
use talmox_talos_api::{Client, TalosError};

use super::test_bed::{TestBed, until};

async fn etcd(client: &Client) -> Option<Service> {
    let services = client.services().await.ok()?;
    services.into_iter().find(|service| service.id == "etcd")
}

/// Health of a cluster that consists only of this control-plane node.
async fn health(client: &Client) -> Option<String> {
    let (own, wait) = (["10.0.0.11".to_owned()], Duration::from_secs(1));
    let mut words = client.health_check(&own, &[], wait).await.ok()?;
    let mut said = String::new();
    while let Ok(Some(line)) = words.next().await {
        said += &format!("{line}\n");
    }
    Some(said)
}

#[test]
fn members_are_learners_one_at_a_time_before_they_vote() {
    let bed = TestBed::new("v1.13.6");
    // etcd of this node is slow, so that the learner can be observed.
    bed.fault("{node: node-12, slow: 5m}");
    for number in [11, 12, 13] {
        bed.start(number);
    }
    bed.lab.wait(async {
        let first = bed.bootstrap(11).await;
        let second = bed.configure(12, true).await;
        let learner = until("a learner", || async {
            first.etcd_members().await.ok()?.into_iter().find(|member| member.is_learner)
        })
        .await;
        until("the learner to run", || async {
            let service = etcd(&second).await?;
            let is_reported = service.message == "etcdserver: rpc not supported for learner";
            (is_reported && service.health == Health::Bad).then_some(())
        })
        .await;
        // From now on, the learner cannot become synchronized.
        bed.fault("{after: 0s, slow: {node: node-12, by: 1000h}}");

        let third = bed.configure(13, true).await;
        until("the third member to wait", || async {
            let service = etcd(&third).await?;
            let is_reported = service.message == "etcdserver: too many learner members in cluster";
            (is_reported && service.state == "Preparing").then_some(())
        })
        .await;
        let status = second.etcd_status().await.unwrap();
        assert!(status.is_learner && status.member_id == learner.id);
        match second.etcd_members().await.unwrap_err() {
            TalosError::NotYet { reason, .. } => {
                assert_eq!(reason, "etcdserver: rpc not supported for learner");
            }
            other => panic!("{other:?}"),
        }
        until("a health report about the node", || async {
            health(&first).await?.contains("etcd member node-12 is a learner").then_some(())
        })
        .await;
        let members = first.etcd_members().await.unwrap();
        assert_eq!(members.iter().filter(|member| member.is_learner).count(), 1);
        assert_eq!(members.len(), 2);

        // The reboot ends the fault. Afterwards all members are voters.
        bed.power(12, "reset");
        let voters = until("three voters", || async {
            let members = first.etcd_members().await.ok()?;
            let is_done = members.len() == 3 && !members.iter().any(|member| member.is_learner);
            is_done.then_some(members)
        })
        .await;
        assert!(voters.iter().any(|member: &Member| member.id == learner.id));
    });
    bed.lab.stop();
}

//! A new member of etcd learns before it votes, and one at a time.

use std::time::Duration;

use talmox_talos_api::client::{Health, Member, Service};
use talmox_talos_api::{Client, TalosError};

use super::world::{World, until};

async fn etcd(client: &Client) -> Option<Service> {
    let services = client.services().await.ok()?;
    services.into_iter().find(|service| service.id == "etcd")
}

/// What a control plane says of a cluster of which it is told nobody but itself.
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
fn members_learn_one_at_a_time_before_they_vote() {
    let world = World::new("v1.13.6");
    // Slow enough for somebody to notice that it learns.
    world.fault("{node: node-12, slow: 5m}");
    for number in [11, 12, 13] {
        world.start(number);
    }
    world.lab.wait(async {
        let first = world.bootstrap(11).await;
        let second = world.configure(12, true).await;
        let learner = until("a learner", || async {
            first.etcd_members().await.ok()?.into_iter().find(|member| member.is_learner)
        })
        .await;
        until("a learner that runs", || async {
            let service = etcd(&second).await?;
            let is_told = service.message == "etcdserver: rpc not supported for learner";
            (is_told && service.health == Health::Bad).then_some(())
        })
        .await;
        // From now on it never catches up.
        world.fault("{after: 0s, slow: {node: node-12, by: 1000h}}");

        let third = world.configure(13, true).await;
        until("a third one that waits", || async {
            let service = etcd(&third).await?;
            let is_told = service.message == "etcdserver: too many learner members in cluster";
            (is_told && service.state == "Preparing").then_some(())
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
        until("health that names it", || async {
            health(&first).await?.contains("etcd member node-12 is a learner").then_some(())
        })
        .await;
        let members = first.etcd_members().await.unwrap();
        assert_eq!(members.iter().filter(|member| member.is_learner).count(), 1);
        assert_eq!(members.len(), 2);

        // What made it slow ends with a reboot, and all of them vote.
        world.power(12, "reset");
        let voters = until("three voters", || async {
            let members = first.etcd_members().await.ok()?;
            let is_done = members.len() == 3 && !members.iter().any(|member| member.is_learner);
            is_done.then_some(members)
        })
        .await;
        assert!(voters.iter().any(|member: &Member| member.id == learner.id));
    });
    world.lab.stop();
}

//! Tests of etcd maintenance, of META keys, and of the recovery of a lost cluster.

use talmox_talos_api::client::{RebootMode, Reset, ResourceKind, Wipe};
use talmox_talos_api::proto::machine::MetaDeleteRequest;
use talmox_talos_api::proto::machine::machine_service_client::MachineServiceClient;
use talmox_talos_api::{Client, Code, TalosError};
use talmox_talos_config::secret::SecretText;

use super::test_bed::{TestBed, until};

fn code(error: &TalosError) -> Option<Code> {
    match error {
        TalosError::No { code, .. } => Some(*code),
        _ => None,
    }
}

/// Leader, total size and used size of the etcd database.
async fn etcd(client: &Client) -> (u64, i64, i64) {
    let status = client.etcd_status().await.unwrap();
    (status.leader, status.db_size, status.db_size_in_use)
}

#[test]
fn etcd_is_defragmented_queried_and_changes_its_leader() {
    let bed = TestBed::new("v1.12.7");
    bed.start(11);
    bed.start(12);
    bed.lab.wait(async {
        let first = bed.bootstrap(11).await;
        let second = bed.configure(12, true).await;
        bed.ready(&second).await;
        until("two voters", || async {
            let members = first.etcd_members().await.ok()?;
            (members.len() == 2 && members.iter().all(|one| !one.is_learner)).then_some(())
        })
        .await;
        assert!(first.etcd_alarms().await.unwrap().is_empty());
        assert!(first.etcd_disarm().await.unwrap().is_empty());
        first.etcd_defragment().await.unwrap();
        let (leader, size, used) = etcd(&first).await;
        assert!(size >= used && used > 0, "{size} {used}");
        let members = first.etcd_members().await.unwrap();
        let own = members.iter().find(|member| member.hostname == "node-11").unwrap();
        assert_eq!(leader, own.id);
        assert_eq!(first.etcd_forfeit_leadership().await.unwrap().as_deref(), Some("node-12"));
        assert_ne!(etcd(&first).await.0, own.id);
        // A member that is not the leader cannot give up the leadership.
        assert_eq!(first.etcd_forfeit_leadership().await.unwrap(), None);
        let unknown = first.etcd_remove_member(42).await.unwrap_err();
        assert_eq!(code(&unknown), Some(Code::NotFound));
    });
    bed.lab.stop();
}

#[test]
fn a_snapshot_restores_a_wiped_cluster() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let snapshot = client.etcd_snapshot().await.unwrap().all().await.unwrap();
        let before = client.boot_id().await.unwrap();
        let id = client.etcd_members().await.unwrap()[0].id;
        let wipe = Wipe::Partitions(vec!["EPHEMERAL".to_owned()]);
        client.reset(&Reset { graceful: false, reboot: true, wipe }).await.unwrap();
        until("a new boot id", || async {
            client.boot_id().await.ok().filter(|now| *now != before)
        })
        .await;
        until("etcd to wait", || async {
            let services = client.services().await.ok()?;
            services.iter().any(|one| one.id == "etcd" && one.state == "Preparing").then_some(())
        })
        .await;
        until("recovery", || async { client.etcd_recover(&snapshot).await.ok() }).await;
        until("bootstrap", || async { client.bootstrap_from_snapshot(false).await.ok() }).await;
        bed.ready(&client).await;
        let members = client.etcd_members().await.unwrap();
        assert_eq!(members.len(), 1);
        assert_ne!(members[0].id, id, "it is another cluster");
        let node = client.get(ResourceKind::NODENAME, "nodename").await.unwrap().unwrap();
        assert_eq!(node.text("nodename").unwrap(), "node-11");
    });
    bed.lab.stop();
}

#[test]
fn meta_keys_survive_a_reboot_and_can_be_deleted() {
    const KEY: u8 = 0x0c;
    let kind = ResourceKind { namespace: "runtime", name: "MetaKeys.runtime.talos.dev" };
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        client.meta_write(KEY, &SecretText::new("shelf-7".to_owned())).await.unwrap();
        let before = client.boot_id().await.unwrap();
        client.reboot(RebootMode::Default).await.unwrap();
        until("a new boot id", || async {
            client.boot_id().await.ok().filter(|now| *now != before)
        })
        .await;
        let value = client.get(kind, "0x0c").await.unwrap().unwrap();
        assert_eq!(value.text("value").unwrap(), "shelf-7");
        let raw = bed.raw(11).await;
        let mut machine = MachineServiceClient::with_origin(raw, "https://node".parse().unwrap());
        machine.meta_delete(MetaDeleteRequest { key: KEY.into() }).await.unwrap();
        assert_eq!(client.get(kind, "0x0c").await.unwrap(), None);
        let twice = machine.meta_delete(MetaDeleteRequest { key: KEY.into() }).await.unwrap_err();
        assert_eq!(twice.code(), tonic::Code::NotFound);
        let wide = machine.meta_delete(MetaDeleteRequest { key: 256 }).await.unwrap_err();
        assert_eq!(wide.code(), tonic::Code::InvalidArgument);
    });
    bed.lab.stop();
}

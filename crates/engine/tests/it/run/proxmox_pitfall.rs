//! Nine known problems of a simple sequence of requests to Proxmox. Each test provokes one of them.

use std::time::Duration;

use talmox_engine::step::Moment;
use talmox_lab::pve::Action as FaultAction;
use talmox_plan::ownership::{Marker, Stage};
use talmox_pve::api::storage::{self, Content};
use talmox_pve::api::{cluster, qemu};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::property::{BootOrder, Drive};

use super::destroy::take_down;
use super::rig::{
    ADMIN, RELEASES, Rig, bring_up, bring_up_after, create, finish, id, own, resize, step,
};
use super::template::from_template;
use super::volume::{size, with_cidata};

#[tokio::test]
async fn pitfall_1_a_vm_that_is_being_created_is_in_no_pool() {
    for release in RELEASES {
        let rig = Rig::start(release);
        let own = own("cp-1", 300);
        // The task is so slow that it still runs when the second run reads the VM.
        rig.inject_task_fault("qmcreate", FaultAction::Delay(Duration::from_mins(10)));
        let steps = bring_up(&own);
        let first = rig.run_until(&steps, "cp-1/create", Moment::AfterAct).await;
        assert!(!first.outcome.is_done());
        // A token with these rights cannot see the VM, although its vmid is in use. Only the token's own task shows that.
        let ran = rig.run(&steps).await;
        ran.assert_done();
        assert_eq!(ran.results()[0], "cp-1/create already");
        assert!(rig.recorded_requests().contains(&"GET /nodes/pve1/tasks".to_owned()));
    }
}

#[tokio::test]
async fn pitfall_1_a_vm_locked_by_a_host_crash_is_reported_and_kept() {
    let rig = Rig::start("9.2");
    let steps = [step("create", create(&own("cp-1", 310)), &[])];
    let (text, hint) = rig.run_with(&steps, &rig.context(ADMIN)).await.failure();
    assert!(text.contains("VM 310 is incomplete: its create was interrupted"), "{text}");
    // The VM may be one that is being restored from a backup. So the hint first shows how to check that the VM is empty, and
    // then how to delete it.
    let (proof, deletion) = hint.split_once("Only one that has none of these").unwrap();
    assert!(proof.contains("on pve1: qm config 310") && !proof.contains("destroy"), "{hint}");
    assert!(deletion.contains("qm destroy 310"), "{hint}");
}

#[tokio::test]
async fn pitfall_2_a_clone_of_an_owned_vm_has_its_marker_and_another_uuid() {
    for release in RELEASES {
        let rig = Rig::start(release);
        let own = own("cp-1", 300);
        let steps = from_template(&own, true);
        // The run is killed between the clone and the first change of the clone.
        let first = rig.run_until(&steps, "finish", Moment::BeforeAct).await;
        assert!(!first.outcome.is_done());
        let found = rig.config(&own.vm).await;
        assert_eq!(Marker::find(found.description()).unwrap().stage, Stage::Clone);
        assert_ne!(found.smbios().uuid, Some(own.identity.uuid.to_string()));
        rig.run(&steps).await.assert_done();
        let config = rig.config(&own.vm).await;
        assert_eq!(Marker::find(config.description()).unwrap().stage, Stage::Made);
        assert_eq!(config.smbios().uuid, Some(own.identity.uuid.to_string()));
        // One change writes both stage and UUID, so that no VM has only one of them.
        let record = rig.record();
        let changes = record.lines().filter(|line| line.contains("\"PUT\""));
        let change = changes.clone().find(|line| line.contains("smbios1")).unwrap();
        assert!(change.contains("stage=made"), "{change}");
        let clones = rig.recorded_requests().iter().filter(|call| call.ends_with("/clone")).count();
        assert_eq!(clones, 2, "the second is rejected: the vmid is in use");
    }
}

#[tokio::test]
async fn pitfall_2_a_renamed_clone_with_the_marker_is_not_resumed() {
    let rig = Rig::start("9.2");
    let own = own("cp-1", 300);
    let steps = from_template(&own, true);
    rig.run_until(&steps, "finish", Moment::BeforeAct).await;
    let change = VmChange { set: VmOptions::new().name("mine"), ..VmChange::default() };
    rig.client(ADMIN).send(&qemu::set_config(&own.vm, &change)).await.unwrap();
    let before = rig.config(&own.vm).await;
    let (text, _) = rig.run(&steps).await.failure();
    assert!(text.contains("VM 300 is not the VM of cp-1"), "{text}");
    assert_eq!(rig.config(&own.vm).await, before);
}

#[tokio::test]
async fn pitfall_3_tags_are_set_after_the_create() {
    for release in RELEASES {
        let rig = Rig::start(release);
        let own = own("cp-1", 300);
        rig.run(&bring_up(&own)).await.assert_done();
        let record = rig.record();
        let create = record.lines().find(|line| line.contains("\"POST\"")).unwrap();
        assert!(create.contains("efidisk0") && !create.contains("\"tags\""), "{create}");
        assert!(rig.config(&own.vm).await.tags().contains("talmox"));
    }
}

#[tokio::test]
async fn pitfall_4_a_rejected_change_is_reverted() {
    for release in RELEASES {
        let rig = Rig::start(release);
        let own = own("cp-1", 300);
        // Proxmox checks the boot order in the middle of the change, when it may have stored other options already.
        let bad = VmOptions::new().boot(&BootOrder::of(["scsi7"])).cores(8).memory_mib(4096);
        let steps =
            [step("create", create(&own), &[]), step("finish", finish(&own, bad), &["create"])];
        let ran = rig.run(&steps).await;
        let (text, _) = ran.failure();
        assert!(text.starts_with("configure VM 300 on pve1"), "{text}");
        let pending = rig.client(ADMIN).send(&qemu::pending(&own.vm)).await.unwrap();
        let left: Vec<_> = pending.iter().filter(|option| option.pending.is_some()).collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(rig.config(&own.vm).await.get("cores"), Some("2"));
        // Afterwards the correct change works.
        rig.run(&bring_up(&own)).await.assert_done();
    }
}

#[tokio::test]
async fn pitfall_5_an_absent_and_a_forbidden_vm_are_distinguished() {
    let rig = Rig::start("9.2");
    let (owned, foreign) = (own("cp-1", 300), own("cp-1", 101));
    let gone = rig.run(&take_down(&owned)).await;
    assert_eq!(gone.results(), ["stop already", "destroy already"]);
    let (text, _) = rig.run(&take_down(&foreign)).await.failure();
    assert!(text.contains("cannot see"), "{text}");
    assert!(!rig.record().contains("DELETE"));
}

#[tokio::test]
async fn pitfall_6_unreferenced_disks_with_the_vmid_are_kept() {
    let rig = Rig::start("9.2");
    let own = own("cp-1", 300);
    rig.run(&bring_up(&own)).await.assert_done();
    rig.run(&take_down(&own)).await.assert_done();
    let admin = rig.client(ADMIN);
    let on = |storage: &str| {
        storage::content(&id("pve1"), &id(storage), Some(Content::Images), Some(own.vm.vmid))
    };
    assert_eq!(admin.send(&on("local-lvm")).await.unwrap(), []);
    assert_eq!(admin.send(&on("tank")).await.unwrap().len(), 1);
    assert!(!rig.record().contains("destroy-unreferenced-disks"));
}

#[tokio::test]
async fn pitfall_7_an_upload_that_may_not_be_deleted_is_overwritten() {
    for release in RELEASES {
        let rig = Rig::start(release);
        let own = own("cp-1", 300);
        let steps = with_cidata(&own);
        rig.run(&steps[..1]).await.assert_done();
        assert!(size(&rig).await.unwrap() > 4096);
        rig.run(&steps).await.assert_done();
        assert_eq!(size(&rig).await, Some(4096), "zeros are what is left");
        assert!(!rig.record().contains("DELETE"));
        let twice = rig.recorded_requests().iter().filter(|call| call.ends_with("/upload")).count();
        assert_eq!(twice, 3, "the config twice, and the zeros");
    }
}

#[tokio::test]
async fn pitfall_8_a_cloudinit_drive_is_set_once() {
    for release in RELEASES {
        let rig = Rig::start(release);
        let own = own("cp-1", 300);
        let drive = Drive::cloudinit(&id("local-lvm"));
        let again = VmOptions::new().drive(&id("ide2"), &drive);
        let elsewhere = VmOptions::new().drive(&id("ide0"), &drive);
        let steps = [
            step("create", create(&own), &[]),
            step("finish", finish(&own, again), &["create"]),
            step("more", finish(&own, elsewhere.cores(3)), &["finish"]),
        ];
        rig.run(&steps).await.assert_done();
        let config = rig.config(&own.vm).await;
        assert_eq!(config.get("ide2"), Some("local-lvm:vm-300-cloudinit,media=cdrom"));
        assert_eq!((config.get("ide0"), config.get("cores")), (None, Some("3")));
        let volumes = storage::content(
            &id("pve1"),
            &id("local-lvm"),
            Some(Content::Images),
            Some(own.vm.vmid),
        );
        let left = rig.client(ADMIN).send(&volumes).await.unwrap();
        assert!(left.iter().any(|volume| volume.volid.is_cloudinit()), "{left:?}");
    }
}

#[tokio::test]
async fn pitfall_9_disks_are_created_once() {
    for release in RELEASES {
        let rig = Rig::start(release);
        let own = own("cp-1", 300);
        let disk = VmOptions::new().drive(&id("scsi2"), &Drive::new(&id("local-lvm"), 5));
        let finished = finish(&own, disk);
        let steps = [
            step("create", create(&own), &[]),
            step("resize", resize(&own), &["create"]),
            step("finish", finished.clone(), &["resize"]),
        ];
        rig.run(&steps).await.assert_done();
        let before = rig.config(&own.vm).await;
        assert_eq!(rig.run(&[step("finish", finished, &[])]).await.results(), ["finish already"]);
        assert_eq!(rig.config(&own.vm).await, before);
        assert!(before.get("scsi2").is_some() && before.get("unused0").is_none());
    }
}

#[tokio::test]
async fn a_concurrent_change_by_another_user_is_detected() {
    let rig = Rig::start("9.2");
    let own = own("cp-1", 300);
    let words = "checksum mismatch (file change by other user?)".to_owned();
    let put = "/nodes/pve1/qemu/300/config";
    rig.inject_fault("PUT", put, FaultAction::Reject { status: 500, message: words });
    let ran = rig.run(&bring_up_after(&self::own("cp-0", 320), &own)).await;
    ran.assert_done();
    assert_eq!(ran.retries(), 1);
    let config = rig.config(&own.vm).await;
    assert_eq!(Marker::find(config.description()).unwrap().stage, Stage::Made);
    let puts = rig.recorded_requests().iter().filter(|call| **call == format!("PUT {put}")).count();
    assert_eq!(puts, 2);
    assert!(rig.client(ADMIN).send(&cluster::is_free(own.vm.vmid)).await.is_err());
}

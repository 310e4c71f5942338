//! Creating VMs.

use std::time::Duration;

use talmox_lab::pve::Action as FaultAction;
use talmox_plan::ownership::{Marker, Stage};
use talmox_plan::plan::{Action, CreateVm};
use talmox_pve::api::qemu;
use talmox_pve::property::GIB;

use super::rig::{ADMIN, RELEASES, Rig, bring_up, bring_up_after, create, id, own, step};

#[tokio::test]
async fn a_second_run_after_a_create_changes_nothing() {
    for release in RELEASES {
        let rig = Rig::start(release);
        let own = own("cp-1", 300);
        let ran = rig.run(&bring_up(&own)).await;
        ran.assert_done();
        assert_eq!(
            ran.results(),
            ["cp-1/create done", "cp-1/resize done", "cp-1/finish done", "cp-1/start done"]
        );
        let config = rig.config(&own.vm).await;
        assert_eq!(config.drive(&id("scsi0")).unwrap().size(), Some(40 * GIB));
        assert_eq!(config.smbios().uuid, Some(own.identity.uuid.to_string()));
        assert_eq!(Marker::find(config.description()).unwrap().stage, Stage::Made);
        assert!(config.tags().contains("talmox") && config.tags().contains("home"));
        assert!(rig.client(ADMIN).send(&qemu::current(&own.vm)).await.unwrap().running);

        let again = rig.run(&bring_up(&own)).await;
        again.assert_done();
        assert!(
            again.results().iter().all(|result| result.ends_with("already")),
            "{:?}",
            again.results()
        );
    }
}

#[tokio::test]
async fn a_create_takes_five_requests_and_the_first_two_more_for_its_tags() {
    let rig = Rig::start("9.2");
    rig.run(&bring_up_after(&own("cp-0", 320), &own("cp-1", 300))).await.assert_done();
    let (first, asked): (Vec<String>, Vec<String>) =
        rig.recorded_requests().into_iter().partition(|asked| asked.contains("/320"));
    assert_eq!(first.len(), 4 + 2, "{first:?}");
    // The path of the create request of the first VM does not contain its vmid.
    let asked = &asked[1..];
    assert_eq!(
        asked,
        [
            "POST /nodes/pve1/qemu",
            "PUT /nodes/pve1/qemu/300/resize",
            "GET /nodes/pve1/qemu/300/config",
            "PUT /nodes/pve1/qemu/300/config",
            "POST /nodes/pve1/qemu/300/status/start",
        ]
    );
}

#[tokio::test]
async fn a_disk_smaller_than_its_image_is_not_shrunk() {
    let rig = Rig::start("9.2");
    let mut steps = bring_up(&own("cp-1", 300));
    let Action::ResizeDisk(resize) = &mut steps[1].action else { panic!() };
    resize.gib = 2;
    let ran = rig.run(&steps).await;
    ran.assert_done();
    assert_eq!(ran.results()[1], "cp-1/resize already");
}

#[tokio::test]
async fn a_foreign_vm_is_not_changed_by_a_create() {
    let rig = Rig::start("9.2");
    // The foreign VM 101 has the same name as the node, and the planned vmid.
    let ran = rig.run_with(&bring_up(&own("cp-1", 101)), &rig.context(ADMIN)).await;
    assert_eq!(ran.results()[1], "cp-1/resize blocked by cp-1/create");
    let (text, hint) = ran.failure();
    assert!(text.contains("VM 101 is not the VM of cp-1: it does not carry"), "{text}");
    assert!(hint.contains("another vmid"), "{hint}");
    // A token with few rights cannot see the foreign VM.
    let (text, _) = rig.run(&bring_up(&own("cp-1", 101))).await.failure();
    assert!(text.contains("used by a VM that the token cannot see"), "{text}");
    let asked = rig.recorded_requests();
    let changes = asked.iter().filter(|call| !call.starts_with("GET "));
    assert_eq!(changes.collect::<Vec<_>>(), ["POST /nodes/pve1/qemu", "POST /nodes/pve1/qemu"]);
}

#[tokio::test]
async fn a_vm_of_another_cluster_of_the_same_name_is_foreign() {
    let rig = Rig::start("9.2");
    let mut other = own("cp-1", 300);
    other.identity.cluster = talmox_plan::ownership::ClusterMark::of("another");
    rig.run(&bring_up(&own("cp-1", 300))).await.assert_done();
    let (text, _) = rig.run(&bring_up(&other)).await.failure();
    assert!(text.contains("it belongs to another cluster"), "{text}");
}

#[tokio::test]
async fn a_create_task_of_an_earlier_run_is_waited_for() {
    let rig = Rig::start("9.2");
    let own = own("cp-1", 300);
    rig.inject_task_fault("qmcreate", FaultAction::Delay(Duration::from_mins(1)));
    let Action::CreateVm(desired) = create(&own) else { unreachable!() };
    let request = qemu::create(&own.vm, desired.pool.as_ref(), &desired.options);
    let running = rig.context(super::rig::TALMOX).pve.start(&request).await.unwrap();
    let resumed = CreateVm { running: Some(running.upid.clone()), ..desired };
    let ran = rig.run(&[step("create", Action::CreateVm(resumed), &[])]).await;
    assert_eq!(ran.results(), ["create already"]);
    let creates =
        rig.recorded_requests().iter().filter(|call| *call == "POST /nodes/pve1/qemu").count();
    assert_eq!(creates, 1);
}

//! Stopping and destroying VMs.

use talmox_plan::plan::{Action, DestroyVm, OwnVm, Step, StopVm};
use talmox_pve::api::ha::{self, HaSettings};
use talmox_pve::api::{cluster, qemu};
use talmox_pve::config::{VmChange, VmOptions};

use super::rig::{ADMIN, DEADLINE, RELEASES, Rig, bring_up, own, step};

pub(super) fn take_down(own: &OwnVm) -> Vec<Step> {
    let stop = StopVm { own: own.clone(), deadline: DEADLINE };
    let destroy = DestroyVm { own: own.clone(), deadline: DEADLINE };
    vec![
        step("stop", Action::StopVm(stop), &[]),
        step("destroy", Action::DestroyVm(destroy), &["stop"]),
    ]
}

#[tokio::test]
async fn a_vm_is_destroyed_once() {
    for release in RELEASES {
        let rig = Rig::start(release);
        let own = own("cp-1", 300);
        rig.run(&bring_up(&own)).await.assert_done();
        let ran = rig.run(&take_down(&own)).await;
        assert_eq!(ran.results(), ["stop done", "destroy done"]);
        // A token with these rights gets the same error for a missing VM and for a forbidden VM.
        let again = rig.run(&take_down(&own)).await;
        assert_eq!(again.results(), ["stop already", "destroy already"]);
    }
}

#[tokio::test]
async fn a_vm_with_the_marker_and_another_uuid_is_not_destroyed() {
    let rig = Rig::start("9.2");
    let own = own("cp-1", 300);
    rig.run(&bring_up(&own)).await.assert_done();
    let admin = rig.client(ADMIN);
    admin.run(&qemu::stop(&own.vm, true), DEADLINE).await.unwrap();
    let other = "uuid=aaaaaaaa-0000-4000-8000-00000000ffff";
    let set = VmOptions::new().set("smbios1", other);
    let change = VmChange { set, ..VmChange::default() };
    admin.send(&qemu::set_config(&own.vm, &change)).await.unwrap();
    let ran = rig.run(&take_down(&own)).await;
    let (text, _) = ran.failure();
    assert!(text.contains("it has the marker of this node, but the UUID aaaaaaaa-"), "{text}");
    assert!(!rig.record().contains("DELETE"));
    rig.config(&own.vm).await;
}

#[tokio::test]
async fn a_vm_that_was_protected_since_the_plan_is_kept() {
    let rig = Rig::start("9.2");
    let own = own("cp-1", 300);
    rig.run(&bring_up(&own)).await.assert_done();
    let change = VmChange { set: VmOptions::new().protection(true), ..VmChange::default() };
    rig.client(ADMIN).send(&qemu::set_config(&own.vm, &change)).await.unwrap();
    let (text, hint) = rig.run(&take_down(&own)).await.failure();
    assert!(text.contains("VM 300 is protected"), "{text}");
    assert!(hint.contains("qm set 300 --protection 0"), "{hint}");
    assert!(!rig.record().contains("DELETE"));
}

#[tokio::test]
async fn an_ha_managed_vm_is_started_and_destroyed() {
    for release in RELEASES {
        let rig = Rig::start(release);
        let own = own("cp-1", 300);
        let steps = bring_up(&own);
        rig.run(&steps[..3]).await.assert_done();
        let admin = rig.client(ADMIN);
        let care = HaSettings { state: Some("stopped".to_owned()), ..HaSettings::default() };
        admin.send(&ha::add_resource(own.vm.vmid, &care)).await.unwrap();
        let context = rig.context(ADMIN);
        rig.run_with(&steps[3..], &context).await.assert_done();
        assert!(admin.send(&qemu::current(&own.vm)).await.unwrap().running);
        let ran = rig.run_with(&take_down(&own), &context).await;
        assert_eq!(ran.results(), ["stop done", "destroy done"]);
        assert_eq!(admin.send(&cluster::is_free(own.vm.vmid)).await.unwrap(), own.vm.vmid);
        assert!(admin.send(&ha::resources()).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_migrated_vm_is_destroyed_on_its_new_host() {
    let rig = Rig::start("9.2");
    let there = own("cp-1", 300);
    rig.run(&bring_up(&there)[..1]).await.assert_done();
    let mut elsewhere = there.clone();
    elsewhere.vm.node = super::rig::id("pve2");
    let ran = rig.run(&bring_up(&elsewhere)[1..3]).await;
    ran.assert_done();
    assert!(rig.config(&there.vm).await.tags().contains("talmox"));
}

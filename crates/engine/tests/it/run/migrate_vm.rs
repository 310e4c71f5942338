//! Migrations of VMs, and the steps after them.

use talmox_engine::step::{Context, Cut, Moment};
use talmox_lab::pve::Action as FaultAction;
use talmox_plan::ownership::Stage;
use talmox_plan::plan::{Action, ChangeVm, MigrateVm, OwnVm, Step};
use talmox_pve::api::ha::{self, HaSettings};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::VmOptions;
use talmox_pve::property::Smbios;

use super::rig::{
    ADMIN, CompletedRun, DEADLINE, RELEASES, Rig, bring_up, description, id, once, own, start, step,
};

/// `migrate`, `change` and `start`, as planned for the host that the VM leaves.
fn move_and_start(own: &OwnVm, is_online: bool) -> Vec<Step> {
    let migrate = MigrateVm { own: own.clone(), target: id("pve2"), is_online, deadline: DEADLINE };
    let change = ChangeVm {
        own: own.clone(),
        set: VmOptions::new().set("startup", "order=3"),
        delete: vec![],
        pool: None,
        deadline: DEADLINE,
    };
    vec![
        step("migrate", Action::MigrateVm(migrate), &[]),
        step("change", Action::ChangeVm(change), &["migrate"]),
        step("start", start(own), &["change"]),
    ]
}

/// A lab with the stopped VM 300, whose disks are on local storages.
async fn with_vm(release: &str) -> (Rig, OwnVm) {
    let rig = Rig::start(release);
    let own = own("cp-1", 300);
    let mut steps = bring_up(&own);
    steps.pop();
    rig.run(&steps).await.assert_done();
    (rig, own)
}

/// A lab with the running VM 300, which has no disks.
async fn with_diskless_vm(release: &str) -> (Rig, OwnVm) {
    let rig = Rig::start(release);
    let own = own("cp-1", 300);
    let options = VmOptions::new()
        .name(&own.identity.node)
        .description(&description(&own, Stage::Made))
        .memory_mib(2048)
        .smbios1(&Smbios::with_uuid(&own.identity.uuid.to_string()));
    let admin = rig.client(ADMIN);
    for request in [qemu::create(&own.vm, Some(&id("talos")), &options), qemu::start(&own.vm)] {
        let running = admin.start(&request).await.unwrap();
        admin.finish(running, DEADLINE).await.unwrap();
    }
    (rig, own)
}

/// Runs the steps with administrator rights, because the role of talmox in these labs lacks VM.Migrate.
async fn run(rig: &Rig, steps: &[Step]) -> CompletedRun {
    rig.run_with(steps, &rig.context(ADMIN)).await
}

/// Checks that the VM runs on the other host with its changed option, and is not on the first one.
async fn assert_moved(rig: &Rig, own: &OwnVm, what: &str) {
    let there = Vm::new(&id("pve2"), own.vm.vmid);
    let admin = rig.client(ADMIN);
    let config = admin.send(&qemu::config(&there)).await.unwrap();
    assert_eq!((config.get("startup"), config.lock()), (Some("order=3"), None), "{what}");
    assert!(admin.send(&qemu::current(&there)).await.unwrap().running, "{what}");
    assert!(admin.send(&qemu::config(&own.vm)).await.unwrap_err().is_vm_missing(), "{what}");
}

#[tokio::test]
async fn a_stopped_vm_moves_with_its_disks_and_later_steps_find_it() {
    for release in RELEASES {
        let (rig, own) = with_vm(release).await;
        let ran = run(&rig, &move_and_start(&own, false)).await;
        assert_eq!(ran.results(), ["migrate done", "change done", "start done"], "{release}");
        assert_moved(&rig, &own, release).await;
        let again = run(&rig, &move_and_start(&own, false)).await;
        let expected = ["migrate already", "change already", "start already"];
        assert_eq!(again.results(), expected, "{release}");
    }
}

#[tokio::test]
async fn a_running_vm_without_local_disks_keeps_running() {
    for release in RELEASES {
        let (rig, own) = with_diskless_vm(release).await;
        let ran = run(&rig, &move_and_start(&own, true)).await;
        assert_eq!(ran.results(), ["migrate done", "change done", "start already"], "{release}");
        assert_moved(&rig, &own, release).await;
    }
}

#[tokio::test]
async fn a_running_vm_with_local_disks_stays_and_the_error_names_them() {
    let rig = Rig::start("9.2");
    let own = own("cp-1", 300);
    rig.run(&bring_up(&own)).await.assert_done();
    let ran = run(&rig, &move_and_start(&own, true)).await;
    let (text, hint) = ran.failure();
    let why = "VM 300 cannot be migrated to pve2: it runs, and has disks on local storages: ";
    assert!(text.starts_with(why) && text.contains("local-lvm:vm-300-disk-"), "{text}");
    assert!(hint.contains("shared storage"), "{hint}");
    let (text, _) = run(&rig, &move_and_start(&own, false)).await.failure();
    assert_eq!(text, "VM 300 cannot be migrated to pve2: it runs, and must be stopped first");
    assert!(
        !rig.recorded_requests()
            .iter()
            .any(|call| call.starts_with("POST ") && call.contains("/migrate"))
    );
}

#[tokio::test]
async fn a_lost_answer_moves_a_vm_once() {
    for action in [FaultAction::TimedOut, FaultAction::CutAfter, FaultAction::CutBefore] {
        let what = format!("{action:?}");
        let (rig, own) = with_vm("9.2").await;
        rig.inject_fault("POST", "/nodes/pve1/qemu/300/migrate", action);
        run(&rig, &move_and_start(&own, false)).await.assert_done();
        assert_moved(&rig, &own, &what).await;
    }
}

#[tokio::test]
async fn a_migration_killed_anywhere_is_finished_by_the_next_run() {
    for (moment, cut) in [
        (Moment::BeforeAct, Cut::Crash),
        (Moment::AfterAct, Cut::Crash),
        (Moment::BeforeAct, Cut::Fail),
        (Moment::AfterAct, Cut::Fail),
    ] {
        let what = format!("{moment:?} {cut:?}");
        let (rig, own) = with_vm("9.2").await;
        let context = Context { cut: Some(once("migrate", moment, cut)), ..rig.context(ADMIN) };
        let steps = move_and_start(&own, false);
        assert!(!rig.run_with(&steps, &context).await.outcome.is_done(), "{what}");
        run(&rig, &steps).await.assert_done();
        assert_moved(&rig, &own, &what).await;
    }
}

#[tokio::test]
async fn the_ha_manager_is_waited_for() {
    for release in RELEASES {
        let (rig, own) = with_diskless_vm(release).await;
        let admin = rig.client(ADMIN);
        admin.send(&ha::add_resource(own.vm.vmid, &HaSettings::default())).await.unwrap();
        let ran = run(&rig, &move_and_start(&own, true)).await;
        ran.assert_done();
        let waits = ran.waits();
        let reason = "waiting for the HA manager to migrate VM 300 to pve2";
        assert!(waits.contains(&reason), "{waits:?}");
        assert_moved(&rig, &own, release).await;
    }
}

//! Changes of VMs that exist.

use talmox_engine::step::{Context, Cut, Moment};
use talmox_lab::pve::Action as FaultAction;
use talmox_plan::plan::{Action, ChangeVm, OwnVm, Step};
use talmox_pve::api::pool;
use talmox_pve::api::qemu;
use talmox_pve::api::storage;
use talmox_pve::config::VmOptions;
use talmox_pve::property::Tags;

use super::rig::{ADMIN, DEADLINE, RELEASES, Rig, TALMOX, bring_up, id, once, own, step};

fn change(own: &OwnVm, set: VmOptions) -> ChangeVm {
    ChangeVm { own: own.clone(), set, delete: vec![], pool: None, deadline: DEADLINE }
}

fn only(change: ChangeVm) -> [Step; 1] {
    [step("change", Action::ChangeVm(change), &[])]
}

/// A lab with the VM 300. It runs if `is_started`.
async fn with_vm(release: &str, is_started: bool) -> (Rig, OwnVm) {
    let rig = Rig::start(release);
    let own = own("cp-1", 300);
    let mut steps = bring_up(&own);
    if !is_started {
        steps.pop();
    }
    rig.run(&steps).await.assert_done();
    (rig, own)
}

/// The volumes of the VM 300 on the storage of its disks.
async fn disks(rig: &Rig) -> usize {
    let list = storage::content(&id("pve1"), &id("local-lvm"), None, None);
    let found = rig.client(ADMIN).send(&list).await.unwrap();
    found.iter().filter(|volume| volume.volid.to_string().contains("vm-300-disk-")).count()
}

/// A change of memory, disks and tags.
fn larger(own: &OwnVm) -> ChangeVm {
    let set = VmOptions::new()
        .cores(2)
        .memory_mib(4096)
        .set("scsi0", "local-lvm:80,discard=on")
        .set("scsi1", "local-lvm:10,discard=on")
        .tags(&Tags::of(["talmox", "home", "large"]));
    ChangeVm { delete: vec!["serial0".to_owned(), "net7".to_owned()], ..change(own, set) }
}

async fn assert_larger(rig: &Rig, own: &OwnVm, what: &str) {
    let config = rig.config(&own.vm).await;
    assert_eq!(config.get("memory"), Some("4096"), "{what}");
    assert_eq!(config.get("serial0"), None, "{what}");
    assert_eq!(config.tags().to_string(), "home;large;talmox", "{what}");
    let disk = config.drive(&id("scsi1")).unwrap();
    assert_eq!(disk.size(), Some(10 << 30), "{what}");
    // The existing disk in its slot is not replaced.
    let system = config.drive(&id("scsi0")).unwrap();
    assert_eq!(system.size(), Some(40 << 30), "{what}");
    assert_eq!(config.get("unused0"), None, "{what}");
    // The EFI disk, the system disk and the new one.
    assert_eq!(disks(rig).await, 3, "{what}");
}

#[tokio::test]
async fn differences_of_a_stopped_vm_are_set_once() {
    for release in RELEASES {
        let (rig, own) = with_vm(release, false).await;
        let ran = rig.run(&only(larger(&own))).await;
        assert_eq!(ran.results(), ["change done"], "{release}");
        assert_eq!(ran.notes(), Vec::<&str>::new());
        assert_larger(&rig, &own, release).await;
        let before = rig.recorded_requests().len();
        let again = rig.run(&only(larger(&own))).await;
        assert_eq!(again.results(), ["change already"], "{release}");
        let asked = rig.recorded_requests();
        let changes = asked[before..].iter().filter(|call| !call.starts_with("GET "));
        assert_eq!(changes.count(), 0, "{:#?}", &asked[before..]);
    }
}

#[tokio::test]
async fn changes_that_wait_for_a_restart_are_reported() {
    for release in RELEASES {
        let (rig, own) = with_vm(release, true).await;
        let set = VmOptions::new().memory_mib(4096).onboot(false);
        let ran = rig.run(&only(change(&own, set.clone()))).await;
        assert_eq!(ran.results(), ["change done"], "{release}");
        assert_eq!(ran.notes(), ["pending until VM 300 is stopped and started: memory"]);
        let admin = rig.client(ADMIN);
        let now = admin.send(&qemu::current_config(&own.vm)).await.unwrap();
        assert_eq!((now.get("memory"), now.get("onboot")), (Some("2048"), Some("0")));
        let ran = rig.run(&only(change(&own, set))).await;
        assert_eq!(ran.results(), ["change already"], "{release}");
    }
}

#[tokio::test]
async fn a_lost_answer_changes_a_vm_once() {
    let config = "/nodes/pve1/qemu/300/config";
    for method in ["POST", "PUT"] {
        for action in [FaultAction::TimedOut, FaultAction::CutAfter, FaultAction::CutBefore] {
            let what = format!("{method} {action:?}");
            let (rig, own) = with_vm("9.2", false).await;
            rig.inject_fault(method, config, action);
            rig.run(&only(larger(&own))).await.assert_done();
            assert_larger(&rig, &own, &what).await;
        }
    }
}

#[tokio::test]
async fn a_change_killed_anywhere_is_finished_by_the_next_run() {
    for (moment, cut) in [
        (Moment::BeforeAct, Cut::Crash),
        (Moment::AfterAct, Cut::Crash),
        (Moment::BeforeAct, Cut::Fail),
        (Moment::AfterAct, Cut::Fail),
    ] {
        let what = format!("{moment:?} {cut:?}");
        let (rig, own) = with_vm("9.2", false).await;
        let context = Context { cut: Some(once("change", moment, cut)), ..rig.context(TALMOX) };
        let first = rig.run_with(&only(larger(&own)), &context).await;
        assert!(!first.outcome.is_done(), "{what}");
        rig.run(&only(larger(&own))).await.assert_done();
        assert_larger(&rig, &own, &what).await;
    }
}

#[tokio::test]
async fn a_rejected_change_leaves_nothing_pending() {
    for release in RELEASES {
        let (rig, own) = with_vm(release, true).await;
        // Only root may pass a device of the host to a VM.
        let set = VmOptions::new().cores(4).set("hostpci0", "0000:01:00.0");
        let ran = rig.run(&only(change(&own, set))).await;
        let (text, _) = ran.failure();
        assert!(text.starts_with("change VM 300 on pve1: "), "{text}");
        assert!(text.contains("only root can set 'hostpci0' config"), "{text}");
        let pending = rig.client(ADMIN).send(&qemu::pending(&own.vm)).await.unwrap();
        let left = pending.into_iter().filter(|option| option.pending.is_some());
        assert_eq!(left.count(), 0, "{release}");
        assert_eq!(rig.config(&own.vm).await.get("cores"), Some("2"));
    }
}

#[tokio::test]
async fn a_vm_is_moved_to_its_pool() {
    let (rig, own) = with_vm("9.2", false).await;
    let admin = rig.client(ADMIN);
    admin.send(&pool::create(&id("spare"), None)).await.unwrap();
    let moved = ChangeVm { pool: Some(id("spare")), ..change(&own, VmOptions::new()) };
    for expected in ["change done", "change already"] {
        let ran = rig.run_with(&only(moved.clone()), &rig.context(ADMIN)).await;
        assert_eq!(ran.results(), [expected]);
    }
    assert_eq!(admin.send(&pool::get(&id("spare"))).await.unwrap().guests, [own.vm.vmid]);
    let old = admin.send(&pool::get(&id("talos"))).await.unwrap().guests;
    assert!(!old.contains(&own.vm.vmid), "{old:?}");
}

#[tokio::test]
async fn a_foreign_vm_is_not_changed() {
    let rig = Rig::start("9.2");
    let foreign = own("cp-1", 101);
    let before = rig.config(&foreign.vm).await;
    let steps = only(change(&foreign, VmOptions::new().cores(8)));
    let (text, _) = rig.run_with(&steps, &rig.context(ADMIN)).await.failure();
    assert!(text.starts_with("VM 101 is not the VM of cp-1: "), "{text}");
    assert_eq!(rig.config(&foreign.vm).await, before);
}

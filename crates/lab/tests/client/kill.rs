//! Test of a lab that is killed and restarted.

use std::time::Duration;

use talmox_lab::Settings;
use talmox_lab::pve::{Action, Fault, When};
use talmox_pve::api::{qemu, task};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::property::Drive;
use tokio::runtime::{Builder, Runtime};

use crate::rig::{Rig, TIMEOUT, id, test_scenario, vm, vmid};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn a_vm_created_during_a_kill_stays_locked() {
    let folder = tempfile::tempdir().unwrap();
    let state = || Some(folder.path().to_owned());
    let killed = runtime();
    let before = killed.block_on(async {
        let rig = Rig::start(Settings { state: state(), ..test_scenario("9.2") });
        let client = rig.admin();
        let change = VmChange { set: VmOptions::new().description("kept"), ..VmChange::default() };
        client.send(&qemu::set_config(&vm(101), &change)).await.unwrap();
        let when = When { task: Some("qmcreate".to_owned()), ..When::default() };
        rig.lab.faults().add(Fault::new(when, Action::Delay(Duration::from_hours(9))));
        let disk = Drive::import(&id("local-lvm"), &id("local:import/talos.qcow2"));
        let options = VmOptions::new().name("cp-1").drive(&id("scsi0"), &disk);
        client.start(&qemu::create(&vm(300), None, &options)).await.unwrap();
        let listed = client.send(&qemu::list(&id("pve2"))).await.unwrap();
        let file = folder.path().join("world.json");
        while !std::fs::read_to_string(&file).unwrap().contains("\"create\"") {
            rig.lab.clock().sleep(Duration::from_secs(100)).await;
        }
        listed
    });
    // As with a kill, the lab saves nothing and ends no task.
    killed.shutdown_timeout(Duration::from_secs(30));

    runtime().block_on(async {
        let rig = Rig::start(Settings { state: state(), ..test_scenario("9.2") });
        let client = rig.admin();
        let listed = client.send(&qemu::list(&id("pve2"))).await.unwrap();
        let numbers = |list: &[qemu::VmEntry]| list.iter().map(|vm| vm.vmid).collect::<Vec<_>>();
        assert_eq!(numbers(&listed), numbers(&before));
        let kept = client.send(&qemu::config(&vm(101))).await.unwrap();
        assert_eq!(kept.description(), "kept");
        let half = client.send(&qemu::config(&vm(300))).await.unwrap();
        assert_eq!((half.lock(), half.name()), (Some("create"), None));
        let filter = task::Filter { vmid: Some(vmid(300)), ..task::Filter::default() };
        let tasks = client.send(&task::list(&id("pve2"), &filter)).await.unwrap();
        // The aborted task is still in the list, without an exit status.
        let broken_off = tasks.iter().filter(|task| task.state == task::TaskState::Undecided);
        assert_eq!((broken_off.count(), tasks.len()), (1, 1), "{tasks:?}");
        // The VM is locked, so no token can delete it.
        let locked = client.run(&qemu::delete(&vm(300), true), TIMEOUT).await.unwrap_err();
        assert!(locked.is_locked(), "{locked:?}");
        let unlock = VmChange { delete: vec!["lock".to_owned()], ..VmChange::default() };
        let rejected = client.send(&qemu::set_config(&vm(300), &unlock)).await.unwrap_err();
        assert!(rejected.is_permission(), "{rejected:?}");
    });
}

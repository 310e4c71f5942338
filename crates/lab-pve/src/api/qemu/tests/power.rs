use std::sync::Mutex;

use talmox_lab_environment::fault::Action;

use super::*;
use crate::guest::{GuestEvent, GuestEventKind};
use crate::pve_state_guard;
use Method::Post;

#[tokio::test]
async fn starting_a_running_vm_fails() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    let mut events = bench.site.guests.watch();
    assert_eq!(bench.task("/100/status/start", &[]).await, "OK");
    assert!(bench.is_running(100));
    let started = GuestEvent { node: "pve1".to_owned(), vmid: 100, kind: GuestEventKind::Started };
    assert_eq!(events.recv().await, Some(started));
    assert_eq!(bench.task("/100/status/start", &[]).await, "VM 100 already running");
}

#[tokio::test]
async fn template_locked_or_missing_vm_fails_the_start_task() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[("template", "1")]);
    bench.vm(101, &[("lock", "backup")]);
    let start = async |vmid: u32| bench.task(&format!("/{vmid}/status/start"), &[]).await;
    assert_eq!(start(100).await, "you can't start a vm if it's a template");
    assert_eq!(start(101).await, "VM is locked (backup)");
    assert_eq!(
        start(777).await,
        "Configuration file 'nodes/pve1/qemu-server/777.conf' does not exist"
    );
}

#[tokio::test]
async fn root_only_options_are_rejected_by_the_call() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    let rejected = async |what: &str, option: &str| {
        let path = format!("/100/status/{what}");
        message(bench.call_as("root@pam!t", Post, &path, &[(option, "1")]).await)
    };
    let text = "400 Parameter verification failed. skiplock: Only root may use this option.";
    for what in ["start", "stop", "shutdown", "reset", "suspend", "resume"] {
        assert_eq!(rejected(what, "skiplock").await, text, "{what}");
    }
    assert!(rejected("stop", "keepActive").await.contains("Only root may use this option."));
    assert!(!bench.is_running(100));
}

#[tokio::test]
async fn stop_applies_pending_changes() {
    let bench = QemuTestBench::new();
    bench.running(100, &[("cores", "2")]);
    bench.site.pve_state().vms.get_mut(&100).unwrap().pending.insert("cores".into(), "4".into());
    assert_eq!(bench.task("/100/status/stop", &[]).await, "OK");
    assert!(!bench.is_running(100));
    assert_eq!(bench.option(100, "cores").unwrap(), "4");
    // Stopping a stopped VM succeeds, even if it is locked.
    bench.site.pve_state().vms.get_mut(&100).unwrap().config.insert("lock".into(), "clone".into());
    assert_eq!(bench.task("/100/status/stop", &[]).await, "OK");
    assert_eq!(bench.task("/100/status/shutdown", &[]).await, "OK");
}

#[tokio::test]
async fn guest_shutdown_keeps_changes_pending_until_next_start() {
    let bench = QemuTestBench::new();
    bench.running(100, &[("cores", "2")]);
    bench.site.pve_state().vms.get_mut(&100).unwrap().pending.insert("cores".into(), "4".into());
    bench.site.guest_power_off(100);
    assert!(!bench.is_running(100));
    assert_eq!(bench.option(100, "cores").unwrap(), "2");
    assert_eq!(bench.task("/100/status/start", &[]).await, "OK");
    assert_eq!(bench.option(100, "cores").unwrap(), "4");
}

#[tokio::test]
async fn reboot_applies_pending_changes_without_start_task() {
    let bench = QemuTestBench::new();
    bench.running(100, &[("cores", "2")]);
    bench.site.pve_state().vms.get_mut(&100).unwrap().pending.insert("cores".into(), "4".into());
    assert_eq!(bench.task("/100/status/reboot", &[]).await, "OK");
    bench.until(|bench| bench.is_running(100)).await;
    assert_eq!(bench.option(100, "cores").unwrap(), "4");
    assert_eq!(bench.log("qmstart"), Vec::<String>::new());
}

#[tokio::test]
async fn calls_for_running_vms_are_rejected_for_stopped_vms() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    for what in ["reboot", "reset", "suspend", "resume"] {
        let gone = bench.call(Post, &format!("/100/status/{what}"), &[]).await;
        assert_eq!(message(gone), "500 VM 100 not running", "{what}");
        let missing = bench.call(Post, &format!("/777/status/{what}"), &[]).await;
        assert_eq!(
            message(missing),
            "500 unable to find configuration file for VM 777 on node 'pve1'",
            "{what}"
        );
    }
}

#[tokio::test]
async fn shutdown_of_unresponsive_guest_times_out() {
    let bench = QemuTestBench::new();
    bench.running(100, &[]);
    bench.site.guests.attach_simulator(100);
    let ended = bench.task("/100/status/shutdown", &[("timeout", "5")]).await;
    assert_eq!(ended, "VM quit/powerdown failed - got timeout");
    assert!(bench.is_running(100));
    let forced = [("timeout", "5"), ("forceStop", "1")];
    assert_eq!(bench.task("/100/status/shutdown", &forced).await, "OK");
    assert!(!bench.is_running(100));
    let line = "VM still running - terminating now with SIGTERM".to_owned();
    assert!(bench.log("qmshutdown").contains(&line));
    assert_eq!(bench.task("/100/status/start", &[]).await, "OK");
    bench.site.guests.detach_simulator(100);
    assert_eq!(bench.task("/100/status/shutdown", &[("timeout", "5")]).await, "OK");
}

#[tokio::test]
async fn startup_option_sets_shutdown_timeout() {
    let bench = QemuTestBench::with(Release::V9, Profile::Instant, 20.0);
    bench.running(100, &[("startup", "order=1,down=4")]);
    bench.site.guests.attach_simulator(100);
    let before = bench.site.clock.moment();
    let ended = bench.task("/100/status/shutdown", &[]).await;
    assert_eq!(ended, "VM quit/powerdown failed - got timeout");
    let waited = bench.site.clock.moment().since(before);
    assert!(waited >= Duration::from_secs(4) && waited < Duration::from_secs(50), "{waited:?}");
}

#[tokio::test]
async fn waiting_shutdown_holds_the_lock_and_can_be_overruled() {
    let bench = QemuTestBench::with(Release::V9, Profile::Instant, 200.0);
    bench.running(100, &[]);
    bench.site.guests.attach_simulator(100);
    let sent = [("timeout", "3000")];
    let waiting = bench.call(Post, "/100/status/shutdown", &sent).await.unwrap();
    assert_eq!(
        bench.task("/100/status/stop", &[]).await,
        "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"
    );
    assert!(bench.is_running(100));
    assert_eq!(bench.task("/100/status/stop", &[("overrule-shutdown", "1")]).await, "OK");
    assert!(!bench.is_running(100));
    assert_eq!(bench.end_of(waiting.as_str().unwrap()).await, "received interrupt");
    let line = format!("overruled qmshutdown tasks: {}", waiting.as_str().unwrap());
    assert!(bench.log("qmstop").contains(&line));
}

#[tokio::test]
async fn paused_vm_rejects_shutdown_and_reboot() {
    let bench = QemuTestBench::new();
    bench.running(100, &[]);
    assert_eq!(bench.task("/100/status/suspend", &[]).await, "OK");
    let text = "500 VM is paused - cannot shutdown";
    for what in ["shutdown", "reboot"] {
        assert_eq!(message(bench.call(Post, &format!("/100/status/{what}"), &[]).await), text);
    }
    assert_eq!(bench.task("/100/status/resume", &[]).await, "OK");
    assert_eq!(bench.task("/100/status/suspend", &[]).await, "OK");
    assert_eq!(bench.task("/100/status/shutdown", &[("forceStop", "1")]).await, "OK");
    assert!(!bench.is_running(100));
}

#[tokio::test]
async fn suspend_to_disk_and_resume() {
    let bench = QemuTestBench::new();
    bench.running(100, &[("memory", "1024")]);
    assert_eq!(bench.task("/100/status/suspend", &[("todisk", "1")]).await, "OK");
    assert!(!bench.is_running(100));
    assert_eq!(bench.option(100, "lock").unwrap(), "suspended");
    let state = VolumeId::parse(&bench.option(100, "vmstate").unwrap()).unwrap();
    assert!(state.name.starts_with("vm-100-state-suspend-"), "{state}");
    assert!(storage::find(&bench.site.pve_state(), "pve1", &state).unwrap().is_some());
    assert_eq!(bench.task("/100/status/resume", &[]).await, "OK");
    assert!(bench.is_running(100));
    assert_eq!(bench.option(100, "lock"), None);
    assert_eq!(bench.option(100, "vmstate"), None);
    assert!(storage::find(&bench.site.pve_state(), "pve1", &state).unwrap().is_none());
}

#[tokio::test]
async fn power_calls_for_ha_managed_vm_become_requests() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    let options = BTreeMap::from([("state".to_owned(), "stopped".to_owned())]);
    bench.site.pve_state().ha.resources.insert("vm:100".to_owned(), options);
    assert_eq!(bench.task("/100/status/start", &[]).await, "OK");
    assert_eq!(bench.site.pve_state().ha.resources["vm:100"]["state"], "started");
    assert_eq!(bench.log("hastart")[0], "Requesting HA start for VM 100");
    let overruled = bench.call(Post, "/100/status/stop", &[("overrule-shutdown", "1")]).await;
    assert!(message(overruled).contains("Not applicable for HA resources."));
    assert_eq!(bench.task("/100/status/stop", &[]).await, "OK");
    assert_eq!(bench.site.pve_state().ha.resources["vm:100"]["state"], "stopped");
}

#[tokio::test]
async fn guest_reboot_stops_vm_only_with_reboot_0() {
    let bench = QemuTestBench::new();
    bench.running(100, &[]);
    bench.running(101, &[("reboot", "0")]);
    let mut events = bench.site.guests.watch();
    bench.site.guest_reset(100);
    bench.site.guest_reset(101);
    assert_eq!(events.recv().await.unwrap().kind, GuestEventKind::Reset);
    assert_eq!(events.recv().await.unwrap().kind, GuestEventKind::Stopped);
    assert!(bench.is_running(100) && !bench.is_running(101));
}

#[tokio::test]
async fn host_failure_stops_its_guests() {
    let bench = QemuTestBench::new();
    bench.running(100, &[]);
    bench.vm(101, &[]);
    let mut events = bench.site.guests.watch();
    bench.site.switch_off_host("pve1");
    let stopped = GuestEvent { node: "pve1".to_owned(), vmid: 100, kind: GuestEventKind::Stopped };
    assert_eq!(events.recv().await, Some(stopped));
    assert!(events.try_recv().is_err());
    assert!(!bench.is_running(100));
}

#[tokio::test]
async fn observers_see_the_caller_of_every_start_and_stop() {
    let bench = QemuTestBench::new();
    bench.running(100, &[]);
    let changes = Arc::new(Mutex::new(vec![(true, None)]));
    let recorded = Arc::clone(&changes);
    bench.site.observe(move |pve_state, caller| {
        let is_running = pve_state.vms[&100].is_running();
        let mut recorded = recorded.lock().unwrap();
        if recorded.last().is_some_and(|(before, _)| *before != is_running) {
            recorded.push((is_running, caller.map(ToString::to_string)));
        }
    });
    let by_root = |is_running: bool| (is_running, Some("root@pam".to_owned()));
    let last = || changes.lock().unwrap().last().cloned().unwrap();
    let run = async |order: &str| {
        assert_eq!(bench.task(&format!("/100/status/{order}"), &[]).await, "OK", "{order}");
    };
    for (order, is_running) in [("stop", false), ("start", true), ("shutdown", false)] {
        run(order).await;
        assert_eq!(last(), by_root(is_running), "{order}");
    }

    run("start").await;
    let before = changes.lock().unwrap().len();
    run("reboot").await;
    bench.until(|bench| bench.is_running(100)).await;
    let of_reboot = changes.lock().unwrap().split_off(before);
    assert_eq!(of_reboot, [by_root(false), by_root(true)]);

    // A guest with a simulator powers off later, outside the task.
    bench.site.guests.attach_simulator(100);
    let mut events = bench.site.guests.watch();
    let power_off = async {
        assert_eq!(events.recv().await.unwrap().kind, GuestEventKind::PowerButton);
        bench.site.guest_power_off(100);
    };
    tokio::join!(run("shutdown"), power_off);
    assert_eq!(last(), by_root(false));

    // Neither a guest that powers off by itself nor a fault has a caller.
    run("start").await;
    bench.site.guest_power_off(100);
    assert_eq!(last(), (false, None));
    run("start").await;
    let down = Action::Down { host: "pve1".to_owned(), lasts: None };
    let fault = async { bench.site.apply_fault(&down) };
    pve_state_guard::made_by(Caller::parse("root@pam"), fault).await;
    assert_eq!(last(), (false, None));
}

use super::*;
use crate::guest::{GuestEvent, Moment};
use Method::Post;

#[tokio::test]
async fn a_vm_starts_once() {
    let bench = Bench::new();
    bench.vm(100, &[]);
    let mut events = bench.site.guests.watch();
    assert_eq!(bench.task("/100/status/start", &[]).await, "OK");
    assert!(bench.is_running(100));
    let started = GuestEvent { node: "pve1".to_owned(), vmid: 100, moment: Moment::Started };
    assert_eq!(events.recv().await, Some(started));
    assert_eq!(bench.task("/100/status/start", &[]).await, "VM 100 already running");
}

#[tokio::test]
async fn what_cannot_be_started_fails_late() {
    let bench = Bench::new();
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
async fn options_for_root_are_refused_at_once() {
    let bench = Bench::new();
    bench.vm(100, &[]);
    let refused = async |what: &str, option: &str| {
        let path = format!("/100/status/{what}");
        message(bench.call_as("root@pam!t", Post, &path, &[(option, "1")]).await)
    };
    let text = "400 Parameter verification failed. skiplock: Only root may use this option.";
    for what in ["start", "stop", "shutdown", "reset", "suspend", "resume"] {
        assert_eq!(refused(what, "skiplock").await, text, "{what}");
    }
    assert!(refused("stop", "keepActive").await.contains("Only root may use this option."));
    assert!(!bench.is_running(100));
}

#[tokio::test]
async fn a_stop_applies_what_is_pending() {
    let bench = Bench::new();
    bench.running(100, &[("cores", "2")]);
    bench.site.world().vms.get_mut(&100).unwrap().pending.insert("cores".into(), "4".into());
    assert_eq!(bench.task("/100/status/stop", &[]).await, "OK");
    assert!(!bench.is_running(100));
    assert_eq!(bench.option(100, "cores").unwrap(), "4");
    // A VM that is off is not stopped again, whatever its lock.
    bench.site.world().vms.get_mut(&100).unwrap().config.insert("lock".into(), "clone".into());
    assert_eq!(bench.task("/100/status/stop", &[]).await, "OK");
    assert_eq!(bench.task("/100/status/shutdown", &[]).await, "OK");
}

#[tokio::test]
async fn a_guest_that_goes_off_by_itself_leaves_changes_pending() {
    let bench = Bench::new();
    bench.running(100, &[("cores", "2")]);
    bench.site.world().vms.get_mut(&100).unwrap().pending.insert("cores".into(), "4".into());
    bench.site.guest_power_off(100);
    assert!(!bench.is_running(100));
    assert_eq!(bench.option(100, "cores").unwrap(), "2");
    assert_eq!(bench.task("/100/status/start", &[]).await, "OK");
    assert_eq!(bench.option(100, "cores").unwrap(), "4");
}

#[tokio::test]
async fn a_reboot_is_a_shutdown_and_a_start_by_itself() {
    let bench = Bench::new();
    bench.running(100, &[("cores", "2")]);
    bench.site.world().vms.get_mut(&100).unwrap().pending.insert("cores".into(), "4".into());
    assert_eq!(bench.task("/100/status/reboot", &[]).await, "OK");
    bench.until(|bench| bench.is_running(100)).await;
    assert_eq!(bench.option(100, "cores").unwrap(), "4");
    assert_eq!(bench.log("qmstart"), Vec::<String>::new());
}

#[tokio::test]
async fn calls_that_need_a_process_are_refused_at_once() {
    let bench = Bench::new();
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
async fn a_shutdown_gives_up_on_a_guest_that_does_not_listen() {
    let bench = Bench::new();
    bench.running(100, &[]);
    bench.site.guests.play(100);
    let ended = bench.task("/100/status/shutdown", &[("timeout", "5")]).await;
    assert_eq!(ended, "VM quit/powerdown failed - got timeout");
    assert!(bench.is_running(100));
    let forced = [("timeout", "5"), ("forceStop", "1")];
    assert_eq!(bench.task("/100/status/shutdown", &forced).await, "OK");
    assert!(!bench.is_running(100));
    let said = "VM still running - terminating now with SIGTERM".to_owned();
    assert!(bench.log("qmshutdown").contains(&said));
    assert_eq!(bench.task("/100/status/start", &[]).await, "OK");
    bench.site.guests.leave(100);
    assert_eq!(bench.task("/100/status/shutdown", &[("timeout", "5")]).await, "OK");
}

#[tokio::test]
async fn the_startup_option_says_how_long_to_wait() {
    let bench = Bench::with(Release::V9, Profile::Instant, 20.0);
    bench.running(100, &[("startup", "order=1,down=4")]);
    bench.site.guests.play(100);
    let before = bench.site.clock.moment();
    let ended = bench.task("/100/status/shutdown", &[]).await;
    assert_eq!(ended, "VM quit/powerdown failed - got timeout");
    let waited = bench.site.clock.moment().since(before);
    assert!(waited >= Duration::from_secs(4) && waited < Duration::from_secs(50), "{waited:?}");
}

#[tokio::test]
async fn a_shutdown_that_waits_holds_the_lock_and_can_be_overruled() {
    let bench = Bench::with(Release::V9, Profile::Instant, 200.0);
    bench.running(100, &[]);
    bench.site.guests.play(100);
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
    let said = format!("overruled qmshutdown tasks: {}", waiting.as_str().unwrap());
    assert!(bench.log("qmstop").contains(&said));
}

#[tokio::test]
async fn a_paused_guest_is_not_shut_down() {
    let bench = Bench::new();
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
async fn memory_goes_to_disk_and_comes_back() {
    let bench = Bench::new();
    bench.running(100, &[("memory", "1024")]);
    assert_eq!(bench.task("/100/status/suspend", &[("todisk", "1")]).await, "OK");
    assert!(!bench.is_running(100));
    assert_eq!(bench.option(100, "lock").unwrap(), "suspended");
    let state = VolumeId::parse(&bench.option(100, "vmstate").unwrap()).unwrap();
    assert!(state.name.starts_with("vm-100-state-suspend-"), "{state}");
    assert!(storage::find(&bench.site.world(), "pve1", &state).unwrap().is_some());
    assert_eq!(bench.task("/100/status/resume", &[]).await, "OK");
    assert!(bench.is_running(100));
    assert_eq!(bench.option(100, "lock"), None);
    assert_eq!(bench.option(100, "vmstate"), None);
    assert!(storage::find(&bench.site.world(), "pve1", &state).unwrap().is_none());
}

#[tokio::test]
async fn ha_takes_wishes_only() {
    let bench = Bench::new();
    bench.vm(100, &[]);
    let options = BTreeMap::from([("state".to_owned(), "stopped".to_owned())]);
    bench.site.world().ha.resources.insert("vm:100".to_owned(), options);
    assert_eq!(bench.task("/100/status/start", &[]).await, "OK");
    assert_eq!(bench.site.world().ha.resources["vm:100"]["state"], "started");
    assert_eq!(bench.log("hastart")[0], "Requesting HA start for VM 100");
    let overruled = bench.call(Post, "/100/status/stop", &[("overrule-shutdown", "1")]).await;
    assert!(message(overruled).contains("Not applicable for HA resources."));
    assert_eq!(bench.task("/100/status/stop", &[]).await, "OK");
    assert_eq!(bench.site.world().ha.resources["vm:100"]["state"], "stopped");
}

#[tokio::test]
async fn a_guest_boots_again_by_itself() {
    let bench = Bench::new();
    bench.running(100, &[]);
    bench.running(101, &[("reboot", "0")]);
    let mut events = bench.site.guests.watch();
    bench.site.guest_reset(100);
    bench.site.guest_reset(101);
    assert_eq!(events.recv().await.unwrap().moment, Moment::Reset);
    assert_eq!(events.recv().await.unwrap().moment, Moment::Stopped);
    assert!(bench.is_running(100) && !bench.is_running(101));
}

#[tokio::test]
async fn guests_go_down_with_their_host() {
    let bench = Bench::new();
    bench.running(100, &[]);
    bench.vm(101, &[]);
    let mut events = bench.site.guests.watch();
    bench.site.switch_off_host("pve1");
    let stopped = GuestEvent { node: "pve1".to_owned(), vmid: 100, moment: Moment::Stopped };
    assert_eq!(events.recv().await, Some(stopped));
    assert!(events.try_recv().is_err());
    assert!(!bench.is_running(100));
}

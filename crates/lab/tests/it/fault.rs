//! Tests of injected faults.

use std::io::Write as _;
use std::time::Duration;

use talmox_lab::pve::{Action, Fault, PathPattern, Profile, When};
use talmox_lab::{FaultScript as _, Scenario, Settings};

use crate::support::{Answer, TestLab, scenario, settings};

fn on(method: &str, path: &str) -> When {
    let path = Some(PathPattern::parse(path).unwrap());
    When { method: Some(method.to_owned()), path, ..When::default() }
}

/// Sends a request, and returns whether the connection was closed without an answer.
fn is_cut(lab: &TestLab, method: &str, path: &str, body: &str) -> bool {
    let mut stream = lab.connect();
    stream.write_all(lab.text(method, path, "", body).as_bytes()).unwrap();
    Answer::read(&mut stream).is_err()
}

const VM: &str = "vms: [{vmid: 101, node: pve, config: {name: web}}]";
const CONFIG: &str = "/nodes/pve/qemu/101/config";

fn description(lab: &TestLab) -> String {
    lab.get(CONFIG).json()["data"]["description"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_nth_call_is_rejected() {
    let lab = TestLab::new();
    let action = Action::Reject { status: 503, message: "not now".to_owned() };
    let fault = Fault { nth: 2, times: Some(2), ..Fault::new(on("GET", "/version"), action) };
    lab.lab().faults().add(fault);
    let statuses: Vec<u16> = (0..5).map(|_| lab.get("/version").status).collect();
    assert_eq!(statuses, [200, 503, 503, 200, 200]);
    assert_eq!(lab.get("/nosuch").status, 501);

    let always = Action::Reject { status: 500, message: "never".to_owned() };
    lab.lab().faults().add(Fault { times: None, ..Fault::new(When::default(), always) });
    assert_eq!(lab.get("/version").line(), (500, "never"));
    assert_eq!(lab.get("/nosuch").line(), (500, "never"));
    lab.lab().faults().clear();
    assert_eq!(lab.get("/version").status, 200);
}

#[test]
fn connections_close_before_or_after_the_change() {
    let lab = TestLab::start(scenario(VM));
    lab.lab().faults().add(Fault::new(on("PUT", "/nodes/*/qemu/{vmid}/config"), Action::CutBefore));
    assert!(is_cut(&lab, "PUT", CONFIG, "description=before"));
    assert_eq!(description(&lab), "");
    lab.lab().faults().add(Fault::new(on("PUT", "^/nodes/.*/config$"), Action::CutAfter));
    assert!(is_cut(&lab, "PUT", CONFIG, "description=after"));
    assert_eq!(description(&lab), "after");
}

#[test]
fn a_proxy_timeout_can_follow_a_successful_change() {
    let lab = TestLab::start(scenario(VM));
    lab.lab().faults().add(Fault::new(on("PUT", "/nodes/**"), Action::TimedOut));
    let answer = lab.request("PUT", CONFIG, "", "description=done");
    assert_eq!(answer.line(), (596, "Connection timed out"));
    assert!(answer.body.is_empty());
    assert_eq!(description(&lab), "done");

    let late = Action::Delay(Duration::from_secs(40));
    lab.lab().faults().add(Fault::new(on("PUT", "/nodes/**"), late));
    let answer = lab.request("PUT", CONFIG, "", "description=late");
    assert_eq!(answer.status, 596);
    assert_eq!(description(&lab), "late");

    let bearable = Action::Delay(Duration::from_secs(20));
    lab.lab().faults().add(Fault::new(on("PUT", "/nodes/**"), bearable));
    let before = lab.lab().clock().moment();
    assert_eq!(lab.request("PUT", CONFIG, "", "description=soon").status, 200);
    assert!(lab.lab().clock().moment().since(before) >= Duration::from_secs(20));
}

#[test]
fn a_delayed_call_continues_after_the_client_disconnects() {
    let slow = Settings { speed: 100.0, profile: Profile::Slow, ..scenario(VM) };
    let lab = TestLab::start(slow);
    let disks: Vec<String> = (0..14).map(|nth| format!("scsi{nth}=local-lvm%3A1")).collect();
    let answer = lab.request("PUT", CONFIG, "", &disks.join("&"));
    assert_eq!(answer.line(), (596, "Connection timed out"));
    for _ in 0..400 {
        if lab.get(CONFIG).json()["data"]["scsi13"].is_string() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("the work did not continue");
}

#[test]
fn a_vm_lock_can_be_unavailable() {
    let lab = TestLab::start(scenario(VM));
    let when = When { vmid: Some(101), ..When::default() };
    lab.lab().faults().add(Fault::new(when, Action::LostLock));
    let text = "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout";
    assert_eq!(lab.get(CONFIG).line(), (500, text));
    assert_eq!(lab.get(CONFIG).status, 200);
}

#[test]
fn hosts_go_down_and_come_back() {
    let lab = TestLab::start(scenario("nodes: [{name: pve1}, {name: pve2}]"));
    let down = Action::Down { host: "pve2".to_owned(), lasts: Some(Duration::from_mins(10)) };
    lab.lab().faults().add(Fault::new(on("GET", "/version"), down));
    let there = "/nodes/pve2/qemu/101/config";
    assert_eq!(lab.get(there).status, 500);
    lab.get("/version");
    assert_eq!(lab.get(there).line(), (595, "No route to host"));
    for _ in 0..100 {
        if lab.get(there).status != 595 {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    assert_eq!(lab.get(there).status, 500);
}

#[test]
fn a_fault_deletes_a_token() {
    let lab = TestLab::new();
    let token = lab.pve.token_id.clone();
    let when = on("GET", "/version");
    lab.lab().faults().add(Fault { nth: 2, ..Fault::new(when, Action::Revoke { token }) });
    let statuses: Vec<u16> = (0..3).map(|_| lab.get("/version").status).collect();
    assert_eq!(statuses, [200, 401, 401]);
}

#[test]
fn fault_files_support_every_action() {
    let script = "
faults:
  - {method: get, path: /version, nth: 2, refuse: {status: 500, message: again}}
  - {path: /nodes/*/qemu, times: always, delay: 300ms}
  - {path: /x, cut: before}
  - {path: /x, cut: after}
  - {path: /x, timeout: true}
  - {task: qmcreate, vmid: 300, fail: {percent: 40, message: boom}}
  - {method: POST, full: local-lvm}
  - {vmid: 7, lock: lost}
  - {host: pve2, down: pve2}
  - {path: /x, down: {host: pve2, for: 2m}}
  - {path: /x, revoke: root@pam!lab}
";
    let faults = Fault::parse("faults.yaml", script).unwrap();
    assert_eq!(faults.len(), 11);
    assert_eq!(faults[0].nth, 2);
    assert_eq!(faults[1].times, None);
    assert_eq!(faults[1].action, Action::Delay(Duration::from_millis(300)));
    let boom = Action::Fail { percent: 40, message: "boom".to_owned() };
    assert_eq!((faults[5].when.vmid, &faults[5].action), (Some(300), &boom));
    let down = Action::Down { host: "pve2".to_owned(), lasts: Some(Duration::from_mins(2)) };
    assert_eq!(faults[9].action, down);

    let lab = TestLab::start(Settings { faults, ..settings() });
    assert_eq!(lab.get("/version").status, 200);
    assert_eq!(lab.get("/version").line(), (500, "again"));

    let in_scenario = TestLab::start(scenario(&format!("nodes: [pve, pve2]{script}")));
    assert_eq!(in_scenario.get("/version").status, 200);
    assert_eq!(in_scenario.get("/version").status, 500);
}

#[test]
fn a_scenario_can_only_revoke_its_own_tokens() {
    for (script, part) in [
        ("nodes: [pve1]\nfaults:\n  - {down: pve2}", "there is no host `pve2`"),
        ("nodes: [pve1]\nfaults:\n  - {down: {host: pve, for: 2m}}", "there is no host `pve`"),
        (
            "nodes: [pve1]\nfaults:\n  - {method: POST, host: pve2, cut: after}",
            "there is no host `pve2`",
        ),
        ("nodes: [pve1]\nfaults:\n  - {revoke: ops@pve!ci}", "there is no token `ops@pve!ci`"),
    ] {
        let scenario = Scenario::parse("lab.yaml", script).unwrap();
        let error = Fault::of_scenario(&scenario).unwrap_err();
        assert_eq!(error.line, 3, "{script}");
        assert!(error.message.contains(part), "{script}: {error}");
    }
}

#[test]
fn fault_file_errors_have_a_line() {
    for (script, line, part) in [
        ("faults:\n  - {path: /x}", 2, "a fault needs one of the actions"),
        ("faults:\n\n  - {cut: sideways}", 3, "before or after"),
        ("faults: [{cut: before, full: local}]", 1, "one action"),
        ("faults: [{wehn: 1, cut: before}]", 1, "no `wehn`"),
        ("faults: [{nth: x, cut: before}]", 1, "`nth` is a number"),
        ("faults: [{path: /a/**/b, cut: before}]", 1, "only at the end"),
        ("faults: [{delay: soon}]", 1, "a time"),
        ("faults: [7]", 1, "a mapping"),
    ] {
        let error = Fault::parse("faults.yaml", script).unwrap_err();
        assert_eq!(error.line, line, "{script}");
        assert!(error.message.contains(part), "{script}: {error}");
    }
}

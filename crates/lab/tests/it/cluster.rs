//! Tests of hosts, tasks and high availability.

use std::time::Duration;

use serde_json::{Value as Json, json};
use talmox_clock::Clock;
use talmox_lab::Settings;
use talmox_lab::pve::{Action, Fault, PathPattern, When};

use crate::support::{TestLab, scenario};

const CLUSTER: &str = "
nodes: [pve1, pve2, pve3]
storages:
  - {storage: local, type: dir, path: /var/lib/vz, content: 'iso,import'}
  - {storage: nas, type: nfs, server: 10.0.0.5, export: /x, content: images}
volumes:
  - {volid: 'nas:101/vm-101-disk-0.raw', size: 1GiB}
vms:
  - {vmid: 101, node: pve2, status: running, config: {name: cp, scsi0: 'nas:101/vm-101-disk-0.raw,size=1G'}}
  - {vmid: 102, node: pve2, status: running, config: {name: plain}}
ha:
  resources:
    'vm:101': {state: started}
";

fn data(lab: &TestLab, path: &str) -> Json {
    let answer = lab.get(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()["data"].clone()
}

/// Repeats a request until the answer matches the predicate.
fn wait_for(lab: &TestLab, path: &str, what: &str, holds: impl Fn(&Json) -> bool) -> Json {
    let deadline = Clock::real().deadline(Duration::from_secs(20));
    loop {
        let found = data(lab, path);
        if holds(&found) {
            return found;
        }
        assert!(!deadline.has_passed(), "timed out waiting for {what}: {found}");
    }
}

fn task_ends(lab: &TestLab, upid: &str) -> Json {
    let node = upid.split(':').nth(1).unwrap();
    let path = format!("/nodes/{node}/tasks/{upid}/status");
    wait_for(lab, &path, upid, |task| task["status"] == "stopped")
}

/// Lab at the speed of real time, so that delayed updates can be observed.
fn slow(yaml: &str) -> TestLab {
    TestLab::start(Settings { speed: 1.0, ..scenario(yaml) })
}

#[test]
fn new_vms_appear_in_the_resource_list_with_a_delay() {
    let lab = slow("release: '9.2'");
    let form = "vmid=300&name=fresh&tags=b%3Ba";
    let made = lab.request("POST", "/nodes/pve/qemu", "", form).json();
    assert_eq!(task_ends(&lab, made["data"].as_str().unwrap())["exitstatus"], "OK");
    let resources = data(&lab, "/cluster/resources?type=vm");
    assert_eq!(resources[0]["status"], "unknown");
    assert!(resources[0].get("name").is_none());
    assert_eq!(resources[0]["tags"], "a;b");
    assert_eq!(data(&lab, "/nodes/pve/qemu")[0]["name"], "fresh");
    assert_eq!(data(&lab, "/cluster/nextid?vmid=301"), json!("301"));
    let taken = lab.get("/cluster/nextid?vmid=300");
    assert_eq!(taken.json()["errors"], json!({ "vmid": "VM 300 already exists" }));
    lab.stop();
    let lab = TestLab::start(scenario(CLUSTER));
    let seen = wait_for(&lab, "/cluster/resources?type=vm", "a look at VMs", |vms| {
        vms[1]["status"] == "running"
    });
    assert_eq!(seen[1]["name"], "plain");
}

#[test]
fn tasks_are_listed_read_and_counted() {
    let lab = TestLab::start(scenario("vms: [{vmid: 101}, {vmid: 102}]"));
    for vmid in [101, 102] {
        let path = format!("/nodes/pve/qemu/{vmid}/status/start");
        let upid = lab.request("POST", &path, "", "").json()["data"].as_str().unwrap().to_owned();
        task_ends(&lab, &upid);
    }
    let list = lab.get("/nodes/pve/tasks?vmid=102").json();
    assert_eq!(list["total"], 1);
    let task = &list["data"][0];
    assert_eq!((&task["type"], &task["status"]), (&json!("qmstart"), &json!("OK")));
    assert_eq!((&task["user"], &task["tokenid"]), (&json!("root@pam"), &json!("lab")));
    let upid = task["upid"].as_str().unwrap();
    let log = lab.get(&format!("/nodes/pve/tasks/{upid}/log?limit=0")).json();
    assert_eq!(log["data"].as_array().unwrap().last().unwrap()["t"], "TASK OK");
    let gone = lab.get("/nodes/pve/tasks/UPID:pve:00000001:00000001:00000001:x:1:root@pam:/status");
    assert_eq!(gone.json()["errors"], json!({ "upid": "no such task" }));
}

#[test]
fn power_actions_on_ha_vms_are_done_by_the_ha_manager() {
    let lab = TestLab::start(scenario(CLUSTER));
    let stop = lab.request("POST", "/nodes/pve2/qemu/101/status/stop", "", "").json();
    let upid = stop["data"].as_str().unwrap();
    assert!(upid.contains(":hastop:101:"), "{upid}");
    assert_eq!(task_ends(&lab, upid)["exitstatus"], "OK");
    let path = "/nodes/pve2/qemu/101/status/current";
    wait_for(&lab, path, "a stop", |vm| vm["status"] == "stopped");
    wait_for(&lab, "/cluster/ha/status/current", "the manager's word", |entries| {
        let service = entries.as_array().unwrap().iter().find(|entry| entry["sid"] == "vm:101");
        service.is_some_and(|service| service["state"] == "stopped")
    });
    let start = lab.request("POST", "/nodes/pve2/qemu/101/status/start", "", "").json();
    assert!(start["data"].as_str().unwrap().contains(":hastart:101:"));
    wait_for(&lab, path, "a start", |vm| vm["status"] == "running");
    let form = "target=pve3&online=1";
    let moved = lab.request("POST", "/nodes/pve2/qemu/101/migrate", "", form).json();
    assert!(moved["data"].as_str().unwrap().contains(":hamigrate:101:"));
    let vms = "/cluster/resources?type=vm";
    wait_for(&lab, vms, "the migration", |vms| vms[0]["node"] == "pve3");
    let gone = lab.get(path);
    assert_eq!(gone.status, 500, "{}", gone.text());
}

#[test]
fn ha_vms_are_restarted_on_another_host() {
    let lab = TestLab::start(scenario(CLUSTER));
    let path = Some(PathPattern::parse("/version").unwrap());
    let down = Action::Down { host: "pve2".to_owned(), lasts: None };
    lab.lab().faults().add(Fault::new(When { path, ..When::default() }, down));
    lab.get("/version");
    assert_eq!(data(&lab, "/nodes")[1]["status"], "offline");
    let lost = lab.get("/nodes/pve2/qemu/101/config");
    assert_eq!(lost.line(), (595, "No route to host"));
    let vms = "/cluster/resources?type=vm";
    let found = wait_for(&lab, vms, "the restart on another host", |vms| vms[0]["node"] != "pve2");
    let node = found[0]["node"].as_str().unwrap().to_owned();
    let path = format!("/nodes/{node}/qemu/101/status/current");
    wait_for(&lab, &path, "the start on the other host", |vm| vm["status"] == "running");
    assert_eq!(data(&lab, vms)[1]["node"], "pve2", "others stay where they are");
}

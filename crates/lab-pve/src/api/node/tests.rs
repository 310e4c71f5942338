use serde_json::{Value as Json, json};

use super::answer;
use crate::Release;
use crate::api::testing::{ApiTestBench, data, error_line};
use crate::call::Outcome;
use crate::pve_state::{AclEntry, Bridge, Caller, PciDevice, Sdn, TaskState, Vnet, Zone};
use crate::schema::Method::{self, Delete, Get};

const ROOT: &str = "root@pam";
const USER: &str = "ops@pve";
const TOKEN: &str = "ops@pve!ci";

fn ask(bench: &ApiTestBench, who: &str, method: Method, path: &str, sent: Json) -> Outcome {
    bench.call(who, method, path, sent, answer)
}

fn allow(bench: &ApiTestBench, path: &str, role: &str) {
    let (path, who, role) = (path.to_owned(), USER.to_owned(), role.to_owned());
    bench.site.pve_state().access.acl.push(AclEntry { path, who, role, propagate: true });
}

/// Adds a task. With `exit`, the task is finished and has two log lines; otherwise it runs and has none.
fn add_task(
    bench: &ApiTestBench,
    kind: &str,
    vmid: u32,
    owner: &str,
    exit: Option<&str>,
) -> String {
    let now = bench.site.now();
    let mut pve_state = bench.site.pve_state();
    let upid = pve_state.tasks.begin("pve1", kind, &vmid.to_string(), owner, now);
    let task = pve_state.tasks.get_mut(&upid).expect("the task");
    if let Some(exit) = exit {
        task.log = vec!["one".to_owned(), "two".to_owned()];
        task.state = TaskState::Stopped { exit: exit.to_owned(), ended: now };
    }
    upid
}

#[test]
fn task_status_is_readable_by_owner_and_auditors() {
    let bench = ApiTestBench::new(Release::V9);
    let upid = add_task(&bench, "qmcreate", 101, TOKEN, Some("OK"));
    let path = format!("/nodes/pve1/tasks/{upid}/status");
    let status = data(ask(&bench, TOKEN, Get, &path, json!({})));
    assert_eq!(status["status"], "stopped");
    assert_eq!(status["exitstatus"], "OK");
    assert_eq!((&status["user"], &status["tokenid"]), (&json!(USER), &json!("ci")));
    assert_eq!((&status["type"], &status["id"]), (&json!("qmcreate"), &json!("101")));
    data(ask(&bench, USER, Get, &path, json!({})));
    assert_eq!(
        error_line(ask(&bench, "other@pve", Get, &path, json!({}))),
        "403 Permission check failed (/nodes/pve1, Sys.Audit)"
    );
    let own = add_task(&bench, "qmstart", 101, USER, None);
    let path = format!("/nodes/pve1/tasks/{own}/status");
    let running = data(ask(&bench, USER, Get, &path, json!({})));
    assert_eq!(running["status"], "running");
    assert!(running.get("exitstatus").is_none());
    let rejected = ask(&bench, TOKEN, Get, &path, json!({}));
    assert_eq!(error_line(rejected), "403 Permission check failed (/nodes/pve1, Sys.Audit)");
}

#[test]
fn task_is_found_only_on_its_own_host() {
    let bench = ApiTestBench::new(Release::V9);
    let upid = add_task(&bench, "qmcreate", 101, USER, Some("OK"));
    let wrong = |path: &str| error_line(ask(&bench, USER, Get, path, json!({})));
    assert_eq!(
        wrong(&format!("/nodes/pve2/tasks/{upid}/status")),
        "400 Parameter verification failed. [upid: no such task]"
    );
    assert_eq!(
        wrong("/nodes/pve1/tasks/UPID:nonsense/status"),
        "400 Parameter verification failed. [upid: unable to parse worker upid]"
    );
}

#[test]
fn task_logs_are_paged() {
    let bench = ApiTestBench::new(Release::V9);
    let upid = add_task(&bench, "qmcreate", 101, USER, Some("OK"));
    let path = format!("/nodes/pve1/tasks/{upid}/log");
    let page = |sent: Json| data(ask(&bench, USER, Get, &path, sent));
    let (one, two) = (json!({ "n": 1, "t": "one" }), json!({ "n": 2, "t": "two" }));
    assert_eq!(page(json!({})), json!({ "data": [one, two], "total": 2 }));
    assert_eq!(page(json!({ "start": 1, "limit": 0 })), json!({ "data": [two], "total": 2 }));
    assert_eq!(page(json!({ "limit": 1 })), json!({ "data": [one], "total": 2 }));
    let empty = add_task(&bench, "qmstart", 101, USER, None);
    let path = format!("/nodes/pve1/tasks/{empty}/log");
    let log = data(ask(&bench, USER, Get, &path, json!({})));
    assert_eq!(log, json!({ "data": [{ "n": 1, "t": "no content" }], "total": 1 }));
}

#[test]
fn tasks_are_listed_by_state_and_filter() {
    let bench = ApiTestBench::new(Release::V9);
    add_task(&bench, "qmcreate", 101, USER, Some("OK"));
    add_task(&bench, "qmstart", 101, USER, Some("it broke"));
    add_task(&bench, "qmcreate", 102, TOKEN, Some("WARNINGS: 1"));
    add_task(&bench, "qmclone", 103, USER, None);
    let kinds = |who: &str, sent: Json| {
        let list = data(ask(&bench, who, Get, "/nodes/pve1/tasks", sent));
        let tasks = list["data"].as_array().expect("a list").iter();
        let kinds: Vec<String> =
            tasks.map(|task| format!("{}/{}", task["type"], task["id"]).replace('"', "")).collect();
        (kinds.join(" "), list["total"].clone())
    };
    let of = |sent: Json| kinds(USER, sent).0;
    assert_eq!(of(json!({})), "qmcreate/102 qmstart/101 qmcreate/101");
    assert_eq!(of(json!({ "source": "active" })), "qmclone/103");
    assert_eq!(of(json!({ "vmid": 101 })), "qmstart/101 qmcreate/101");
    assert_eq!(of(json!({ "errors": 1 })), "qmcreate/102 qmstart/101");
    assert_eq!(of(json!({ "statusfilter": "ok" })), "qmcreate/101");
    assert_eq!(of(json!({ "typefilter": "qmstart" })), "qmstart/101");
    assert_eq!(of(json!({ "since": 4_000_000_000_u64 })), "");
    let (page, total) = kinds(USER, json!({ "start": 1, "limit": 1, "source": "all" }));
    assert_eq!((page.as_str(), total), ("qmcreate/102", json!(4)));
    assert_eq!(kinds(TOKEN, json!({})).0, "qmcreate/102");
    assert_eq!(kinds("other@pve", json!({})).0, "");
    allow(&bench, "/nodes/pve1", "PVEAuditor");
    assert_eq!(kinds(ROOT, json!({ "source": "all" })).1, json!(4));
}

#[test]
fn running_task_can_be_stopped() {
    let bench = ApiTestBench::new(Release::V9);
    let upid = add_task(&bench, "qmcreate", 101, TOKEN, None);
    let path = format!("/nodes/pve1/tasks/{upid}");
    assert_eq!(
        error_line(ask(&bench, "other@pve", Delete, &path, json!({}))),
        "403 Permission check failed (/nodes/pve1, Sys.Modify)"
    );
    assert_eq!(data(ask(&bench, TOKEN, Delete, &path, json!({}))), Json::Null);
    let pve_state = bench.site.pve_state();
    let state = pve_state.tasks.get(&upid).map(|task| task.state.clone());
    assert_eq!(state, Some(TaskState::Running { interrupted: true }));
}

#[test]
fn bridges_are_listed_for_callers_that_may_use_them() {
    let bench = ApiTestBench::new(Release::V9);
    let bridge = Bridge {
        name: "vmbr0".to_owned(),
        cidr: Some("10.0.0.11/16".to_owned()),
        gateway: Some("10.0.0.1".to_owned()),
        vlan_aware: true,
    };
    bench.site.pve_state().hosts.get_mut("pve1").expect("a host").bridges.push(bridge);
    let path = "/nodes/pve1/network";
    let bridges = json!({ "type": "any_bridge" });
    assert_eq!(data(ask(&bench, USER, Get, path, bridges.clone())), json!([]));
    allow(&bench, "/sdn/zones/localnetwork/vmbr0/40", "PVESDNUser");
    let shown = data(ask(&bench, USER, Get, path, bridges));
    assert_eq!(shown[0]["iface"], "vmbr0");
    assert_eq!(shown[0]["netmask"], "255.255.0.0");
    assert_eq!(shown[0]["bridge_vlan_aware"], 1);
    assert_eq!(data(ask(&bench, USER, Get, path, json!({})))[0]["type"], "eth");
    assert_eq!(
        error_line(ask(&bench, ROOT, Get, "/nodes/pve1/network/vmbr9", json!({}))),
        "400 Parameter verification failed. [iface: interface does not exist]"
    );
}

/// A role on `localnetwork`, the zone of the bridges, does not list a vnet of another zone.
#[test]
fn vnets_are_listed_for_callers_that_may_use_them_in_their_zone() {
    for release in [Release::V8, Release::V9] {
        let bench = ApiTestBench::new(release);
        let zone = Zone { kind: "simple".to_owned(), nodes: ["pve1".to_owned()].into() };
        let vnet = Vnet {
            zone: "rack".to_owned(),
            alias: Some("of the rack".to_owned()),
            tag: None,
            vlan_aware: false,
        };
        let sdn = Sdn {
            zones: [("rack".to_owned(), zone)].into(),
            vnets: [("vnet0".to_owned(), vnet)].into(),
        };
        bench.site.pve_state().sdn = sdn;
        let any = json!({ "type": "any_bridge" });
        let list = |node: &str, sent: Json| {
            data(ask(&bench, USER, Get, &format!("/nodes/{node}/network"), sent))
        };
        allow(&bench, "/sdn/zones/localnetwork/vnet0", "PVESDNUser");
        assert_eq!(list("pve1", any.clone()), json!([]));
        allow(&bench, "/sdn/zones/rack/vnet0", "PVESDNUser");
        let shown = json!([{
            "iface": "vnet0", "type": "vnet", "active": "1", "ipam": 0, "vlanaware": 0, "comments": "of the rack",
        }]);
        assert_eq!(list("pve1", any.clone()), shown);
        assert_eq!(list("pve2", any), json!([]), "the zone does not include pve2");
        assert_eq!(list("pve1", json!({ "type": "any_local_bridge" })), json!([]));
        let pve_state = bench.site.pve_state();
        let caller = Caller::parse(USER);
        assert!(pve_state.check_bridge(&caller, "vnet0", None, None).is_ok());
        let other_user = Caller::parse("other@pve");
        assert_eq!(
            pve_state
                .check_bridge(&other_user, "vnet0", Some(40), None)
                .expect_err("an error")
                .message,
            "Permission check failed (/sdn/zones/rack/vnet0/40, SDN.Use)"
        );
    }
}

#[test]
fn pci_list_hides_blacklisted_classes() {
    let bench = ApiTestBench::new(Release::V9);
    let device = |address: &str, class: &str| PciDevice {
        address: address.to_owned(),
        class: class.to_owned(),
        vendor: "10de".to_owned(),
        device: "0x2204".to_owned(),
        vendor_name: None,
        device_name: Some("GPU".to_owned()),
        iommu_group: 1,
        subsystem_vendor: None,
        subsystem_device: None,
        subsystem_vendor_name: None,
        subsystem_device_name: None,
    };
    bench.site.pve_state().hosts.get_mut("pve1").expect("a host").pci =
        vec![device("0000:28:00.0", "0x030000"), device("0000:00:00.0", "0x060000")];
    let path = "/nodes/pve1/hardware/pci";
    let gpu = json!({
        "id": "0000:28:00.0", "class": "0x030000", "vendor": "0x10de", "device": "0x2204",
        "iommugroup": 1, "device_name": "GPU",
    });
    assert_eq!(data(ask(&bench, ROOT, Get, path, json!({}))), json!([gpu]));
    let all = data(ask(&bench, ROOT, Get, path, json!({ "pci-class-blacklist": "" })));
    assert_eq!(all.as_array().map(Vec::len), Some(2));
    assert_eq!(
        error_line(ask(&bench, USER, Get, path, json!({}))),
        "403 Permission check failed (/, Sys.Audit|Sys.Modify)"
    );
}

#[test]
fn host_status_version_and_capabilities() {
    let bench = ApiTestBench::new(Release::V8);
    let status = data(ask(&bench, ROOT, Get, "/nodes/pve1/status", json!({})));
    assert_eq!(status["cpuinfo"]["cpus"], 8);
    assert!(status["pveversion"].as_str().is_some_and(|text| text.starts_with("pve-manager/8.4")));
    let version = data(ask(&bench, USER, Get, "/nodes/pve1/version", json!({})));
    assert_eq!(version["release"], "8.4");
    let machines =
        data(ask(&bench, USER, Get, "/nodes/pve1/capabilities/qemu/machines", json!({})));
    assert_eq!(machines[0]["id"], "pc-q35-9.2");
    let models = data(ask(&bench, USER, Get, "/nodes/pve1/capabilities/qemu/cpu", json!({})));
    let host = json!({ "custom": 0, "name": "host", "vendor": "default" });
    assert!(models.as_array().is_some_and(|models| models.contains(&host)));
}

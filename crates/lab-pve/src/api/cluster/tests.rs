use serde_json::{Value as Json, json};

use super::answer;
use crate::Release;
use crate::api::testing::{ApiTestBench, data, error_line};
use crate::api::{node, pool};
use crate::call::Outcome;
use crate::pve_state::{AclEntry, Pool, Run, Sdn, Vnet, Zone};
use crate::schema::Method::{self, Delete, Get, Post, Put};
use crate::status_daemon;

const ROOT: &str = "root@pam";
const USER: &str = "ops@pve";

fn ask(bench: &ApiTestBench, who: &str, method: Method, path: &str, sent: Json) -> Outcome {
    bench.call(who, method, path, sent, answer)
}

fn read(bench: &ApiTestBench, who: &str, path: &str, sent: Json) -> Json {
    data(ask(bench, who, Get, path, sent))
}

fn allow(bench: &ApiTestBench, path: &str, role: &str) {
    let (path, who, role) = (path.to_owned(), USER.to_owned(), role.to_owned());
    bench.site.pve_state().access.acl.push(AclEntry { path, who, role, propagate: true });
}

#[test]
fn nextid_needs_no_privilege() {
    let bench = ApiTestBench::new(Release::V9);
    bench.add_vm(100, "pve1", &[]);
    let path = "/cluster/nextid";
    assert_eq!(read(&bench, USER, path, json!({})), json!(101));
    assert_eq!(read(&bench, USER, path, json!({ "vmid": "300" })), json!("300"));
    assert_eq!(
        error_line(ask(&bench, USER, Get, path, json!({ "vmid": 100 }))),
        "400 Parameter verification failed. [vmid: VM 100 already exists]"
    );
    let range = json!({ "next-id": "lower=200,upper=201" });
    data(ask(&bench, ROOT, Put, "/cluster/options", range));
    bench.add_vm(200, "pve1", &[]);
    assert_eq!(
        error_line(ask(&bench, USER, Get, path, json!({}))),
        "500 unable to get any free VMID in range [200, 201]"
    );
}

#[test]
fn resources_show_the_last_status_sample() {
    let bench = ApiTestBench::new(Release::V9);
    bench.add_vm(101, "pve1", &[("name", "cp-1"), ("tags", "a;b"), ("lock", "create")]);
    let vms = json!({ "type": "vm" });
    let fresh = read(&bench, ROOT, "/cluster/resources", vms.clone());
    let unseen = json!([{
        "id": "qemu/101", "vmid": 101, "node": "pve1", "type": "qemu", "status": "unknown",
        "lock": "create", "tags": "a;b",
    }]);
    assert_eq!(fresh, unseen);
    status_daemon::take_samples(&bench.site);
    let run = Run {
        since: bench.site.now(),
        pid: 1,
        paused: false,
        config: [("memory".to_owned(), "4096".to_owned())].into(),
        agent: None,
        held_drives: [].into(),
    };
    bench.site.pve_state().vms.get_mut(&101).expect("the VM").run = Some(run);
    let stale = read(&bench, ROOT, "/cluster/resources", vms.clone());
    assert_eq!((&stale[0]["status"], &stale[0]["name"]), (&json!("stopped"), &json!("cp-1")));
    status_daemon::take_samples(&bench.site);
    let seen = read(&bench, ROOT, "/cluster/resources", vms);
    assert_eq!(seen[0]["status"], "running");
    assert_eq!(seen[0]["maxmem"], json!(4_u64 << 30));
}

#[test]
fn resources_are_filtered_by_privileges() {
    let bench = ApiTestBench::new(Release::V9);
    for vmid in [101, 102] {
        bench.add_vm(vmid, "pve1", &[]);
    }
    let members = Pool { vms: [101].into(), ..Pool::default() };
    bench.site.pve_state().pools.insert("talos".to_owned(), members);
    let ids = |who: &str| {
        let all = read(&bench, who, "/cluster/resources", json!({}));
        let ids = all.as_array().into_iter().flatten().map(|entry| entry["id"].clone());
        ids.map(|id| id.as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(USER), "node/pve1 node/pve2");
    allow(&bench, "/pool/talos", "PVEVMUser");
    assert_eq!(ids(USER), "qemu/101 node/pve1 node/pve2");
    let vm = &read(&bench, USER, "/cluster/resources", json!({ "type": "vm" }))[0];
    assert!(vm.get("pool").is_none(), "the pool requires Pool.Audit");
    allow(&bench, "/pool/talos", "PVEPoolUser");
    assert_eq!(ids(USER), "/pool/talos qemu/101 node/pve1 node/pve2");
    assert_eq!(
        ids(ROOT),
        "/pool/talos qemu/101 qemu/102 node/pve1 node/pve2 network/pve1/zone/localnetwork \
         network/pve2/zone/localnetwork"
    );
}

#[test]
fn cluster_status_lists_members() {
    let bench = ApiTestBench::new(Release::V9);
    bench.site.pve_state().hosts.get_mut("pve2").expect("a host").online = false;
    let status = read(&bench, ROOT, "/cluster/status", json!({}));
    assert_eq!(status[0]["name"], "lab");
    assert_eq!(status[0]["quorate"], 0);
    assert_eq!((&status[1]["local"], &status[1]["online"]), (&json!(1), &json!(1)));
    assert_eq!((&status[2]["nodeid"], &status[2]["online"]), (&json!(2), &json!(0)));
    assert_eq!(
        error_line(ask(&bench, USER, Get, "/cluster/status", json!({}))),
        "403 Permission check failed (/, Sys.Audit)"
    );
    let nodes = data(bench.call(USER, Get, "/nodes", json!({}), node::answer));
    assert_eq!(nodes[1]["status"], "offline");
    assert!(nodes[0].get("maxcpu").is_none(), "host load requires Sys.Audit");
}

#[test]
fn datacenter_options_are_returned_as_objects() {
    let bench = ApiTestBench::new(Release::V9);
    let options = "/cluster/options";
    let sent = json!({
        "migration": "secure,network=10.0.0.0/24", "console": "html5",
        "user-tag-access": "user-allow=list,user-allow-list=b;a", "registered-tags": "prod",
    });
    data(ask(&bench, ROOT, Put, options, sent));
    let returned = read(&bench, ROOT, options, json!({}));
    assert_eq!(returned["migration"], json!({ "type": "secure", "network": "10.0.0.0/24" }));
    assert_eq!(returned["user-tag-access"]["user-allow-list"], json!(["b", "a"]));
    assert_eq!(returned["registered-tags"], json!(["prod"]));
    assert_eq!(returned["allowed-tags"], json!(["a", "b", "prod"]));
    let returned = read(&bench, USER, options, json!({}));
    assert_eq!(returned, json!({ "console": "html5", "allowed-tags": ["a", "b"] }));
    data(ask(&bench, ROOT, Put, options, json!({ "delete": "console" })));
    assert!(read(&bench, ROOT, options, json!({})).get("console").is_none());
    assert_eq!(
        error_line(ask(&bench, ROOT, Put, options, json!({ "next-id": "lower=300,upper=200" }))),
        "500 lower (300) <= upper (200) boundary rule broken"
    );
}

#[test]
fn mappings_keep_their_entries_as_sent() {
    let bench = ApiTestBench::new(Release::V9);
    let pci = "/cluster/mapping/pci";
    let entry = "node=pve1,path=0000:29:00.0,id=10de:2204";
    let sent = json!({ "id": "gpu", "map": [entry] });
    data(ask(&bench, ROOT, Post, pci, sent.clone()));
    assert_eq!(
        error_line(ask(&bench, ROOT, Post, pci, sent)),
        "500 create hardware mapping failed: pci ID 'gpu' already defined"
    );
    let list = read(&bench, ROOT, pci, json!({}));
    let digest = list[0]["digest"].as_str().unwrap_or_default().to_owned();
    assert_eq!(digest.len(), 40);
    assert_eq!(list, json!([{ "type": "pci", "map": [entry], "digest": digest, "id": "gpu" }]));
    assert_eq!(read(&bench, USER, pci, json!({})), json!([]));
    allow(&bench, "/mapping/pci/gpu", "PVEMappingUser");
    assert_eq!(read(&bench, USER, pci, json!({}))[0]["id"], "gpu");
    let checked = |node: &str| read(&bench, ROOT, pci, json!({ "check-node": node }))[0].clone();
    assert_eq!(checked("pve2")["checks"][0]["severity"], "warning");
    assert_eq!(
        checked("pve1")["checks"][0]["message"],
        "Invalid configuration: pci device '0000:29:00.0' not found\n"
    );
    let gone = ask(&bench, ROOT, Get, pci, json!({ "check-node": "pve9" }));
    assert!(error_line(gone).starts_with("500 hostname lookup 'pve9' failed - "));
    let stale = json!({ "map": [entry], "digest": "0".repeat(40) });
    assert!(
        error_line(ask(&bench, ROOT, Put, "/cluster/mapping/pci/gpu", stale))
            .starts_with("500 update hardware mapping failed: detected modified configuration")
    );
    data(ask(&bench, ROOT, Delete, "/cluster/mapping/pci/gpu", json!({})));
    assert_eq!(
        error_line(ask(&bench, ROOT, Get, "/cluster/mapping/pci/gpu", json!({}))),
        "500 mapping 'gpu' not found"
    );
}

#[test]
fn ha_groups_exist_only_on_8() {
    let bench = ApiTestBench::new(Release::V9);
    let group = json!({ "group": "all", "nodes": "pve1,pve2:2" });
    assert_eq!(
        error_line(ask(&bench, ROOT, Post, "/cluster/ha/groups", group.clone())),
        "500 cannot create group: ha groups have been migrated to rules"
    );
    let bench = ApiTestBench::new(Release::V8);
    bench.add_vm(101, "pve1", &[]);
    data(ask(&bench, ROOT, Post, "/cluster/ha/groups", group));
    let resource = json!({ "sid": "101", "group": "all", "max_restart": 2 });
    data(ask(&bench, ROOT, Post, "/cluster/ha/resources", resource));
    let read_back = read(&bench, ROOT, "/cluster/ha/resources/vm:101", json!({}));
    assert_eq!(read_back["max_restart"], 2);
    assert_eq!((&read_back["sid"], &read_back["type"]), (&json!("vm:101"), &json!("vm")));
    assert_eq!(
        error_line(ask(&bench, ROOT, Delete, "/cluster/ha/groups/all", json!({}))),
        "500 delete ha group failed: ha group is used by service 'vm:101'"
    );
}

#[test]
fn ha_rules_accept_only_managed_resources() {
    let bench = ApiTestBench::new(Release::V9);
    for vmid in [101, 102] {
        bench.add_vm(vmid, "pve1", &[]);
    }
    let rules = "/cluster/ha/rules";
    let spread = json!({
        "rule": "spread", "type": "resource-affinity", "affinity": "negative",
        "resources": "vm:102,vm:101",
    });
    assert_eq!(
        error_line(ask(&bench, ROOT, Post, rules, spread.clone())),
        "500 create ha rule failed: cannot use unmanaged resource(s) vm:101, vm:102."
    );
    for sid in ["vm:101", "vm:102"] {
        data(ask(&bench, ROOT, Post, "/cluster/ha/resources", json!({ "sid": sid })));
    }
    data(ask(&bench, ROOT, Post, rules, spread));
    let returned = read(&bench, ROOT, "/cluster/ha/rules/spread", json!({}));
    assert_eq!((&returned["resources"], &returned["order"]), (&json!("vm:101,vm:102"), &json!(1)));
    let nodes = json!({ "rule": "here", "type": "node-affinity", "resources": "vm:101" });
    assert_eq!(
        error_line(ask(&bench, ROOT, Post, rules, nodes)),
        "500 missing value for required option 'nodes'"
    );
    // Deleting a resource removes it from the rules.
    data(ask(&bench, ROOT, Delete, "/cluster/ha/resources/vm:101", json!({})));
    let returned = read(&bench, ROOT, "/cluster/ha/rules/spread", json!({}));
    assert_eq!(returned["resources"], "vm:102");
    let gone = ask(&bench, ROOT, Delete, "/cluster/ha/resources/vm:101", json!({}));
    assert_eq!(error_line(gone), "500 cannot delete service 'vm:101', not HA managed!");
}

#[test]
fn pools_hold_vms_and_storages() {
    let bench = ApiTestBench::new(Release::V9);
    bench.add_vm(101, "pve1", &[]);
    let ask = |who: &str, method, path: &str, sent: Json| {
        bench.call(who, method, path, sent, pool::answer)
    };
    data(ask(ROOT, Post, "/pools", json!({ "poolid": "talos" })));
    data(ask(ROOT, Post, "/pools", json!({ "poolid": "talos/cp", "comment": "x" })));
    assert_eq!(
        error_line(ask(ROOT, Post, "/pools", json!({ "poolid": "no/cp" }))),
        "500 create pool failed: parent 'no' of pool 'no/cp' does not exist"
    );
    assert_eq!(
        error_line(ask(ROOT, Delete, "/pools/talos", json!({}))),
        "500 delete pool failed: pool 'talos' is not empty (contains pool 'talos/cp')"
    );
    data(ask(ROOT, Put, "/pools", json!({ "poolid": "talos/cp", "vms": "101" })));
    let into = json!({ "vms": "101" });
    assert_eq!(
        error_line(ask(ROOT, Put, "/pools/talos", into)),
        "500 update pools failed: VM 101 belongs already to pool 'talos/cp' and 'allow-move' is \
         not set"
    );
    data(ask(ROOT, Put, "/pools/talos", json!({ "vms": "101", "allow-move": 1 })));
    let member = json!({
        "id": "qemu/101", "vmid": 101, "node": "pve1", "type": "qemu", "status": "unknown",
    });
    assert_eq!(
        data(ask(ROOT, Get, "/pools/talos", json!({}))),
        json!({ "members": [member], "poolid": "talos" })
    );
    let nested = data(ask(ROOT, Get, "/pools", json!({ "poolid": "talos/cp" })));
    assert_eq!(nested, json!([{ "members": [], "poolid": "talos/cp", "comment": "x" }]));
    // Privileges on the pool are not sufficient: the caller also needs privileges on the VM that it adds.
    allow(&bench, "/pool/talos", "PVEPoolAdmin");
    bench.add_vm(102, "pve1", &[]);
    assert_eq!(
        error_line(ask(USER, Put, "/pools/talos", json!({ "vms": "102" }))),
        "500 update pools failed: 403 Permission check failed (/vms/102, \
         Permissions.Modify|VM.Allocate)"
    );
    assert_eq!(
        error_line(ask(USER, Get, "/pools/other", json!({}))),
        "403 Permission check failed (/pool/other, Pool.Audit)"
    );
    assert_eq!(data(ask(USER, Get, "/pools", json!({}))).as_array().map(Vec::len), Some(2));
}

#[test]
fn every_endpoint_is_implemented() {
    use crate::api::access;
    use crate::schema::{Parameters, endpoints};

    for release in [Release::V8, Release::V9] {
        let bench = ApiTestBench::new(release);
        let mut calls = 0;
        for endpoint in endpoints(release) {
            let mut parts = endpoint.path.split('/').skip(1);
            let answer = match (parts.next(), parts.nth(1)) {
                // The request gate answers ticket requests before dispatch.
                (Some("access"), _) if endpoint.path != "/access/ticket" => access::answer,
                (Some("cluster"), _) => answer,
                (Some("nodes"), Some("qemu" | "storage" | "query-url-metadata")) => continue,
                (Some("nodes"), _) => node::answer,
                (Some("pools"), _) => pool::answer,
                _ => continue,
            };
            let call = crate::call::Call {
                site: bench.site.clone(),
                caller: crate::pve_state::Caller::parse(ROOT),
                node: "pve1".to_owned(),
                params: Parameters::default(),
                release,
            };
            let status =
                answer(endpoint, &call).map_or_else(|error_line| error_line.status, |_| 200);
            assert_ne!(status, 501, "{release} {} {}", endpoint.method.name(), endpoint.path);
            calls += 1;
        }
        assert!(calls > 60, "only {calls} calls");
    }
}

#[test]
fn zones_and_vnets_are_listed_for_auditors() {
    for (release, id) in [(Release::V8, "sdn/pve1/rack"), (Release::V9, "network/pve1/zone/rack")] {
        let bench = ApiTestBench::new(release);
        let zone = Zone { kind: "vlan".to_owned(), nodes: ["pve1".to_owned()].into() };
        let vnet = Vnet { zone: "rack".to_owned(), alias: None, tag: Some(40), vlan_aware: true };
        bench.site.pve_state().sdn = Sdn {
            zones: [("rack".to_owned(), zone)].into(),
            vnets: [("vnet0".to_owned(), vnet)].into(),
        };
        let (zones, vnets) = ("/cluster/sdn/zones", "/cluster/sdn/vnets");
        // With `SDN.Use` on a vnet alone, the zone of the vnet is not listed.
        allow(&bench, "/sdn/zones/rack/vnet0", "PVESDNUser");
        bench.site.pve_state().access.roles.insert("Use".to_owned(), ["SDN.Use".to_owned()].into());
        for entry in &mut bench.site.pve_state().access.acl {
            entry.role = "Use".to_owned();
        }
        assert_eq!(read(&bench, USER, vnets, json!({})), json!([]));
        allow(&bench, "/sdn/zones/rack", "PVEAuditor");
        let shown = json!([{ "zone": "rack", "type": "vlan", "nodes": "pve1" }]);
        assert_eq!(read(&bench, USER, zones, json!({})), shown);
        assert_eq!(read(&bench, USER, zones, json!({ "type": "simple" })), json!([]));
        let all = read(&bench, USER, "/cluster/resources", json!({}));
        let entries = all.as_array().expect("a list");
        assert!(entries.iter().any(|entry| entry["id"] == id), "{all}");
        let shown =
            json!([{ "vnet": "vnet0", "type": "vnet", "zone": "rack", "tag": 40, "vlanaware": 1 }]);
        assert_eq!(read(&bench, ROOT, vnets, json!({})), shown);
    }
}

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::pve_state::{AclEntry, Agent};
use Method::{Get, Post};

#[tokio::test]
async fn status_of_a_running_vm() {
    let bench = QemuTestBench::with(Release::V8, Profile::Instant, 1.0);
    let options = [("name", "a"), ("memory", "2048"), ("tags", "x;y"), ("agent", "1")];
    bench.running(100, &options);
    let status = bench.call(Get, "/100/status/current", &[]).await.unwrap();
    let expected = json!({
        "vmid": 100, "name": "a", "status": "running", "qmpstatus": "running", "cpus": 1,
        "maxmem": 2048_u64 << 20, "maxdisk": 10_u64 << 30, "disk": 0, "pid": 4711,
        "tags": "x;y", "agent": 1, "ha": { "managed": 0 },
        "running-machine": "pc-i440fx-9.2+pve1", "running-qemu": "9.2.0",
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&status[key], value, "{key}");
    }
    assert!(status["uptime"].as_u64().unwrap() > 0 && status["mem"].as_u64().unwrap() > 0);
    assert_eq!(status.get("template"), None);
    assert_eq!(status.get("memhost"), None);
}

#[tokio::test]
async fn vm_list_is_filtered_by_privileges() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[("name", "a")]);
    bench.running(101, &[("lock", "clone")]);
    bench.site.pve_state().access.acl.push(AclEntry {
        path: "/vms/101".to_owned(),
        who: "ops@pve".to_owned(),
        role: "PVEAuditor".to_owned(),
        propagate: true,
    });
    let list = bench.call(Get, "", &[]).await.unwrap();
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert_eq!(list[0].get("qmpstatus"), None);
    let list = bench.call_as("ops@pve", Get, "", &[("full", "1")]).await.unwrap();
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(list[0]["name"], "VM 101");
    assert_eq!(list[0]["lock"], "clone");
    assert_eq!(list[0]["qmpstatus"], "running");
    assert_eq!(bench.call_as("nobody@pve", Get, "", &[]).await.unwrap(), json!([]));
}

#[tokio::test]
async fn agent_errors_have_the_order_of_proxmox() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    bench.vm(101, &[("agent", "1")]);
    bench.running(102, &[("agent", "1")]);
    let ask = async |vmid: u32| {
        message(bench.call(Get, &format!("/{vmid}/agent/network-get-interfaces"), &[]).await)
    };
    assert_eq!(ask(100).await, "500 No QEMU guest agent configured");
    assert_eq!(ask(101).await, "500 VM 101 is not running");
    let before = bench.site.clock.moment();
    assert_eq!(ask(102).await, "500 QEMU guest agent is not running");
    assert!(bench.site.clock.moment().since(before) >= Duration::from_secs(3));
}

#[tokio::test]
async fn agent_commands_return_results() {
    let bench = QemuTestBench::new();
    bench.running(100, &[("agent", "enabled=1"), ("cores", "2")]);
    let address = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 11)), 24);
    let agent = Agent {
        interfaces: vec![
            ("eth0".to_owned(), "BC:24:11:10:00:01".to_owned(), vec![address]),
            ("lo".to_owned(), "00:00:00:00:00:00".to_owned(), vec![]),
        ],
        hostname: "talos-cp-01".to_owned(),
    };
    bench.site.pve_state().vms.get_mut(&100).unwrap().run.as_mut().unwrap().agent = Some(agent);
    let cards = bench.call(Get, "/100/agent/network-get-interfaces", &[]).await.unwrap();
    assert_eq!(cards["result"][0]["hardware-address"], "bc:24:11:10:00:01");
    assert_eq!(
        cards["result"][0]["ip-addresses"],
        json!([{ "ip-address": "10.0.0.11", "ip-address-type": "ipv4", "prefix": 24 }])
    );
    assert_eq!(cards["result"][1].get("ip-addresses"), None);
    let name = bench.call(Get, "/100/agent/get-host-name", &[]).await.unwrap();
    assert_eq!(name, json!({ "result": { "host-name": "talos-cp-01" } }));
    assert_eq!(bench.call(Post, "/100/agent/ping", &[]).await, Ok(json!({ "result": {} })));
    let trim = bench.call(Post, "/100/agent", &[("command", "fstrim")]).await.unwrap();
    assert_eq!(trim["result"]["error"]["class"], "CommandNotFound");
}

#[tokio::test]
async fn listing_a_thousand_vms_is_fast() {
    let bench = QemuTestBench::with(Release::V9, Profile::Instant, 1.0);
    for vmid in 1000..2000 {
        bench.running(vmid, &[("name", "a"), ("memory", "2048"), ("agent", "1")]);
    }
    bench.site.pve_state().access.acl.push(AclEntry {
        path: "/vms".to_owned(),
        who: "ops@pve".to_owned(),
        role: "PVEAuditor".to_owned(),
        propagate: true,
    });
    let before = bench.site.clock.moment();
    let list = bench.call_as("ops@pve", Get, "", &[]).await.unwrap();
    let took = bench.site.clock.moment().since(before);
    assert_eq!(list.as_array().unwrap().len(), 1000);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

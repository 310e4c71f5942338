//! `talmox etcd`, compared with the state of the lab.

use serde_json::Value as Json;

use crate::node_life::CreatedCluster;
use crate::support::Cluster;

const FURTHER: &str = "  - {name: cp-2, ip: 10.0.0.12}\n  - {name: cp-3, ip: 10.0.0.13}\n";

/// Names of the etcd members that the first control plane reports.
fn members(created: &CreatedCluster) -> Vec<String> {
    let mut names: Vec<String> = created.state.node("10.0.0.11", true).etcd.into_values().collect();
    names.sort();
    names
}

#[test]
fn members_are_shown_defragmented_and_removed() {
    // This fault fills the disk of cp-2 while its database is defragmented.
    let faults = "faults:\n  - {talos: EtcdDefragment, node: cp-2, fill: true}\n";
    let created = CreatedCluster::with_faults(FURTHER, "", faults);
    assert_eq!(members(&created), ["cp-1", "cp-2", "cp-3"]);

    let json: Json =
        serde_json::from_str(&created.fine("etcd members --format json").stdout).unwrap();
    assert_eq!((&json["cluster"], &json["unreachable"]), (&"dev".into(), &Json::Array(vec![])));
    let found = json["members"].as_array().unwrap();
    let ids = created.state.node("10.0.0.11", true).etcd;
    for member in found {
        let id = u64::from_str_radix(member["id"].as_str().unwrap(), 16).unwrap();
        assert_eq!(member["name"], ids[&id].as_str());
        assert_eq!((&member["learner"], &member["errors"]), (&false.into(), &Json::Array(vec![])));
        assert!(member["db_size"].as_i64().unwrap() >= member["db_size_in_use"].as_i64().unwrap());
    }
    let is_leader = |member: &&Json| member["leader"] == true;
    assert_eq!((found.len(), found.iter().filter(is_leader).count()), (3, 1));
    let text = created.fine("etcd members").stdout;
    assert!(text.starts_with("ID ") && text.contains("leader") && text.contains(" MiB"), "{text}");

    let alarms = created.fine("etcd alarms").stdout;
    assert_eq!(alarms, "etcd has no active alarms.\n");
    let disarmed = created.fine("etcd alarms --disarm").stdout;
    assert_eq!(disarmed, "Nothing to do: etcd has no active alarms.\n");

    created.fails("etcd defrag", 64, &["--yes"]);
    created.fails("etcd defrag wk-1 --yes", 64, &["`wk-1` has no etcd member"]);
    let defrag = created.fine("etcd defrag --yes").stderr;
    for name in ["cp-1", "cp-2", "cp-3"] {
        assert!(defrag.contains(&format!("etcd/{name}/defrag")), "{defrag}");
    }
    let alarms = created.fine("etcd alarms --format json").stdout;
    let alarms: Json = serde_json::from_str(&alarms).unwrap();
    assert_eq!(alarms["alarms"].as_array().unwrap().len(), 1, "{alarms}");
    let alarm = &alarms["alarms"][0];
    assert_eq!((&alarm["name"], &alarm["alarm"]), (&"cp-2".into(), &"nospace".into()));
    created.fails("etcd alarms --disarm", 64, &["--yes"]);
    // After a reset of the VM the disk has free space. The alarm remains until it is cleared.
    created.reset("cp-2");
    created.fine("etcd alarms --disarm --yes");
    assert_eq!(created.fine("etcd alarms").stdout, "etcd has no active alarms.\n");
    created.fine("up --yes");
    let one = created.fine("etcd defrag cp-2 --yes").stderr;
    assert!(one.contains("etcd/cp-2/defrag") && !one.contains("etcd/cp-1/defrag"), "{one}");

    // The member of a control plane that answers is not removed.
    created.fails("etcd remove-member cp-9 --yes", 64, &["cp-1 ("]);
    let rejected = ["error[etcd-member-in-use]: cp-2: ", "talmox node replace cp-2"];
    created.fails("etcd remove-member cp-2 --yes", 1, &rejected);
    assert_eq!(members(&created).len(), 3);
    created.fine("node shutdown cp-3 --yes");
    created.fine("etcd remove-member cp-3 --yes");
    assert_eq!(members(&created), ["cp-1", "cp-2"]);
    // The cluster has two members, and etcd would lose its quorum without one of them.
    created.fails("node reboot cp-2 --yes", 1, &["error[control-plane-needed]: cp-2: "]);
}

#[test]
fn etcd_needs_control_planes_that_run_talos() {
    let cluster = Cluster::example("ubuntu-cluster");
    let run = cluster.run("etcd members --lab");
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stderr.contains("has no control plane that runs Talos"), "{}", run.stderr);
}

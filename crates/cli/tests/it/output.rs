//! Tests that `status` and `output` report the observed state: addresses, versions, and nodes that do not answer.

use std::net::TcpListener;

use serde_json::{Value as Json, json};

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, Run};

const INVENTORY: &str = "inventory/dev/cluster.yaml";
const IN_HUNG: &str = "--lab-at hung.json";

/// Cluster whose node addresses are not in the inventory. Only the guest agents report them.
fn found_by_agents() -> Cluster {
    let cluster = Cluster::with_secrets();
    let agents = "boot: dhcp\nimage: {extensions: [siderolabs/qemu-guest-agent]}\n";
    let text = cluster.folder.read(INVENTORY);
    let text = text.replace(", ip: 10.0.0.11", "").replace(", ip: 10.0.0.21", "");
    cluster.folder.write(INVENTORY, &format!("{text}{agents}"));
    cluster
}

#[track_caller]
fn fine(run: Run) -> Run {
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    run
}

fn parsed(run: &Run) -> Json {
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn addresses_and_versions_are_read_from_agents_and_nodes() {
    let cluster = found_by_agents();
    let rehearsed = fine(cluster.run("up --lab --lab-speed 20")).stdout;
    assert!(
        rehearsed.contains(" 10.0.0.100 ") && rehearsed.contains("2 nodes are Ready"),
        "{rehearsed}"
    );

    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let up = fine(cluster.run(&format!("up --yes {IN_FILE}"))).stdout;
    assert!(up.contains("  10.0.0.100  ") && up.contains("  10.0.0.101  "), "{up}");
    let output = |what: &str| fine(cluster.run(&format!("output {what} {IN_FILE}")));
    assert_eq!(output("wk-1.ip_address").stdout, "10.0.0.101\n");
    let status = fine(cluster.run(&format!("status {IN_FILE}"))).stdout;
    assert!(status.contains("  10.0.0.101  "), "{status}");

    // The version in the inventory differs from the version of the nodes.
    let text = cluster.folder.read(INVENTORY).replace("v1.11.2", "v1.11.3");
    cluster.folder.write(INVENTORY, &text);
    let reported = output("wk-1.talos_version");
    assert_eq!((reported.stdout.as_str(), reported.stderr.as_str()), ("v1.11.2\n", ""));
    assert_eq!(output("talos_version").stdout, "v1.11.2\n");

    // For a node that does not answer, the values of the inventory are shown.
    let _silent = hang(&cluster, "10.0.0.101");
    let output = |what: &str| fine(cluster.run(&format!("output {what} {IN_HUNG}")));
    let nodes = parsed(&output("--format json"))["nodes"].take();
    assert_eq!(nodes["cp-1"]["from_inventory"], json!([]));
    let worker = &nodes["wk-1"];
    assert_eq!(worker["from_inventory"], json!(["talos_version"]), "{worker:#}");
    assert_eq!(worker["talos_version"], "v1.11.3");
    assert_eq!(worker["ip_address"], "10.0.0.101");
    assert_eq!(worker["kubernetes_version"], nodes["cp-1"]["kubernetes_version"]);
    let reported = output("wk-1.talos_version");
    assert_eq!(reported.stdout, "v1.11.3\n");
    assert!(reported.stderr.starts_with("warning: wk-1: "), "{}", reported.stderr);
    assert!(
        reported.stderr.ends_with("; from the inventory: talos_version\n"),
        "{}",
        reported.stderr
    );
    let table = output("").stdout;
    assert!(table.contains("  v1.11.2    ") && table.contains("  (v1.11.3)  "), "{table}");
    let status = fine(cluster.run(&format!("status {IN_HUNG}"))).stdout;
    assert!(status.contains("\nTalos does not answer on wk-1: "), "{status}");
    let services = cluster.run(&format!("node services 10.0.0.101 {IN_HUNG}"));
    let reported = "error[node-unreachable]: no connection to 10.0.0.101:50000: it accepts connections and does not answer: ";
    assert!(services.stderr.starts_with(reported), "{}", services.stderr);
    assert!(services.stderr.contains("\nhint: the node may be booting"), "{}", services.stderr);
}

/// Changes the reach map so that the node at this address accepts connections but never answers.
fn hang(cluster: &Cluster, address: &str) -> TcpListener {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut ready: Json = serde_json::from_str(&cluster.folder.read("lab.json")).unwrap();
    ready["reach"][format!("{address}:50000")] = silent.local_addr().unwrap().to_string().into();
    cluster.folder.write("hung.json", &ready.to_string());
    silent
}

#[test]
fn a_node_that_does_not_answer_is_marked_and_the_others_are_shown() {
    let cluster = Cluster::with_secrets();
    // `up` sends this request before and after it locks the cluster. Later, every observation sends it. Uploads would
    // send it too, so this cluster needs no uploads.
    let text = cluster.folder.read("inventory/dev/cluster.yaml");
    cluster.folder.write("inventory/dev/cluster.yaml", &format!("boot: cloudinit\n{text}"));
    let hung = "faults: [{path: /version, nth: 3, times: always, hang: true}]\n";
    cluster.folder.write("faults.yaml", hung);
    let lab =
        ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20 --faults faults.yaml");
    fine(cluster.run(&format!("up --yes {IN_FILE}")));

    let run = cluster.run(&format!("status --timeout 10s --format json {IN_FILE}"));
    let reported = parsed(&run);
    assert_eq!(reported["drift_unknown"], "the cluster was not observed in time", "{reported:#}");
    for node in reported["nodes"].as_array().unwrap() {
        assert_eq!(node["talos"]["is"]["stage"], "running", "{reported:#}");
        assert_eq!(node["kubernetes"]["is"]["ready"], true, "{reported:#}");
        assert_eq!(node["vm"]["unknown"], "the cluster was not observed in time", "{reported:#}");
    }

    assert_eq!(lab.signal("TERM"), Some(0));
    let run = cluster.run(&format!("status {IN_FILE}"));
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains("check that the lab still runs; `talmox lab serve"),
        "{}",
        run.stderr
    );
}

#[test]
fn kubernetes_is_not_reachable_by_agents_alone() {
    let cluster = found_by_agents();
    let text = cluster.folder.read(INVENTORY).replace(", vip: 10.0.0.20", "");
    cluster.folder.write(INVENTORY, &format!("{text}endpoint: https://k8s.lan:6443\n"));
    let run = cluster.run("check");
    let printed = format!("{}{}", run.stdout, run.stderr);
    assert!(
        printed.contains("the address of the Kubernetes API is not known: all control planes"),
        "{printed}"
    );
    let run = cluster.run("plan --lab --lab-speed 20");
    assert_eq!(run.code, 1, "{}", run.stdout);
    let reported = "error[endpoint-unknown]: dev: its Kubernetes API has no known address\n  hint: add `network: {vip: …}`";
    assert!(run.stdout.contains(reported), "{}", run.stdout);
}

//! What is told of a cluster is what is true of it: where nodes are, what they run, and who does not answer.

use std::net::TcpListener;

use serde_json::{Value as Json, json};

use crate::lab::{IN_FILE, Served};
use crate::support::{Cluster, Run};

const INVENTORY: &str = "inventory/dev/cluster.yaml";
const IN_HUNG: &str = "--lab-at hung.json";

/// Nobody but the guest agents can tell where the nodes are.
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
fn nodes_are_where_their_agents_say_and_run_what_they_say() {
    let cluster = found_by_agents();
    let rehearsed = fine(cluster.run("up --lab --lab-speed 20")).stdout;
    assert!(
        rehearsed.contains(" 10.0.0.100 ") && rehearsed.contains("2 nodes are Ready"),
        "{rehearsed}"
    );

    let _lab = Served::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let up = fine(cluster.run(&format!("up --yes {IN_FILE}"))).stdout;
    assert!(up.contains("  10.0.0.100  ") && up.contains("  10.0.0.101  "), "{up}");
    let output = |what: &str| fine(cluster.run(&format!("output {what} {IN_FILE}")));
    assert_eq!(output("wk-1.ip_address").stdout, "10.0.0.101\n");
    let status = fine(cluster.run(&format!("status {IN_FILE}"))).stdout;
    assert!(status.contains("  10.0.0.101  "), "{status}");

    // What the inventory wants is another matter.
    let text = cluster.folder.read(INVENTORY).replace("v1.11.2", "v1.11.3");
    cluster.folder.write(INVENTORY, &text);
    let told = output("wk-1.talos_version");
    assert_eq!((told.stdout.as_str(), told.stderr.as_str()), ("v1.11.2\n", ""));
    assert_eq!(output("talos_version").stdout, "v1.11.2\n");

    // Of a node that says nothing, it is all that is left.
    let _silent = hang(&cluster, "10.0.0.101");
    let output = |what: &str| fine(cluster.run(&format!("output {what} {IN_HUNG}")));
    let nodes = parsed(&output("--format json"))["nodes"].take();
    assert_eq!(nodes["cp-1"]["from_inventory"], json!([]));
    let worker = &nodes["wk-1"];
    assert_eq!(worker["from_inventory"], json!(["talos_version"]), "{worker:#}");
    assert_eq!(worker["talos_version"], "v1.11.3");
    assert_eq!(worker["ip_address"], "10.0.0.101");
    assert_eq!(worker["kubernetes_version"], nodes["cp-1"]["kubernetes_version"]);
    let told = output("wk-1.talos_version");
    assert_eq!(told.stdout, "v1.11.3\n");
    assert!(told.stderr.starts_with("warning: wk-1: "), "{}", told.stderr);
    assert!(told.stderr.ends_with("; from the inventory: talos_version\n"), "{}", told.stderr);
    let table = output("").stdout;
    assert!(table.contains("  v1.11.2    ") && table.contains("  (v1.11.3)  "), "{table}");
    let status = fine(cluster.run(&format!("status {IN_HUNG}"))).stdout;
    assert!(status.contains("\nTalos does not answer on wk-1: "), "{status}");
    let services = cluster.run(&format!("node services 10.0.0.101 {IN_HUNG}"));
    let told = "error[node-unreachable]: no connection to 10.0.0.101:50000: it accepts connections and does not answer: ";
    assert!(services.stderr.starts_with(told), "{}", services.stderr);
    assert!(services.stderr.contains("\nhint: the node may be booting"), "{}", services.stderr);
}

/// A lab in which the node at this address takes connections and never says a word.
fn hang(cluster: &Cluster, address: &str) -> TcpListener {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut ready: Json = serde_json::from_str(&cluster.folder.read("lab.json")).unwrap();
    ready["reach"][format!("{address}:50000")] = silent.local_addr().unwrap().to_string().into();
    cluster.folder.write("hung.json", &ready.to_string());
    silent
}

#[test]
fn who_hangs_is_marked_and_everybody_else_is_shown() {
    let cluster = Cluster::with_secrets();
    // `up` asks for it before and after it has locked the cluster, and every look asks after that. Uploads ask for it,
    // too, so there are none.
    let text = cluster.folder.read("inventory/dev/cluster.yaml");
    cluster.folder.write("inventory/dev/cluster.yaml", &format!("boot: cloudinit\n{text}"));
    let hung = "faults: [{path: /version, nth: 3, times: always, hang: true}]\n";
    cluster.folder.write("faults.yaml", hung);
    let lab =
        Served::in_file(&cluster, "--inventory inventory/dev --speed 20 --faults faults.yaml");
    fine(cluster.run(&format!("up --yes {IN_FILE}")));

    let run = cluster.run(&format!("status --timeout 10s --format json {IN_FILE}"));
    let told = parsed(&run);
    assert_eq!(told["drift_unknown"], "the cluster was not observed in time", "{told:#}");
    for node in told["nodes"].as_array().unwrap() {
        assert_eq!(node["talos"]["is"]["stage"], "running", "{told:#}");
        assert_eq!(node["kubernetes"]["is"]["ready"], true, "{told:#}");
        assert_eq!(node["vm"]["unknown"], "the cluster was not observed in time", "{told:#}");
    }

    assert_eq!(lab.signal("TERM"), Some(0));
    let run = cluster.run(&format!("status {IN_FILE}"));
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("has the lab ended? `talmox lab serve"), "{}", run.stderr);
}

#[test]
fn agents_alone_do_not_lead_to_kubernetes() {
    let cluster = found_by_agents();
    let text = cluster.folder.read(INVENTORY).replace(", vip: 10.0.0.20", "");
    cluster.folder.write(INVENTORY, &format!("{text}endpoint: https://k8s.lan:6443\n"));
    let run = cluster.run("check");
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!(
        said.contains("the address of the Kubernetes API is not known: all control planes"),
        "{said}"
    );
    let run = cluster.run("plan --lab --lab-speed 20");
    assert_eq!(run.code, 1, "{}", run.stdout);
    let told = "error[endpoint-unknown]: dev: its Kubernetes API has no known address\n  hint: add `network: {vip: …}`";
    assert!(run.stdout.contains(told), "{}", run.stdout);
}

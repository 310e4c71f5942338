//! `up`, `status`, `output`, `destroy` and other commands in labs.

use std::time::Duration;

use serde_json::{Value as Json, json};
use talmox_clock::Clock;

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, Folder, Run, repository, talmox};

/// Lab options with a high speed at which no timeout of the lab is reached.
const FAST: &str = "--lab --lab-speed 20";

fn json(run: &Run) -> Json {
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn nodes_are_cloned_from_a_template() {
    let cluster = Cluster::example("vm-module");
    let run = cluster.run(&format!("up {FAST} --yes"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("vm/k3s-dev-control-1/clone"), "{}", run.stderr);

    let listed = json(&cluster.run(&format!("template list {FAST} --format json")));
    assert_eq!(listed[0]["name"], "talos-v1.12.4-base");
    assert_eq!(listed[0]["node"], "pve");
    assert_eq!(listed[0]["wanted_by"][1], "k3s-dev-gpu-1");
}

#[test]
fn templates_are_created_once_and_only_where_they_are_needed() {
    let cluster = Cluster::example("vm-module");
    let lab = ServedLab::in_file(&cluster, "--inventory inventory --speed 20");
    let create = format!("template create --yes {IN_FILE}");
    let run = cluster.run(&format!("plan {IN_FILE}"));
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("template talos-v1.12.4-base not found"), "{}", run.stdout);
    let run = cluster.run(&create);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = cluster.run(&create);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout, "Nothing to do: all templates exist.\n");
    if let Some(config) = lab.get("/nodes/pve/qemu/9000/config") {
        assert_eq!(config["data"]["name"], "talos-v1.12.4-base");
        assert_eq!(config["data"]["template"], 1);
        for key in ["net0", "ipconfig0", "ide2", "tags"] {
            assert!(config["data"][key].is_null(), "{key} tells machines apart");
        }
    }
    let run = cluster.run(&format!("plan {IN_FILE}"));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);

    // If the inventory changes, an existing template is not changed. It is reported as different.
    let file = "inventory/vm-module/cluster.yaml";
    let text = cluster.folder.read(file);
    let text = text.replace("talos_version: v1.12.4", "talos_version: v1.13.6");
    cluster.folder.write(file, &text);
    let message = "nodes cannot be cloned from it: it has Talos v1.12.4, and v1.13.6 is needed";
    for (command, code) in [("template create --yes", 1), ("up --yes", 1), ("template list", 0)] {
        let run = cluster.run(&format!("{command} {IN_FILE}"));
        assert_eq!(run.code, code, "{command}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains(message), "{command}: {}", run.stderr);
    }
    let listed = json(&cluster.run(&format!("template list --format json {IN_FILE}")));
    assert_eq!(listed[0]["talos_version"], "v1.12.4");

    let other = Cluster::with_secrets();
    let run = other.run(&format!("template create {FAST}"));
    assert_eq!(run.code, 64);
    assert!(run.stderr.contains("boot: template"), "{}", run.stderr);
}

#[test]
fn a_cluster_is_created_and_destroyed_in_a_lab() {
    let cluster = Cluster::with_secrets();
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let (up, status) = (format!("up --yes {IN_FILE}"), format!("status --format json {IN_FILE}"));
    // A missing VM counts as a difference from the inventory.
    let before = cluster.run(&status);
    assert_eq!(before.code, 1, "{}", before.stdout);
    let before: Json = serde_json::from_str(&before.stdout).unwrap();
    assert_eq!(before["nodes"][0]["vm"], json!({"absent": "there is no such VM"}), "{before:#}");
    assert_eq!(before["nodes"][0]["role"], "controlplane");
    assert_eq!(before["nodes"][0]["drift"][0], "vm is missing");

    let run = cluster.run(&up);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains(" steps done"), "{}", run.stderr);
    let run = cluster.run(&up);
    assert_eq!(run.stdout, "Nothing to do: the cluster matches the inventory.\n");
    let run = cluster.run(&format!("plan --out plan.json {IN_FILE}"));
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("dev: nothing to do\n", ""));

    let after = json(&cluster.run(&status));
    let node = &after["nodes"][0];
    assert_eq!(node["vm"]["is"]["running"], true);
    assert_eq!(node["talos"]["is"]["stage"], "running");
    assert_eq!(node["kubernetes"]["is"]["ready"], true);
    assert_eq!(node["etcd"]["is"]["leader"], true);
    assert_eq!(node["drift"].as_array().unwrap().len(), 0);
    assert!(after["nodes"][1]["etcd"].is_null());
    let checks = after["health"].as_array().unwrap();
    assert_eq!(checks.len(), 16, "{after:#}");
    assert!(checks.iter().all(|check| check["state"] != "waiting"), "{checks:#?}");
    assert_eq!(after["errors"].as_array().unwrap().len(), 0);
    let table = cluster.run(&format!("status {IN_FILE}")).stdout;
    assert!(table.contains("leader") && table.contains("Ready v1."), "{table}");

    // An unknown resource type is reported at once, without waiting for the type.
    let file = "inventory/dev/cluster.yaml";
    let inventory = cluster.folder.read(file);
    cluster.folder.write(file, &format!("{inventory}addons: [{{name: shop, files: [shop]}}]\n"));
    let typo = "apiVersion: v1\nkind: ConfgMap\nmetadata: {name: prices}\n";
    cluster.folder.write("inventory/dev/shop/prices.yaml", typo);
    let run = cluster.run(&format!("plan {IN_FILE}"));
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("Kubernetes has no v1 ConfgMap"), "{}", run.stdout);
    cluster.folder.write(file, &inventory);

    let output = |name: &str| cluster.run(&format!("output {name} {IN_FILE}"));
    let vmid = output("wk-1.vmid").stdout;
    assert_eq!(output("wk-1.ip_address").stdout, "10.0.0.21\n");
    assert_eq!(output("vip").stdout, "10.0.0.20\n");
    assert!(output("kubeconfig").stdout.contains("kind: Config"));
    let all = json(&output("--format json"));
    assert_eq!(all["nodes"]["cp-1"]["role"], "controlplane");
    assert_eq!(all["nodes"]["cp-1"]["vm_name"], "cp-1");
    let wrong = output("wk-1.color");
    assert_eq!(wrong.code, 64);
    assert!(wrong.stderr.contains("mac_address"), "{}", wrong.stderr);

    let run = cluster.run(&format!("destroy --yes {IN_FILE}"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(output("wk-1.vmid").stdout, "\n");
    assert_eq!(cluster.run(&up).code, 0);
    assert_eq!(output("wk-1.vmid").stdout, vmid);
}

#[test]
fn a_shared_address_that_does_not_answer_is_reported() {
    let cluster = Cluster::with_secrets();
    let file = "inventory/dev/cluster.yaml";
    let text = cluster.folder.read(file).replace("vip:", "vip_by: kube-vip, vip:");
    cluster.folder.write(file, &text);
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let up = format!("up --yes {IN_FILE}");
    let run = cluster.run(&up);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("no add-on provides 10.0.0.20 yet"), "{}", run.stderr);
    let message = "such as cp-1: https://10.0.0.20:6443 does not answer yet. Run `talmox up";
    assert!(run.stdout.contains(message), "{}", run.stdout);
    let kubeconfig = cluster.folder.read("inventory/dev/kubeconfig");
    assert!(kubeconfig.starts_with("# Leads to one control plane"), "it is not marked");
    let run = cluster.run(&up);
    assert_eq!(run.stdout, "Nothing to do: the cluster matches the inventory.\n");
    assert!(run.stderr.contains("network.vip: no component holds 10.0.0.20"), "{}", run.stderr);
    assert_eq!(cluster.run(&format!("output vip {IN_FILE}")).stdout, "10.0.0.20\n");
}

#[test]
fn apis_that_do_not_answer_are_shown_within_the_timeout() {
    let mut cluster = Cluster::with_secrets().with_token("{env: TOKEN}");
    cluster.set("TOKEN", "talmox@pve!ci=00000000-0000-0000-0000-000000000000");
    let path = "inventory/dev/cluster.yaml";
    let reach = "reach: {10.0.0.11: 127.0.0.1, 10.0.0.20: 127.0.0.1, 10.0.0.21: 127.0.0.1}\n";
    let text = cluster.folder.read(path).replace("pve:8006", "127.0.0.1:1");
    cluster.folder.write(path, &format!("{text}{reach}"));
    let run = cluster.run("status --timeout 20s");
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stdout.contains("no Kubernetes API answers"), "{}", run.stdout);
    assert!(run.stdout.contains("drift is unknown: cannot query Proxmox"), "{}", run.stdout);
    assert!(!run.stdout.contains("cp-1: VM: "), "Proxmox is reported as silent: {}", run.stdout);
    for part in ["Proxmox", "Kubernetes", "Talos"] {
        assert!(run.stdout.contains(&format!("\n{part} does not answer")), "{}", run.stdout);
    }
    let run = cluster.run("output");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("cannot query Proxmox"), "{}", run.stderr);
    // `status` writes no secrets file.
    let bare = Cluster::new();
    assert_eq!(bare.run("status").code, 1);
    assert!(!bare.folder.path().join("inventory/dev/secrets.sops.yaml").exists());
}

/// Proxmox accepts connections here, but never answers.
#[test]
fn status_does_not_wait_for_a_proxmox_that_answers_nothing() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut cluster = Cluster::with_secrets().with_token("{env: TOKEN}");
    cluster.set("TOKEN", "talmox@pve!ci=00000000-0000-0000-0000-000000000000");
    let path = "inventory/dev/cluster.yaml";
    let reach = "reach: {10.0.0.11: 127.0.0.1, 10.0.0.20: 127.0.0.1, 10.0.0.21: 127.0.0.1}\n";
    let address = silent.local_addr().unwrap().to_string();
    let text = cluster.folder.read(path).replace("pve:8006", &address);
    cluster.folder.write(path, &format!("{text}{reach}"));
    let clock = Clock::real();
    let started = clock.moment();
    let run = cluster.run("status");
    let took = clock.moment().since(started);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let expected = "\nProxmox does not answer: no answer within 4 s\n";
    assert!(run.stdout.contains(expected), "{}", run.stdout);
    let expected = "\ndrift is unknown: the state of Proxmox was not observed\n";
    assert!(run.stdout.contains(expected), "{}", run.stdout);
    // The limit for Proxmox is 4 s. The rest is time for the start of the program on a busy machine. Without the limit,
    // the command would wait for 30 s, the default of `--timeout`.
    assert!(took < Duration::from_secs(9), "{took:?}");
}

#[test]
fn a_live_check_reports_preflight_errors_and_changes_nothing() {
    let cluster = Cluster::new();
    let run = cluster.run(&format!("check --live {FAST}"));
    assert_eq!((run.code, run.stdout.as_str()), (0, "dev: no problems; `talmox up` can start\n"));
    let path = "inventory/dev/cluster.yaml";
    let text = cluster.folder.read(path);
    let more = "image: {extensions: [siderolabs/no-such-thing]}\n";
    cluster.folder.write(path, &format!("{text}{more}"));
    let run = cluster.run(&format!("check --live {FAST}"));
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("no extension siderolabs/no-such-thing"), "{}", run.stderr);
    assert!(run.stderr.contains("hint: correct `image.extensions`"), "{}", run.stderr);
    let run = cluster.run(&format!("check --live --format json {FAST}"));
    let output: Json = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(output["ok"], false);
    let [finding] = output["findings"].as_array().unwrap().as_slice() else { panic!("{output:#}") };
    assert_eq!(finding["severity"], "error");
    for field in ["code", "subject", "message", "hint"] {
        assert!(finding[field].is_string(), "{finding:#}");
    }
    assert!(!cluster.folder.path().join("inventory/dev/secrets.sops.yaml").exists());
    assert_eq!(cluster.run("check --lab").code, 64);

    // Errors of one cluster do not prevent the check of the next cluster.
    let other = text.replace("10.0.", "10.1.").replace("name: ", "name: lab-");
    cluster.folder.write("inventory/lab/cluster.yaml", &other);
    let run = cluster.run(&format!("check --live {FAST}"));
    let expected = "dev: 1 error\n\nlab: no problems; `talmox up` can start\n";
    assert_eq!((run.code, run.stdout.as_str()), (1, expected), "{}", run.stderr);
}

#[test]
fn the_role_is_for_what_the_inventory_names() {
    let cluster = Cluster::new();
    let path = "inventory/dev/cluster.yaml";
    let text = cluster.folder.read(path).replace("node: pve}", "node: pve, pool: talos}");
    cluster.folder.write(path, &text);
    let run = cluster.run("init --role");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stderr.contains("names no pool"), "{}", run.stderr);
    insta::assert_snapshot!(run.stdout);
    let without = Cluster::new().run("init --role");
    assert!(without.stdout.contains("acl modify /vms --users talmox@pve --roles TalmoxVM"));
    assert!(without.stderr.contains("names no pool"), "{}", without.stderr);
    let gpu = talmox()
        .current_dir(repository())
        .args(["init", "--role", "--inventory", "examples/talos-cluster"])
        .output()
        .unwrap();
    let gpu = String::from_utf8(gpu.stdout).unwrap();
    assert!(
        gpu.contains("acl modify /mapping/pci --users talmox@pve --roles TalmoxMapping"),
        "{gpu}"
    );
}

#[test]
fn a_lab_uses_a_scenario_or_an_inventory() {
    let cluster = Cluster::new();
    let run = cluster.run("lab serve --inventory inventory --scenario some.yaml");
    assert_eq!(run.code, 64);
    assert!(
        run.stderr.contains("omit --scenario, or omit --inventory and the cluster"),
        "{}",
        run.stderr
    );
    assert_ne!(Folder::new().talmox("lab serve dev").code, 0);
}

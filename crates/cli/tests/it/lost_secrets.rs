//! Tests that no secrets are generated if evidence shows, or may show, that the cluster exists.

use std::fs;

use crate::lab::ServedLab;
use crate::support::{Cluster, SECRETS};

const PATH: &str = "inventory/dev/cluster.yaml";
const UUID: &str = "11111111-2222-4333-8444-555555555555";
/// Commands that can generate secrets.
const COMMANDS: [&str; 6] = [
    "plan",
    "up --yes",
    "render",
    "render --new-cluster",
    "secrets init",
    "secrets init --new-cluster",
];

/// Lab with one VM, and an inventory without secrets that names the Proxmox of the lab.
fn with_vm(config: &str, faults: &str) -> (ServedLab, Cluster) {
    let mut cluster = Cluster::new().with_token("{env: TOKEN}");
    let scenario = format!(
        "nodes: [{{name: pve}}]\nvms:\n  - vmid: 777\n    node: pve\n    status: stopped\n    config: {{memory: 512, {config}}}\n"
    );
    cluster.folder.write("lab.yaml", &scenario);
    cluster.folder.write("faults.yaml", faults);
    let lab = ServedLab::in_file(&cluster, "--scenario lab.yaml --faults faults.yaml");
    cluster.set("TOKEN", format!("{}={}", lab.pve("token_id"), lab.pve("token_secret")));
    fs::copy(lab.pve("ca"), cluster.folder.path().join("inventory/dev/ca.pem")).unwrap();
    let proxmox = format!("endpoint: {}, ca_file: ca.pem", lab.pve("url"));
    let text = cluster.folder.read(PATH).replace("endpoint: https://pve:8006", &proxmox);
    cluster.folder.write(PATH, &text);
    (lab, cluster)
}

fn has_secrets(cluster: &Cluster) -> bool {
    cluster.folder.path().join(SECRETS).exists()
}

/// Asserts that all commands fail with these words and write no secrets.
#[track_caller]
fn refuse(cluster: &Cluster, commands: &[&str], words: &str) {
    for command in commands {
        let run = cluster.run(command);
        assert_eq!(run.code, 1, "{command}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains(words), "{command}: `{words}` is not in\n{}", run.stderr);
        assert!(run.stderr.contains("hint: "), "{command}: {}", run.stderr);
        assert!(!run.stderr.contains("delete"), "{command}: {}", run.stderr);
        assert!(!has_secrets(cluster), "{command}");
    }
}

#[test]
fn a_vm_of_the_cluster_prevents_new_secrets() {
    let marker = "talmox/1 cluster=0123456789abcdef node=old-1 stage=made";
    let noted = |name: &str| {
        format!(
            "Node old-1 of the cluster {name}. talmox knows the VM by the next line: keep it.\\n\\n{marker}"
        )
    };
    let derived = "11111111-2222-5333-8444-555555555555";
    for (config, words) in [
        ("name: x, tags: talmox;dev".to_owned(), "has its tags"),
        (
            format!("name: x, description: \"{}\"", noted("dev")),
            "has the marker of talmox, for the node old-1",
        ),
        (
            format!("name: x, description: \"{marker}\""),
            "has the marker of talmox without a cluster name",
        ),
        (format!("name: cp-1, description: \"{}\"", noted("ops")), "belongs to a talmox cluster"),
        (format!("name: cp-1, smbios1: uuid={derived}"), "that talmox derived"),
    ] {
        let (_lab, cluster) = with_vm(&config, "faults: []\n");
        refuse(&cluster, &COMMANDS, words);
    }
    // Foreign VMs do not prevent new secrets.
    for config in [
        format!("name: x, smbios1: uuid={UUID}"),
        format!("name: x, tags: talmox;ops, description: \"{}\"", noted("ops")),
    ] {
        let (_lab, cluster) = with_vm(&config, "faults: []\n");
        let run = cluster.run("secrets init");
        assert_eq!(run.code, 0, "{config}: {}", run.stderr);
        assert!(has_secrets(&cluster));
    }
}

/// Without its secrets, every VM and address of the cluster looks foreign. Only the cause is reported.
#[test]
fn live_checks_report_missing_secrets_once() {
    for config in ["name: cp-1, tags: talmox;dev", "name: x, tags: talmox;dev"] {
        let (_lab, cluster) = with_vm(config, "faults: []\n");
        let run = cluster.run("check --live");
        assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
        assert_eq!(run.stderr.matches("error[").count(), 1, "{}", run.stderr);
        assert!(run.stderr.contains("VM 777 on pve has its tags"), "{}", run.stderr);
        assert!(run.stderr.contains("hint: restore "), "{}", run.stderr);
        for word in ["delete", "destroy", "vm-foreign"] {
            assert!(!run.stderr.contains(word), "{word}: {}", run.stderr);
        }
        assert!(!has_secrets(&cluster));
    }
}

/// The secrets file was lost, and `render` generated new secrets without access to Proxmox.
#[test]
fn second_secrets_of_an_existing_cluster_are_not_used() {
    let marker = "talmox/1 cluster=0123456789abcdef node=cp-1 stage=made";
    let config = format!("name: cp-1, tags: talmox;dev, description: \"{marker}\"");
    let (_lab, cluster) = with_vm(&config, "faults: []\n");
    let elsewhere = Cluster::with_secrets();
    for path in [SECRETS, crate::support::KEYS] {
        cluster.folder.write(path, &elsewhere.folder.read(path));
    }
    let rejected = |words: &str| {
        for command in ["plan", "up --yes"] {
            let run = cluster.run(command);
            assert_eq!(run.code, 1, "{}", run.stderr);
            assert!(run.stderr.contains(words), "{}", run.stderr);
        }
    };
    let words = "VM 777 on pve is the node cp-1 of a cluster dev with other secrets";
    rejected(words);
    // These runs do not show that the secrets are in use: a run in a lab, a failed run, and a run of another cluster.
    for (nth, (name, is_lab, end)) in
        [("dev", true, "done"), ("dev", false, "failed"), ("ops", false, "done")].iter().enumerate()
    {
        let log = format!(
            "{{\"format\":1,\"command\":\"up\",\"cluster\":\"{name}\",\"started\":{nth}.0,\"is_lab\":{is_lab}}}\n\
             {{\"time\":{nth}.5,\"what\":{{\"event\":\"run_ended\",\"end\":\"{end}\",\"seconds\":0.5}}}}\n"
        );
        cluster.folder.write(&format!("inventory/dev/.talmox/runs/{nth}-up.jsonl"), &log);
        rejected(words);
    }
}

/// The unreadable VM may belong to the cluster whose secrets were lost.
#[test]
fn secrets_that_no_run_used_are_not_used_beside_a_vm_that_cannot_be_read() {
    let faults = "faults:\n  - {method: GET, path: '/nodes/*/qemu/777/config', times: always, \
                  refuse: {status: 500, message: no such file}}\n";
    let (_lab, cluster) = with_vm(&format!("name: x, smbios1: uuid={UUID}"), faults);
    let elsewhere = Cluster::with_secrets();
    for path in [SECRETS, crate::support::KEYS] {
        cluster.folder.write(path, &elsewhere.folder.read(path));
    }
    for command in ["plan", "up --yes"] {
        let run = cluster.run(command);
        assert_eq!(run.code, 1, "{}", run.stderr);
        let words = "VM 777 on pve cannot be read, and may be of a cluster dev with other secrets";
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
}

#[test]
fn a_vm_that_cannot_be_read_prevents_new_secrets() {
    let faults = "faults:\n  - {method: GET, path: '/nodes/*/qemu/777/config', times: always, \
                  refuse: {status: 500, message: no such file}}\n";
    let (_lab, cluster) = with_vm(&format!("name: x, smbios1: uuid={UUID}"), faults);
    refuse(&cluster, &["plan", "up --yes"], "VM 777 on pve cannot be read");
    let offline = ["render", "secrets init"];
    refuse(
        &cluster,
        &offline,
        "talmox cannot tell whether dev exists: VM 777 on pve cannot be read",
    );
    refuse(&cluster, &offline, "run the same command with --new-cluster");
    let run = cluster.run("secrets init --new-cluster");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("Proxmox was not checked for an existing cluster dev"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_proxmox_that_does_not_answer_prevents_new_secrets() {
    let mut cluster = Cluster::new().with_token("{env: TOKEN}");
    let text = cluster.folder.read(PATH).replace("https://pve:8006", "https://127.0.0.1:1");
    cluster.folder.write(PATH, &text);
    // The inventory is unused and has no credentials, as with `render` of an example.
    let run = cluster.run("render --output new");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("Proxmox was not checked for an existing cluster dev"),
        "{}",
        run.stderr
    );
    fs::remove_file(cluster.folder.path().join(SECRETS)).unwrap();
    // The lock file shows that a run used the inventory.
    let lock = "inventory/dev/.talmox/lock";
    cluster.folder.write(lock, "");
    refuse(&cluster, &["render", "secrets init"], "with --new-cluster");
    fs::remove_file(cluster.folder.path().join(lock)).unwrap();
    cluster.set("TOKEN", "talmox@pve!ci=00000000-0000-4000-8000-000000000000");
    refuse(&cluster, &["render", "secrets init"], "cannot connect to 127.0.0.1:1");
    let run = cluster.run("secrets init --new-cluster");
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn files_beside_the_inventory_prevent_new_secrets() {
    let cluster = Cluster::new();
    let offline = ["render", "render --new-cluster", "secrets init", "secrets init --new-cluster"];
    let remove = |path: &str| fs::remove_file(cluster.folder.path().join(path)).unwrap();
    let kubeconfig = "inventory/dev/kubeconfig";
    let real = "clusters: [{cluster: {server: 'https://10.0.0.20:6443', certificate-authority-data: eA==}}]\n";
    for text in [real, "clusters: [\n"] {
        cluster.folder.write(kubeconfig, text);
        refuse(&cluster, &offline, "inventory/dev/kubeconfig has credentials for a cluster");
    }
    remove(kubeconfig);

    let log = |time: u32, command: &str, end: Option<&str>| {
        let header = format!(
            "{{\"format\":1,\"command\":\"{command}\",\"cluster\":\"dev\",\"started\":{time}.0}}\n"
        );
        let end = end.map(|end| {
            format!("{{\"time\":{time}.5,\"what\":{{\"event\":\"run_ended\",\"end\":\"{end}\",\"seconds\":0.5}}}}\n")
        });
        let path = format!("inventory/dev/.talmox/runs/{time}-{command}.jsonl");
        cluster.folder.write(&path, &format!("{header}{}", end.unwrap_or_default()));
        path
    };
    log(1, "up", None);
    refuse(&cluster, &offline, "1-up.jsonl is the log of a run of `up`");
    log(2, "destroy", Some("failed"));
    refuse(&cluster, &offline, "2-destroy.jsonl is the log of a `destroy` that did not finish");
    cluster.folder.write("inventory/dev/.talmox/runs/3-up.jsonl", "no log\n");
    refuse(&cluster, &offline, "a run log that cannot be read");
    remove("inventory/dev/.talmox/runs/3-up.jsonl");
    log(4, "destroy", Some("done"));
    let run = cluster.run("render --new-cluster");
    assert_eq!(run.code, 0, "{}", run.stderr);

    // Now rendered configs exist, but the secrets are missing.
    remove(SECRETS);
    let init = ["secrets init", "secrets init --new-cluster", "render --output other"];
    refuse(&cluster, &init, "generated has machine configs of its nodes");
    let renamed = cluster.folder.read(PATH).replace("cp-1", "cp-9").replace("wk-1", "wk-9");
    cluster.folder.write(PATH, &renamed);
    let run = cluster.run("secrets init --new-cluster");
    assert_eq!(run.code, 0, "they are of another cluster's nodes: {}", run.stderr);
}

//! Errors of an unreachable or untrusted Proxmox, with hints.

use std::fs;
use std::process::Command;

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, skip_test};

const PATH: &str = "inventory/dev/cluster.yaml";
const TOKEN: &str = "talmox@pve!ci=00000000-0000-4000-8000-000000000000";

/// Cluster with these settings in `proxmox:`.
fn cluster(proxmox: &str) -> Cluster {
    let mut cluster = Cluster::with_secrets().with_token("{env: TOKEN}");
    cluster.set("TOKEN", TOKEN);
    let text = cluster.folder.read(PATH);
    cluster.folder.write(PATH, &text.replace("endpoint: https://pve:8006", proxmox));
    cluster
}

/// Asserts that both commands fail with these words.
fn reports(cluster: &Cluster, words: &[&str]) {
    for command in ["check --live", "plan"] {
        let run = cluster.run(command);
        assert_eq!(run.code, 1, "{}", run.stderr);
        let words = ["cannot query Proxmox", "hint: "].iter().chain(words);
        for words in words {
            assert!(run.stderr.contains(words), "`{words}` is not in\n{}", run.stderr);
        }
        assert!(!run.stderr.contains("00000000-0000-4000"), "{}", run.stderr);
    }
}

#[test]
fn an_endpoint_that_does_not_answer_is_named() {
    let closed = cluster("endpoint: https://127.0.0.1:1");
    reports(&closed, &["cannot connect to 127.0.0.1:1", "its port 1 is reachable from here"]);
    let unknown = cluster("endpoint: https://pve.invalid:8006");
    reports(&unknown, &["pve.invalid", "`proxmox.endpoint`"]);
}

#[test]
fn a_certificate_that_is_not_trusted_is_named() {
    let lab = ServedLab::in_file(&cluster("endpoint: https://pve:8006"), "");
    let endpoint = format!("endpoint: {}", lab.pve("url"));
    let fingerprint = lab.pve("fingerprint");
    let shown = format!("whose certificate has the fingerprint {fingerprint}: ");
    let pin = format!("`proxmox: {{fingerprint: \"{fingerprint}\"}}`");
    reports(&cluster(&endpoint), &[&shown, "UnknownIssuer", &pin]);
    let pinned = format!("{endpoint}, fingerprint: '{}'", vec!["AB"; 32].join(":"));
    let shown = format!("fingerprint {}, which is not the pinned one", lab.pve("fingerprint"));
    reports(&cluster(&pinned), &[&shown, "which differs from `proxmox.fingerprint`"]);
}

#[test]
fn an_unknown_token_is_named() {
    let lab = ServedLab::in_file(&cluster("endpoint: https://pve:8006"), "");
    let cluster = cluster(&format!("endpoint: {}, ca_file: ca.pem", lab.pve("url")));
    fs::copy(lab.pve("ca"), cluster.folder.path().join("inventory/dev/ca.pem")).unwrap();
    reports(&cluster, &["status 401", "Proxmox does not accept the token"]);
}

/// Output of a command, and its system calls that connect or resolve names. Prints a note and returns `None` if the calls
/// cannot be traced.
fn connections(cluster: &Cluster, args: &str) -> Option<(String, Vec<String>)> {
    let folder = cluster.folder.path();
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=connect,sendto,sendmmsg", "-o", "calls.txt"])
        .arg(env!("CARGO_BIN_EXE_talmox"))
        .args(args.split_whitespace())
        .env("HOME", folder.join("home"))
        .current_dir(folder)
        .output();
    let output = match output {
        Ok(output) if folder.join("calls.txt").exists() => output,
        other => {
            skip_test(&format!("connections cannot be traced with strace: {other:?}"));
            return None;
        }
    };
    let calls = cluster.folder.read("calls.txt");
    let calls = calls.lines().filter(|line| line.contains("sa_family="));
    let printed = [output.stdout, output.stderr].concat();
    Some((String::from_utf8(printed).unwrap(), calls.map(str::to_owned).collect()))
}

/// An address of the inventory may belong to a real machine, and a name may be resolvable. A command with a lab must use
/// neither.
#[test]
fn addresses_outside_a_lab_are_neither_connected_to_nor_resolved() {
    let cluster = Cluster::with_secrets();
    let text = cluster
        .folder
        .read(PATH)
        .replace("10.0.0.", "10.80.0.")
        .replace("10.0.0.0/16", "10.80.0.0/16");
    let text = format!("{text}image: {{factory: 'https://factory.example'}}\n");
    cluster.folder.write(PATH, &text);
    // The lab was started without the inventory, so it has neither the network nor the Image Factory of this inventory.
    let lab = ServedLab::in_file(&cluster, "");
    for command in ["status", "plan", "node get cp-1 hostname", "node get talos.example hostname"] {
        let Some((printed, calls)) = connections(&cluster, &format!("{command} {IN_FILE}")) else {
            return;
        };
        let outside = |call: &&String| !call.contains("inet_addr(\"127.");
        let outside: Vec<&String> = calls.iter().filter(outside).collect();
        assert!(outside.is_empty(), "{command}: {outside:#?}\n{printed}");
        match command {
            "status" | "plan" => assert!(!calls.is_empty(), "{command} asks the lab\n{printed}"),
            _ => assert!(printed.contains("the reach map has no entry for it"), "{printed}"),
        }
    }
    assert_eq!(lab.signal("TERM"), Some(0));
}

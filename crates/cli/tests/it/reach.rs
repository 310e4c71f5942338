//! What stands between us and a Proxmox is named, with what to do about it.

use std::fs;
use std::process::Command;

use crate::lab::{IN_FILE, Served};
use crate::support::{Cluster, cannot_try};

const PATH: &str = "inventory/dev/cluster.yaml";
const TOKEN: &str = "talmox@pve!ci=00000000-0000-4000-8000-000000000000";

/// A cluster whose inventory says this of Proxmox.
fn cluster(proxmox: &str) -> Cluster {
    let mut cluster = Cluster::with_secrets().with_token("{env: TOKEN}");
    cluster.set("TOKEN", TOKEN);
    let text = cluster.folder.read(PATH);
    cluster.folder.write(PATH, &text.replace("endpoint: https://pve:8006", proxmox));
    cluster
}

/// Both commands say it in these words.
fn says(cluster: &Cluster, words: &[&str]) {
    for command in ["check --live", "plan"] {
        let run = cluster.run(command);
        assert_eq!(run.code, 1, "{}", run.stderr);
        let words = ["cannot look at Proxmox", "hint: "].iter().chain(words);
        for words in words {
            assert!(run.stderr.contains(words), "`{words}` is not in\n{}", run.stderr);
        }
        assert!(!run.stderr.contains("00000000-0000-4000"), "{}", run.stderr);
    }
}

#[test]
fn an_endpoint_where_nobody_is_is_named() {
    let closed = cluster("endpoint: https://127.0.0.1:1");
    says(&closed, &["cannot connect to 127.0.0.1:1", "is there a way to its port 1 from here"]);
    let unknown = cluster("endpoint: https://pve.invalid:8006");
    says(&unknown, &["pve.invalid", "`proxmox.endpoint`"]);
}

#[test]
fn a_certificate_that_is_not_trusted_is_named() {
    let lab = Served::in_file(&cluster("endpoint: https://pve:8006"), "");
    let endpoint = format!("endpoint: {}", lab.pve("url"));
    says(&cluster(&endpoint), &["UnknownIssuer", "pin it with `proxmox: {fingerprint: …}`"]);
    let pinned = format!("{endpoint}, fingerprint: '{}'", vec!["AB"; 32].join(":"));
    let shown = format!("fingerprint {}, which is not the pinned one", lab.pve("fingerprint"));
    says(&cluster(&pinned), &[&shown, "`proxmox.fingerprint` pins another one"]);
}

#[test]
fn a_token_that_nobody_knows_is_named() {
    let lab = Served::in_file(&cluster("endpoint: https://pve:8006"), "");
    let cluster = cluster(&format!("endpoint: {}, ca_file: ca.pem", lab.pve("url")));
    fs::copy(lab.pve("ca"), cluster.folder.path().join("inventory/dev/ca.pem")).unwrap();
    says(&cluster, &["status 401", "Proxmox does not know the token"]);
}

/// The system calls by which the program connects and looks up names. None, loudly, where they cannot be traced.
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
            cannot_try(&format!("connections cannot be traced with strace: {other:?}"));
            return None;
        }
    };
    let calls = cluster.folder.read("calls.txt");
    let calls = calls.lines().filter(|line| line.contains("sa_family="));
    let said = [output.stdout, output.stderr].concat();
    Some((String::from_utf8(said).unwrap(), calls.map(str::to_owned).collect()))
}

/// In a lab, an address of the inventory may be that of a real machine, and a name one that a resolver knows.
#[test]
fn what_a_lab_does_not_serve_is_neither_connected_to_nor_looked_up() {
    let cluster = Cluster::with_secrets();
    let text = cluster
        .folder
        .read(PATH)
        .replace("10.0.0.", "10.80.0.")
        .replace("10.0.0.0/16", "10.80.0.0/16");
    let text = format!("{text}image: {{factory: 'https://factory.example'}}\n");
    cluster.folder.write(PATH, &text);
    // Not the lab of this inventory: it knows neither its network nor its factory.
    let lab = Served::in_file(&cluster, "");
    for command in ["status", "plan", "node get cp-1 hostname", "node get talos.example hostname"] {
        let Some((said, calls)) = connections(&cluster, &format!("{command} {IN_FILE}")) else {
            return;
        };
        let outside = |call: &&String| !call.contains("inet_addr(\"127.");
        let outside: Vec<&String> = calls.iter().filter(outside).collect();
        assert!(outside.is_empty(), "{command}: {outside:#?}\n{said}");
        match command {
            "status" | "plan" => assert!(!calls.is_empty(), "{command} asks the lab\n{said}"),
            _ => assert!(said.contains("the reach map has no entry for it"), "{said}"),
        }
    }
    assert_eq!(lab.signal("TERM"), Some(0));
}

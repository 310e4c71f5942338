//! `talmox kubeconfig` and `talmox talosconfig`

use std::fs;

use talmox_talos_config::client::{kubeconfig, talosconfig};
use talmox_talos_config::pki::Certificate;
use talmox_talos_config::time::UnixTime;

use crate::lab::{IN_FILE, ServedLab};
use crate::support::Cluster;

/// Certificate in a field of a client file.
fn certificate(text: &str, key: &str) -> Certificate {
    let value = text.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap().trim();
    Certificate::from_pem(&String::from_utf8(decode_base64(value)).unwrap()).unwrap()
}

fn decode_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = vec![];
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let value = ALPHABET.iter().position(|known| *known == byte).unwrap();
        bits = bits << 6 | u32::try_from(value).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    out
}

fn hours(certificate: &Certificate) -> i64 {
    (certificate.not_after.seconds() - certificate.not_before.seconds()) / 3600
}

#[test]
fn a_kubeconfig_names_the_vip_and_an_admin() {
    let cluster = Cluster::with_secrets();
    let run = cluster.run("kubeconfig --ttl 12h");
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    assert!(run.stderr.starts_with("wrote kubeconfig: context `admin@dev`"), "{}", run.stderr);
    let text = cluster.folder.read("kubeconfig");
    assert_eq!(cluster.mode("kubeconfig"), 0o600);
    assert!(text.contains("      server: https://10.0.0.20:6443\n"), "{text}");
    let leaf = certificate(&text, "client-certificate-data:");
    assert_eq!(leaf.subject.to_string(), "O=system:masters, CN=admin");
    assert_eq!(leaf.issuer.to_string(), "O=kubernetes");
    assert_eq!(hours(&leaf), 12);
    assert_eq!(kubeconfig::expiry(&text).unwrap()[0].not_after, Some(leaf.not_after));

    let run = cluster.run("kubeconfig");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("kubeconfig exists already"), "{}", run.stderr);
    assert_eq!(cluster.folder.read("kubeconfig"), text);
    assert_eq!(cluster.run("kubeconfig --force").code, 0);
    assert_ne!(cluster.folder.read("kubeconfig"), text);
}

#[test]
fn a_talosconfig_has_its_roles_and_nodes() {
    let cluster = Cluster::with_secrets();
    let run = cluster.run("talosconfig dev -o - --role os:reader --role etcd:backup --ttl 2d");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let start = "context: dev\ncontexts:\n    dev:\n        endpoints:\n            - 10.0.0.11\n        nodes:\n            - 10.0.0.11\n            - 10.0.0.21\n        ca: ";
    assert!(run.stdout.starts_with(start), "{}", run.stdout);
    let leaf = certificate(&run.stdout, "crt:");
    assert_eq!(leaf.subject.to_string(), "O=os:reader, O=os:etcd:backup");
    assert_eq!(hours(&leaf), 48);
    // The validity starts earlier than now, because the clock of a node may be behind.
    let start = leaf.not_after.seconds() - 48 * 3600;
    assert!(leaf.not_before < UnixTime::from_seconds(start));
    assert!(!cluster.folder.path().join("talosconfig").exists());

    let default = cluster.run("talosconfig -o -");
    assert_eq!(certificate(&default.stdout, "crt:").subject.to_string(), "O=os:admin");
    assert_eq!(hours(&certificate(&default.stdout, "crt:")), 8760);
}

#[test]
fn files_are_merged_into_the_users_own() {
    let mut cluster = Cluster::with_secrets();
    let run = cluster.run("kubeconfig --merge");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let reported = "context `admin@dev` (now the current context), valid until";
    assert!(run.stderr.contains(reported), "{}", run.stderr);
    assert_eq!(cluster.run("talosconfig --merge").code, 0);
    for path in ["home/.kube/config", "home/.talos/config"] {
        assert_eq!(cluster.mode(path), 0o600);
    }
    // If `KUBECONFIG` has several paths, the first existing file is used.
    let existing = "apiVersion: v1\nkind: Config\nclusters:\n  - name: other\n    cluster: {server: https://x}\n";
    cluster.folder.write("b", existing);
    cluster.set("KUBECONFIG", "a:b:c");
    let run = cluster.run("kubeconfig --merge --format json");
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&json["written"], &json["context"]), (&"b".into(), &"admin@dev".into()));
    assert!(cluster.folder.read("b").contains("name: other"));
    assert!(cluster.folder.read("b").contains("current-context: admin@dev"));

    cluster.set("TALOSCONFIG", "t");
    assert_eq!(cluster.run("talosconfig --merge").code, 0);
    assert_eq!(cluster.run("talosconfig --merge").code, 0);
    assert_eq!(talosconfig::expiry(&cluster.folder.read("t")).unwrap().len(), 1);

    cluster.folder.write("broken", "- x\n");
    let run = cluster.run("talosconfig --merge -o broken");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("cannot merge into broken"), "{}", run.stderr);
    assert_eq!(cluster.folder.read("broken"), "- x\n");
}

#[test]
fn wrong_usage_is_64() {
    let cluster = Cluster::with_secrets();
    for args in [
        "talosconfig --role root",
        "kubeconfig --ttl 12",
        "kubeconfig --merge -o -",
        "kubeconfig --merge --force",
        "kubeconfig prod",
    ] {
        assert_eq!(cluster.run(args).code, 64, "{args}");
    }
    let none = Cluster::new().run("kubeconfig");
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("talmox secrets init"), "{}", none.stderr);
}

#[test]
fn ubuntu_has_other_authorities() {
    let cluster = Cluster::with_secrets();
    let text = cluster.folder.read("inventory/dev/cluster.yaml");
    let ubuntu = text.replace(
        "talos_version: v1.11.2",
        "machine: {os: ubuntu, image: {url: https://x/noble.img}}",
    );
    cluster.folder.write("inventory/dev/cluster.yaml", &ubuntu);
    for command in ["kubeconfig", "talosconfig"] {
        let run = cluster.run(command);
        assert_eq!(run.code, 1, "{command}");
        assert!(run.stderr.contains("`dev` has no Talos nodes"), "{}", run.stderr);
    }
}

#[test]
fn a_path_that_is_not_a_regular_file_is_not_changed() {
    let cluster = Cluster::with_secrets();
    fs::create_dir(cluster.folder.path().join("folder")).unwrap();
    for path in ["/dev/null", "folder"] {
        let run = cluster.run(&format!("kubeconfig --force -o {path}"));
        assert_eq!(run.code, 1, "{path}");
        assert!(run.stderr.contains("not a regular file"), "{}", run.stderr);
    }
}

#[test]
fn client_files_for_a_lab_use_its_addresses() {
    let cluster = Cluster::of_one_node();
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let up = cluster.run(&format!("up --yes {IN_FILE}"));
    assert_eq!(up.code, 0, "{}", up.stderr);
    for kind in ["kubeconfig", "talosconfig"] {
        let run = cluster.run(&format!("{kind} --output - {IN_FILE}"));
        assert_eq!(run.code, 0, "{}", run.stderr);
        // The client files contain the addresses of the reach map, because the addresses of the inventory are
        // unreachable.
        let places = |text: &str| -> Vec<String> {
            let is_place = |line: &&str| line.contains("127.") || line.contains("tls-server-name");
            text.lines().filter(is_place).map(str::to_owned).collect()
        };
        let written = cluster.folder.read(&format!("inventory/dev/{kind}"));
        assert!(!places(&written).is_empty(), "{kind}");
        assert_eq!(places(&run.stdout), places(&written), "{kind}");
    }
    let kubeconfig = cluster.run(&format!("kubeconfig --output - {IN_FILE}")).stdout;
    assert!(kubeconfig.ends_with("it does not lead to a real cluster.\n"), "it is not marked");
    assert_eq!(cluster.run("kubeconfig --output - --lab-at no-such-file").code, 1);
}

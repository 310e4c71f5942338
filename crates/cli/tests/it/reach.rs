//! What stands between us and a Proxmox is named, with what to do about it.

use std::fs;

use crate::lab::Served;
use crate::support::Cluster;

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
    says(&closed, &["cannot connect to 127.0.0.1:1", "is there a way to its port"]);
    let unknown = cluster("endpoint: https://pve.invalid:8006");
    says(&unknown, &["pve.invalid", "`proxmox.endpoint`"]);
}

#[test]
fn a_certificate_that_is_not_trusted_is_named() {
    let lab = Served::in_file(&cluster("endpoint: https://pve:8006"), "");
    let endpoint = format!("endpoint: {}", lab.pve("url"));
    says(&cluster(&endpoint), &["UnknownIssuer", "pin it with `proxmox: {fingerprint: …}`"]);
    let pinned = format!("{endpoint}, fingerprint: '{}'", vec!["AB"; 32].join(":"));
    says(&cluster(&pinned), &["not the one that `proxmox.fingerprint` pins"]);
}

#[test]
fn a_token_that_nobody_knows_is_named() {
    let lab = Served::in_file(&cluster("endpoint: https://pve:8006"), "");
    let cluster = cluster(&format!("endpoint: {}, ca_file: ca.pem", lab.pve("url")));
    fs::copy(lab.pve("ca"), cluster.folder.path().join("inventory/dev/ca.pem")).unwrap();
    says(&cluster, &["status 401", "Proxmox does not know the token"]);
}

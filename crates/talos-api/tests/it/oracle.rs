//! Tests of the server side of this crate with Talos's own client. They check that the stubs match the stubs of Talos.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use talmox_talos_api::Pin;
use talmox_talos_config::client::{ClientRole, talosconfig};
use talmox_talos_config::random::SystemRandomness;

use crate::fixture::{Cluster, Server, maintenance_tls_config, now};
use crate::node::{Node, services};

const VARIABLE: &str = "TALMOX_ORACLE_CLIENT";

/// Runs Talos's client. Returns its output lines and exit code; `None` if no client is available.
async fn oracle(server: &Server, args: Vec<String>) -> Option<(Vec<String>, Option<i32>)> {
    #[expect(
        clippy::disallowed_methods,
        reason = "external programs are given by environment variables"
    )]
    let (client, ci) = (std::env::var_os(VARIABLE), std::env::var_os("CI"));
    let Some(client) = client else {
        assert_ne!(ci.as_deref(), Some("true".as_ref()), "{VARIABLE} is not set");
        let skipped = format!("SKIPPED: {VARIABLE} is not set, Talos's own client was not run\n");
        std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes()).unwrap();
        return None;
    };
    let mut command = Command::new(client);
    command.args(["--address", &server.at.to_string(), "--node-name", "cp-1"]).args(args);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    Some((lines.lines().map(str::to_owned).collect(), output.status.code()))
}

fn args(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oracle_client_reads_a_configured_node() {
    let cluster = Cluster::new();
    let server =
        Server::start(cluster.tls_config("127.0.0.1"), services(&Arc::new(Node::default()))).await;
    let request = talosconfig::TalosconfigRequest {
        context: "dev",
        endpoints: &[],
        nodes: &[],
        roles: &[ClientRole::Admin],
        ttl: Duration::from_hours(1),
    };
    let text =
        talosconfig::generate(&cluster.0, &request, now(), &mut SystemRandomness::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talosconfig");
    std::fs::write(&path, text.expose()).unwrap();
    let mut asked = args("--timeout 20s --talosconfig");
    asked.push(path.display().to_string());
    asked.extend(args("version services get=machinestatus/machine bootstrap version"));
    let Some((lines, code)) = oracle(&server, asked).await else { return };
    let has = |at: usize, wanted: &[&str]| {
        for part in wanted {
            assert!(lines[at].contains(part), "{part}: {}", lines[at]);
        }
    };
    has(0, &[r#""step":"version","node":"cp-1","ok":true"#, r#""tag":"v1.13.6""#]);
    has(1, &[r#""kubelet":"Running healthy""#, r#""etcd":"Preparing unknown""#]);
    has(2, &[r#""id":"machine""#, r#""stage":"booting""#, r#""reason":"etcd not healthy""#]);
    // The client stops after the first step that fails.
    has(3, &[r#""ok":false"#, r#""code":"FailedPrecondition""#, "time is not in sync yet"]);
    assert_eq!((lines.len(), code), (4, Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oracle_client_applies_in_maintenance_mode() {
    let tls_config = maintenance_tls_config("127.0.0.1");
    let server = Server::start(tls_config, services(&Arc::new(Node::default()))).await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, "machine: {}\n").unwrap();
    let asked = |more: &str| {
        let mut asked = args("--timeout 20s --insecure --config");
        asked.push(config.display().to_string());
        asked.extend(args(more));
        asked
    };
    let Some((lines, code)) = oracle(&server, asked("apply get=machinestatus")).await else {
        return;
    };
    assert_eq!(code, Some(0), "{lines:?}");
    assert!(lines[0].contains(r#""modes":["NO_REBOOT"]"#), "{}", lines[0]);
    // The client shows only the length of texts that may be keys.
    assert!(lines[0].contains(r#""details_bytes":12"#), "{}", lines[0]);
    let other: Pin = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".parse().unwrap();
    let pinned = asked(&format!("--fingerprint {other} apply"));
    let (lines, code) = oracle(&server, pinned).await.unwrap();
    assert_eq!(code, Some(1));
    assert!(lines[0].contains("another fingerprint"), "{}", lines[0]);
}

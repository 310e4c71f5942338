//! Memory that a connected node needs in the client. It is measured in a new process, because connections that reuse freed
//! memory would seem to need no memory.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use talmox_clock::Clock;
use talmox_talos_api::health::{Seen, Subject, look};
use talmox_talos_api::{Client, Credentials, Limits, Reach, Settings, node_address};
use talmox_talos_config::client::{ClientRole, talosconfig};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::time::UnixTime;
use tokio::runtime::Runtime;

use crate::cluster::Cluster;
use crate::lab_process::resident;
use crate::phase::until;

/// Memory growth in KiB of a process that connects to all these nodes and checks each node once.
pub(crate) fn connected(cluster: &Cluster, reach: &BTreeMap<String, String>, count: u8) -> f64 {
    let now = UnixTime::from_seconds(Clock::real().unix().try_into().unwrap());
    let ttl = Duration::from_hours(1);
    let roles = &[ClientRole::Admin];
    let request = talosconfig::TalosconfigRequest {
        context: "bench",
        endpoints: &[],
        nodes: &[],
        roles,
        ttl,
    };
    let known = talosconfig::generate(&cluster.bundle, &request, now, &mut SystemRandomness::new());
    let input = json!({ "talosconfig": known.unwrap().expose(), "reach": reach, "nodes": count })
        .to_string();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("--measure-memory")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Entry point of the process that measures its own memory.
pub(crate) fn measure() {
    let input: Json = serde_json::from_reader(std::io::stdin()).unwrap();
    let text = SecretText::new(input["talosconfig"].as_str().unwrap().to_owned());
    let credentials = Credentials::from_talosconfig(&text, None).unwrap();
    let reach: BTreeMap<String, String> = serde_json::from_value(input["reach"].clone()).unwrap();
    let settings =
        Settings { clock: Clock::real(), reach: Reach::new(reach), limits: Limits::default() };
    let count: u8 = serde_json::from_value(input["nodes"].clone()).unwrap();
    let runtime = Runtime::new().unwrap();
    let before = resident("self").unwrap();
    let subject = |number: u8| {
        let address: IpAddr = [10, 0, 0, number].into();
        let client = Client::new(node_address(address.to_string()), &credentials, &settings);
        let name = format!("node-{number}");
        let client = client.unwrap();
        Subject { name, is_control_plane: false, addresses: vec![address], client }
    };
    let subjects: Vec<Subject> = (1..=count).map(subject).collect();
    runtime.block_on(until("the status of all nodes", || async {
        let views = look(&subjects).await;
        views.iter().all(|view| matches!(view.stage, Seen::Is(_))).then_some(())
    }));
    println!("{}", resident("self").unwrap() - before);
    drop(subjects);
}

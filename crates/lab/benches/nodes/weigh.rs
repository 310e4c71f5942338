//! What a connected node costs its client, weighed in a process of its own: where connections were made and freed before,
//! the next ones take over their memory and seem to cost nothing.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use talmox_clock::Clock;
use talmox_talos_api::health::{Seen, Subject, look};
use talmox_talos_api::{Address, Client, Credentials, Limits, Reach, Settings};
use talmox_talos_config::client::{Role, talosconfig};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::time::UnixTime;
use tokio::runtime::Runtime;

use crate::cluster::Cluster;
use crate::life::until;
use crate::served::resident;

/// How many KiB a process has grown by that is connected to all these nodes and has looked at each.
pub(crate) fn connected(cluster: &Cluster, reach: &BTreeMap<String, String>, count: u8) -> f64 {
    let now = UnixTime::from_seconds(Clock::real().unix().try_into().unwrap());
    let ttl = Duration::from_hours(1);
    let roles = &[Role::Admin];
    let request = talosconfig::Request { context: "bench", endpoints: &[], nodes: &[], roles, ttl };
    let known = talosconfig::generate(&cluster.bundle, &request, now, &mut SystemRandomness::new());
    let input = json!({ "talosconfig": known.unwrap().expose(), "reach": reach, "nodes": count })
        .to_string();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("--weigh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// The other process.
pub(crate) fn weigh() {
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
        let client = Client::new(Address::new(address.to_string()), &credentials, &settings);
        let name = format!("node-{number}");
        let client = client.unwrap();
        Subject { name, is_control_plane: false, addresses: vec![address], client }
    };
    let subjects: Vec<Subject> = (1..=count).map(subject).collect();
    runtime.block_on(until("look at all", || async {
        let views = look(&subjects).await;
        views.iter().all(|view| matches!(view.stage, Seen::Is(_))).then_some(())
    }));
    println!("{}", resident("self").unwrap() - before);
    drop(subjects);
}

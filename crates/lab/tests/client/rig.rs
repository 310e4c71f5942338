//! Test lab with clients.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value as Json;
use talmox_lab::pve::Profile;
use talmox_lab::{Lab, Scenario, Settings};
use talmox_pve::api::qemu::Vm;
use talmox_pve::api::task::{self, TaskState};
use talmox_pve::client::{self, Client, Credentials, Endpoint, Limits, Timeouts, Trust};
use talmox_pve::id::VmId;
use talmox_talos_api::Address;
use tempfile::TempDir;

/// Speed of lab time relative to real time.
pub(crate) const SPEED: f64 = 1000.0;
/// Timeout of tasks in lab time. No task takes this long.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(30);

pub(crate) const RELEASES: [&str; 2] = ["9.2", "8.4"];
pub(crate) const ADMIN: &str = "root@pam!lab=00000000-1111-4222-8333-444444444444";
pub(crate) const WORKER: &str = "root@pam!worker=55555555-6666-4777-8888-999999999999";
pub(crate) const TALMOX: &str = "talmox@pve!ci=aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

pub(crate) struct Rig {
    pub(crate) lab: Lab,
    record: PathBuf,
    _folder: TempDir,
}

/// Settings with the test scenario, for a release.
pub(crate) fn test_scenario(release: &str) -> Settings {
    of(&include_str!("test_scenario.yaml").replace("RELEASE", release))
}

/// Lab settings with this scenario.
pub(crate) fn of(scenario: &str) -> Settings {
    Settings {
        scenario: Scenario::parse("test", scenario).unwrap(),
        speed: SPEED,
        profile: Profile::Fast,
        ..Settings::default()
    }
}

impl Rig {
    pub(crate) fn start(settings: Settings) -> Self {
        let folder = TempDir::new().unwrap();
        let record = folder.path().join("record");
        let lab = Lab::start(Settings { record: Some(record.clone()), ..settings }).unwrap();
        Self { lab, record, _folder: folder }
    }

    pub(crate) fn test_scenario(release: &str) -> Self {
        Self::start(test_scenario(release))
    }

    /// Client whose token has all privileges.
    pub(crate) fn admin(&self) -> Client {
        self.token(ADMIN)
    }

    pub(crate) fn token(&self, token: &str) -> Client {
        self.client(self.settings(Credentials::Token(token.parse().unwrap())))
    }

    /// Settings for a client that connects to the first host.
    pub(crate) fn settings(&self, credentials: Credentials) -> client::Settings {
        client::Settings {
            endpoints: vec![endpoint("pve1", self.lab.address())],
            trust: Trust::Authorities(std::fs::read(self.lab.ready().pve.ca).unwrap()),
            credentials,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            clock: self.lab.clock(),
            seed: 0,
        }
    }

    #[expect(clippy::unused_self, reason = "a client belongs to its lab")]
    pub(crate) fn client(&self, settings: client::Settings) -> Client {
        Client::new(settings).unwrap()
    }

    /// Requests that the lab has recorded.
    pub(crate) fn record(&self) -> Vec<Json> {
        let text = std::fs::read_to_string(&self.record).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn record_text(&self) -> String {
        std::fs::read_to_string(&self.record).unwrap()
    }

    /// Waits until no task runs on these hosts.
    pub(crate) async fn settle(&self, client: &Client, nodes: &[&str]) {
        for node in nodes {
            loop {
                let tasks = client.send(&task::list(&id(node), &task::Filter::default())).await;
                let is_running = |task: &task::TaskEntry| task.state == TaskState::Running;
                if !tasks.unwrap().iter().any(is_running) {
                    break;
                }
                self.lab.clock().sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Endpoint for a host. Its connections go to the address of the lab.
pub(crate) fn endpoint(node: &str, address: SocketAddr) -> Endpoint {
    Endpoint {
        node: Some(id(node)),
        reach: Some(Address::new(address.ip().to_string(), address.port())),
        ..Endpoint::new(node, 8006)
    }
}

/// Parses an id of any type.
pub(crate) fn id<T: FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub(crate) fn vmid(number: u32) -> VmId {
    VmId::new(number).unwrap()
}

/// VM on the second host, which is also the host of the VMs in the test scenario.
pub(crate) fn vm(number: u32) -> Vm {
    Vm::new(&id("pve2"), vmid(number))
}

//! Secrets and configs of a cluster, and clients of its nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_talos_api::client::{Apply, ApplyMode};
use talmox_talos_api::health::Subject;
use talmox_talos_api::{Address, Client, Credentials, Limits, Reach, Settings, node_address};
use talmox_talos_config::client::ClientRole;
use talmox_talos_config::generate::{
    ClusterIdentity, Input, Options, Role as MachineRole, generate,
};
use talmox_talos_config::pki::{KeyKind, PrivateKey};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{Bundle, generate_with};
use talmox_talos_config::time::UnixTime;

use crate::phase::until;

pub(crate) const VERSION: &str = "v1.13.6";

pub(crate) struct Cluster {
    pub(crate) bundle: Bundle,
    credentials: Credentials,
    /// Settings of all Talos clients of the benchmark.
    pub(crate) settings: Settings,
    planes: u8,
}

impl Cluster {
    /// Creates a cluster with this number of control-plane nodes. `reach` maps the addresses of the nodes to loopback
    /// addresses.
    pub(crate) fn new(reach: BTreeMap<String, String>, planes: u8) -> Self {
        let mut randomness = SystemRandomness::new();
        let key = PrivateKey::generate(KeyKind::EcdsaP256, &mut randomness);
        let now = UnixTime::from_seconds(Clock::real().unix().try_into().unwrap());
        let since = now.minus(Duration::from_hours(1));
        let bundle = generate_with(&key, since, &mut randomness).unwrap();
        let ttl = Duration::from_hours(24 * 365);
        let credentials =
            Credentials::issue(&bundle, &[ClientRole::Admin], ttl, now, &mut randomness);
        let settings =
            Settings { clock: Clock::real(), reach: Reach::new(reach), limits: Limits::default() };
        Self { bundle, credentials: credentials.unwrap(), settings, planes }
    }

    pub(crate) fn maintenance(&self, number: u8) -> Client {
        Client::maintenance(address(number), None, &self.settings).unwrap()
    }

    pub(crate) fn client(&self, number: u8) -> Client {
        Client::new(address(number), &self.credentials, &self.settings).unwrap()
    }

    pub(crate) fn config(&self, number: u8) -> SecretText {
        let input = Input {
            contract: VERSION.parse().unwrap(),
            cluster_name: "bench",
            endpoint: "https://10.0.0.1:6443",
            kubernetes_version: "1.34.1",
            identity: &ClusterIdentity::from(&self.bundle),
            options: &Options::default(),
        };
        let is_plane = number <= self.planes;
        let role = if is_plane { MachineRole::ControlPlane } else { MachineRole::Worker };
        let text = generate(&input, role).unwrap().encode();
        let name = format!("auto: off\nhostname: node-{number}");
        SecretText::new(text.replace("auto: stable", &name))
    }

    pub(crate) fn subjects(&self, numbers: &[u8]) -> Vec<Subject> {
        let subject = |&number: &u8| Subject {
            name: format!("node-{number}"),
            is_control_plane: number <= self.planes,
            addresses: vec![[10, 0, 0, number].into()],
            client: self.client(number),
        };
        numbers.iter().map(subject).collect()
    }
}

/// Applies the config to a node in maintenance mode. The answer may be lost because the node closes the port, but the config is
/// applied anyway.
pub(crate) async fn apply(anonymous: &Client, known: &Client, config: &SecretText) {
    let apply = Apply { config, mode: ApplyMode::Auto, dry_run: false };
    until("the node to accept its config", || async {
        let is_applied = anonymous.apply(&apply).await.is_ok() || known.version().await.is_ok();
        is_applied.then_some(())
    })
    .await;
}

fn address(number: u8) -> Address {
    node_address(format!("10.0.0.{number}"))
}

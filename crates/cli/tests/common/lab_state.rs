//! State of a lab, read through the APIs of the lab with admin credentials. No talmox command is used.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::kube::{KubeClient, NodeFacts, endpoints};
use talmox_lab::Ready;
use talmox_pve::api::cluster;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::storage;
use talmox_pve::client as pve;
use talmox_talos_api::client::ResourceKind;
use talmox_talos_api::{Client, Credentials, Reach, Settings, node_address};
use talmox_talos_config::client::ClientRole;
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::time::UnixTime;
use tokio::runtime::Runtime;

/// VM options with random values. These values differ between labs.
const RANDOM_OPTIONS: [&str; 3] = ["digest", "vmgenid", "meta"];

/// Running lab, with the secrets of the cluster in the lab.
pub(crate) struct LabState {
    pub(crate) runtime: Runtime,
    pub(crate) pve: pve::Client,
    credentials: Credentials,
    settings: Settings,
    bundle: Bundle,
}

/// State of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VmState {
    pub(crate) host: String,
    pub(crate) pool: Option<String>,
    pub(crate) is_running: bool,
    /// Config of the VM without the options that have random values.
    pub(crate) config: BTreeMap<String, String>,
}

/// State of a Talos node, as reported by the Talos API of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeState {
    pub(crate) hostname: String,
    pub(crate) version: String,
    pub(crate) stage: String,
    /// Machine config of the node, with secrets.
    pub(crate) config: String,
    /// Addresses such as `10.0.0.11/16`, without loopback and link-local addresses.
    pub(crate) addresses: BTreeSet<String>,
    /// Names and versions of the extensions, including the schematic.
    pub(crate) extensions: BTreeMap<String, String>,
    /// Etcd members by ID, as this node reports them. Empty for workers.
    pub(crate) etcd: BTreeMap<u64, String>,
}

impl LabState {
    pub(crate) fn new(ready: &Ready, bundle: Bundle) -> Self {
        let runtime = Runtime::new().unwrap();
        let clock = Clock::scaled(ready.speed);
        let (_, address) = ready.pve.url.split_once("://").unwrap();
        let (host, port) = address.rsplit_once(':').unwrap();
        let token = format!("{}={}", ready.pve.token_id, ready.pve.token_secret);
        let client = pve::Client::new(pve::Settings {
            endpoints: vec![pve::Endpoint::new(host, port.parse().unwrap())],
            trust: pve::Trust::Authorities(std::fs::read(&ready.pve.ca).unwrap()),
            credentials: pve::Credentials::Token(token.parse().unwrap()),
            limits: pve::Limits::default(),
            timeouts: pve::Timeouts::default(),
            clock,
            seed: 0,
        });
        let now = UnixTime::from_seconds(clock.unix().try_into().unwrap());
        let day = Duration::from_hours(24);
        let randomness = &mut SystemRandomness::new();
        let credentials = Credentials::issue(&bundle, &[ClientRole::Admin], day, now, randomness);
        let mut settings = Settings::new(clock);
        settings.reach = Reach::new(ready.reach.clone());
        let (pve, credentials) = (client.unwrap(), credentials.unwrap());
        Self { runtime, pve, credentials, settings, bundle }
    }

    /// All VMs by vmid.
    pub(crate) fn vms(&self) -> BTreeMap<u32, VmState> {
        self.runtime.block_on(async {
            let mut vms = BTreeMap::new();
            for guest in self.pve.send(&cluster::resources()).await.unwrap().guests {
                let vm = Vm::new(&guest.node, guest.vmid);
                let config = self.pve.send(&qemu::config(&vm)).await.unwrap();
                let kept = config.iter().filter(|(key, _)| !RANDOM_OPTIONS.contains(key));
                let found = VmState {
                    host: guest.node.to_string(),
                    pool: guest.pool.map(|pool| pool.to_string()),
                    is_running: self.pve.send(&qemu::current(&vm)).await.unwrap().running,
                    config: kept.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
                };
                vms.insert(guest.vmid.get(), found);
            }
            vms
        })
    }

    /// Volumes of a storage, with sizes in bytes.
    pub(crate) fn volumes(&self, host: &str, storage: &str) -> BTreeMap<String, u64> {
        let list = storage::content(&host.parse().unwrap(), &storage.parse().unwrap(), None, None);
        let found = self.runtime.block_on(self.pve.send(&list)).unwrap();
        found.into_iter().map(|one| (one.volid.to_string(), one.size.unwrap_or_default())).collect()
    }

    pub(crate) fn node(&self, address: &str, is_control_plane: bool) -> NodeState {
        let address = node_address(address.to_owned());
        let client = Client::new(address, &self.credentials, &self.settings).unwrap();
        self.runtime.block_on(async {
            let config = client.get(ResourceKind::MACHINE_CONFIG, "v1alpha1").await.unwrap();
            let status = client.get(ResourceKind::MACHINE_STATUS, "machine").await.unwrap();
            let addresses = client.list(ResourceKind::ADDRESS_STATUS).await.unwrap();
            let addresses = addresses.iter().map(|one| one.text("address").unwrap());
            let extensions = client.list(ResourceKind::EXTENSION_STATUS).await.unwrap();
            let extensions = extensions.iter().map(|one| {
                let text = |key: &str| one.text(&format!("metadata.{key}")).unwrap_or_default();
                (text("name"), text("version"))
            });
            let members =
                if is_control_plane { client.etcd_members().await.unwrap() } else { vec![] };
            NodeState {
                hostname: client.hostname().await.unwrap(),
                version: client.version().await.unwrap().tag,
                stage: status.unwrap().text("stage").unwrap(),
                config: config.unwrap().config_text().expose().to_owned(),
                addresses: addresses.filter(|one| !is_local_only(one)).collect(),
                extensions: extensions.collect(),
                etcd: members.into_iter().map(|one| (one.id, one.hostname)).collect(),
            }
        })
    }

    /// Nodes that the Kubernetes API at this address reports.
    pub(crate) fn kubernetes(&self, address: &str) -> Vec<NodeFacts> {
        let randomness = &mut SystemRandomness::new();
        let api = endpoints([address]);
        self.runtime.block_on(async {
            let client = KubeClient::new(&self.bundle, &api, &self.settings, randomness).unwrap();
            client.nodes().await.unwrap()
        })
    }
}

/// Whether an address is a loopback or link-local address.
fn is_local_only(address: &str) -> bool {
    ["127.", "::1", "fe80:", "169.254."].iter().any(|start| address.starts_with(start))
}

//! Test bench: nodes without VMs, for the tests of etcd and Kubernetes.

mod disks;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use talmox_clock::{Chance, Clock};
use talmox_lab_environment::{Environment, Profile};
use talmox_lab_kube::KubeStore;
use talmox_talos_config::contract::Contract;
use talmox_talos_config::generate::{ClusterIdentity, Input, Options, Role, generate};
use talmox_talos_config::network::Prefix;
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::schematic::Schematic;
use talmox_talos_config::secrets;
use talmox_talos_config::time::UnixTime;
use tokio::task::JoinSet;

use disks::MemoryDisks;

use super::config::{AppliedConfig, Facts};
use super::disk_data::{DiskKey, Written};
use super::hardware::Hardware;
use super::kubernetes::{run_control_plane, run_kubelet};
use super::link::Link;
use super::loopback_network::LoopbackNetwork;
use super::network::{Layer, Network};
use super::service::{Service, ServiceState};
use super::simulation::{Simulation, SimulationSettings};
use super::talos_state::{Node, Stage, TalosState};
use super::version::Version;
use crate::image::{Medium, Platform, TalosImage};

pub(crate) const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 100));
/// Maximum real time to wait for a condition.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Bench {
    pub(crate) simulation: Arc<Simulation>,
    pub(crate) bundle: secrets::Bundle,
    running: Mutex<HashMap<u32, JoinSet<()>>>,
}

/// New secrets bundle, for nodes of other clusters.
pub(crate) fn new_bundle() -> secrets::Bundle {
    let now = UnixTime::from_seconds(i64::try_from(Clock::real().unix()).unwrap());
    secrets::generate(now, &mut SystemRandomness::new()).unwrap()
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::build(200.0, SimulationSettings::default())
    }

    pub(crate) fn at_speed(speed: f64) -> Self {
        Self::build(speed, SimulationSettings::default())
    }

    pub(crate) fn with(settings: SimulationSettings) -> Self {
        Self::build(200.0, settings)
    }

    fn build(speed: f64, settings: SimulationSettings) -> Self {
        let environment = Environment::new(Clock::scaled(speed), Chance::new(7), Profile::Fast);
        let chance = environment.chance("wire").of("process", std::process::id().into());
        let loopback_network = LoopbackNetwork::new(chance, false);
        let simulation = Simulation::new(
            Arc::new(environment),
            Arc::new(MemoryDisks::default()),
            loopback_network,
            settings,
        );
        Self { simulation, bundle: new_bundle(), running: Mutex::default() }
    }

    /// Config like that of `talosctl gen config`, with changes of the test.
    pub(crate) fn config(
        &self,
        bundle: &secrets::Bundle,
        role: Role,
        change: impl FnOnce(&mut Facts),
    ) -> Arc<AppliedConfig> {
        let input = Input {
            contract: Contract::new(1, 11),
            cluster_name: "bench",
            endpoint: &format!("https://{VIP}:6443"),
            kubernetes_version: "1.34.1",
            identity: &ClusterIdentity::from(bundle),
            options: &Options::default(),
        };
        let config = generate(&input, role).unwrap();
        let mut applied = AppliedConfig::new(config.encode(), config);
        change(&mut applied.facts);
        Arc::new(applied)
    }

    /// Starts a node that has already booted, up to its container runtime. Returns the number of the boot.
    pub(crate) fn start(&self, vmid: u32, config: Arc<AppliedConfig>) -> u64 {
        let number = u8::try_from(vmid % 256).unwrap();
        let address = Prefix::new(Ipv4Addr::new(10, 0, 0, number).into(), 24).unwrap();
        let disk = self.disk(vmid);
        let etcd = self
            .simulation
            .hypervisor
            .written(&disk)
            .ephemeral
            .and_then(|ephemeral| ephemeral.etcd);
        let link = Link {
            name: "eth0".to_owned(),
            mac: format!("02:00:00:00:00:{number:02x}"),
            mtu: 1500,
            is_up: true,
            addresses: vec![(address, Layer::Configuration)],
            ..Link::default()
        };
        let network = Network {
            hostname: format!("node-{vmid}"),
            links: vec![link],
            gateways: vec![Ipv4Addr::new(10, 0, 0, 1).into()],
            ..Network::default()
        };
        let is_control_plane = config.facts.is_control_plane;
        let boot = self.simulation.change(|talos| {
            talos.boots += 1;
            let boot = talos.boots;
            let node = node(vmid, boot, config, network, disk, etcd);
            talos.nodes.insert(vmid, node);
            boot
        });
        self.simulation.enter(vmid, boot, "cri", ServiceState::Running, "Started");
        self.simulation.set_health(vmid, boot, "cri", true, "");
        let mut running = JoinSet::new();
        if is_control_plane {
            running.spawn(run_control_plane(Arc::clone(&self.simulation), vmid, boot));
        }
        running.spawn(run_kubelet(Arc::clone(&self.simulation), vmid, boot));
        self.running.lock().unwrap().insert(vmid, running);
        boot
    }

    pub(crate) fn start_control_plane(&self, vmid: u32) -> u64 {
        self.start(vmid, self.config(&self.bundle, Role::ControlPlane, |_| {}))
    }

    pub(crate) fn start_worker(&self, vmid: u32) -> u64 {
        self.start(vmid, self.config(&self.bundle, Role::Worker, |_| {}))
    }

    /// Powers a node off without a shutdown.
    pub(crate) fn kill(&self, vmid: u32) {
        self.running.lock().unwrap().remove(&vmid);
        self.simulation.change(|talos| talos.nodes.remove(&vmid));
    }

    /// Erases the disk of a node.
    pub(crate) fn wipe(&self, vmid: u32) {
        self.simulation
            .hypervisor
            .write_disk(&self.disk(vmid), |written| *written = Written::default());
    }

    fn disk(&self, vmid: u32) -> DiskKey {
        DiskKey {
            host: "pve1".to_owned(),
            volume: format!("lvmthin:vm-{vmid}-disk-0"),
            device: "/dev/sda".to_owned(),
        }
    }

    /// Waits until `look` returns a value.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        mut look: impl FnMut(&TalosState) -> Option<T>,
    ) -> T {
        let deadline = Clock::real().deadline(TIMEOUT);
        loop {
            if let Some(found) = self.simulation.look(&mut look) {
                return found;
            }
            if deadline.has_passed() {
                let talos = self.simulation.look(|talos| format!("{:#?}", talos.etcds));
                let services = self.simulation.look(|talos| {
                    let nodes = talos.nodes.values();
                    nodes.map(|node| format!("{:?}\n", node.services)).collect::<String>()
                });
                panic!("timed out waiting for {what}\n{talos}\n{services}");
            }
            Clock::real().sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until a service is healthy.
    pub(crate) async fn until_healthy(&self, vmid: u32, service: &str) {
        let what = format!("{service} of {vmid} to be healthy");
        self.until(&what, |talos| {
            talos.nodes.get(&vmid)?.services.get(service).filter(|s| s.is_healthy()).map(drop)
        })
        .await;
    }

    /// Last message of a service.
    pub(crate) fn last_message(&self, vmid: u32, service: &str) -> String {
        self.simulation.look(|talos| {
            let service = talos.nodes.get(&vmid).and_then(|node| node.services.get(service));
            let last = service.and_then(|service| service.events.back());
            last.map(|last| last.message.clone()).unwrap_or_default()
        })
    }

    pub(crate) fn store_of(&self, vmid: u32) -> Arc<KubeStore> {
        self.simulation.look(|talos| {
            let membership = talos.nodes[&vmid].etcd.unwrap();
            Arc::clone(&talos.etcds[&membership.cluster].store)
        })
    }

    /// Waits for a Kubernetes object.
    pub(crate) async fn until_object(
        &self,
        store: &KubeStore,
        (id, namespace, name): (&str, &str, &str),
        is_wanted: impl Fn(&serde_json::Value) -> bool,
    ) -> Arc<serde_json::Value> {
        let deadline = Clock::real().deadline(TIMEOUT);
        loop {
            let found = store.get(id, namespace, name);
            if let Some(found) = found.as_ref().filter(|found| is_wanted(found)) {
                return Arc::clone(found);
            }
            assert!(!deadline.has_passed(), "{id} {namespace}/{name} is {found:#?}");
            Clock::real().sleep(Duration::from_millis(10)).await;
        }
    }
}

fn node(
    vmid: u32,
    boot: u64,
    config: Arc<AppliedConfig>,
    network: Network,
    disk: DiskKey,
    etcd: Option<super::talos_state::Membership>,
) -> Node {
    let image = TalosImage {
        version: "v1.11.3".to_owned(),
        platform: Platform::Nocloud,
        schematic_id: String::new(),
        schematic: Schematic::default(),
        secureboot: false,
        medium: Medium::Disk,
        meta: BTreeMap::default(),
    };
    let hardware = Hardware {
        name: format!("node-{vmid}"),
        uuid: format!("00000000-0000-4000-8000-{vmid:012}"),
        cpus: 4,
        memory: 8 << 30,
        ..Hardware::default()
    };
    let version = Version::parse(&image.version).unwrap();
    Node {
        system_disk: Some(disk),
        stage: Stage::Running,
        config: Some(config),
        network,
        is_time_in_sync: true,
        services: [("cri".to_owned(), Service::new("cri"))].into(),
        etcd,
        ..Node::new(vmid, boot, hardware, image, version, Clock::real())
    }
}

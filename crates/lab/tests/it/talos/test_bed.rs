//! Test lab with machines that boot Talos, and the secrets of a cluster.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_lab::pve::{Fault, Profile};
use talmox_lab::{FaultScript as _, NodeSettings, Settings as LabSettings};
use talmox_talos_api::client::{Apply, ApplyMode};
use talmox_talos_api::{
    Address, Client, Credentials, Limits, Look, Reach, Settings, TalosError, Verdict, node_address,
    probe, wait,
};
use talmox_talos_config::Release;
use talmox_talos_config::client::{ClientRole, talosconfig};
use talmox_talos_config::contract::Contract;
use talmox_talos_config::generate::{
    ClusterIdentity, Input, Options, Role as MachineRole, generate,
};
use talmox_talos_config::patch::{self, Patch};
use talmox_talos_config::pki::{KeyKind, PrivateKey};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{Bundle, generate_with};
use talmox_talos_config::time::UnixTime;

use super::raw_client::Raw;
use crate::support::{TestLab, scenario};

/// Speed of lab time relative to real time.
const SPEED: f64 = 50.0;
/// Speed of lab time for tests that need days of lab time.
const DAYS_SPEED: f64 = 20_000.0;
const YEAR: Duration = Duration::from_hours(24 * 365);
/// Timeout in real time. It is sufficient on slow machines.
const TIMEOUT: Duration = Duration::from_secs(90);
pub(crate) const SCHEMATIC: &str = "customization:\n    systemExtensions:\n        officialExtensions:\n            - siderolabs/qemu-guest-agent\n";
pub(crate) const SCHEMATIC_ID: &str =
    "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";

pub(crate) struct TestBed {
    pub(crate) lab: TestLab,
    bundle: Bundle,
    version: String,
    schematic: String,
    limits: Limits,
}

impl TestBed {
    /// Lab whose storage has an image of this release.
    pub(crate) fn new(version: &str) -> Self {
        Self::with(version, SCHEMATIC, NodeSettings::default())
    }

    /// Lab with an image of this schematic, and other node settings.
    pub(crate) fn with(version: &str, schematic: &str, nodes: NodeSettings) -> Self {
        Self::made(version, schematic, nodes, SPEED, "{}")
    }

    /// Lab with the hosts of this scenario.
    pub(crate) fn on(hosts: &str, version: &str, schematic: &str) -> Self {
        Self::made(version, schematic, NodeSettings::default(), SPEED, hosts)
    }

    /// Lab in which a day of lab time takes a few seconds.
    pub(crate) fn with_fast_days(version: &str) -> Self {
        let bed = Self::made(version, SCHEMATIC, NodeSettings::default(), DAYS_SPEED, "{}");
        // At this speed, hours of lab time pass before an answer arrives.
        Self { limits: Limits { answer: YEAR, ..Limits::default() }, ..bed }
    }

    /// Lab at another speed.
    pub(crate) fn at_speed(version: &str, speed: f64) -> Self {
        Self::made(version, SCHEMATIC, NodeSettings::default(), speed, "{}")
    }

    /// Lab with another profile and speed.
    pub(crate) fn with_profile(version: &str, profile: Profile, speed: f64) -> Self {
        let settings = LabSettings { speed, profile, ..scenario("{}") };
        let bed = Self::of(version, SCHEMATIC, TestLab::start(settings));
        // The machines need real time to answer, which is a long lab time at a high speed.
        Self { limits: Limits { answer: YEAR, ..Limits::default() }, ..bed }
    }

    fn made(version: &str, schematic: &str, nodes: NodeSettings, speed: f64, hosts: &str) -> Self {
        let settings = LabSettings { speed, profile: Profile::Fast, nodes, ..scenario(hosts) };
        Self::of(version, schematic, TestLab::start(settings))
    }

    fn of(version: &str, schematic: &str, lab: TestLab) -> Self {
        let posted = crate::factory::post(&lab, schematic);
        assert_eq!(posted.status, 201);
        let id = posted.json()["id"].as_str().unwrap().to_owned();
        let (bundle, version) = (new_bundle(), version.to_owned());
        let limits = Limits::default();
        let bed = Self { lab, bundle, version, schematic: id, limits };
        bed.download("import", "talos.qcow2", &bed.image_url("nocloud-amd64.qcow2"));
        bed
    }

    /// URL of a file in the Image Factory, for the version and schematic of the test bed.
    pub(crate) fn image_url(&self, file: &str) -> String {
        let Self { schematic, version, .. } = self;
        format!("https://factory.talos.dev/image/{schematic}/{version}/{file}")
    }

    /// Makes Proxmox download a file to a storage.
    pub(crate) fn download(&self, content: &str, name: &str, url: &str) {
        let order = format!("content={content}&filename={name}&url={url}");
        run(&self.lab, "/nodes/pve/storage/local/download-url", &order);
    }

    /// Creates and starts a machine with the address 10.0.0.`number`.
    pub(crate) fn start(&self, number: u8) {
        self.start_with(number, &[]);
    }

    /// Creates and starts a machine without a gateway, so that its clock is not synchronized.
    pub(crate) fn start_alone(&self, number: u8) {
        self.start_with(number, &[("ipconfig0", &format!("ip=10.0.0.{number}/24"))]);
    }

    /// Creates and starts a machine with other VM options.
    pub(crate) fn start_with(&self, number: u8, changes: &[(&str, &str)]) {
        let vmid = vmid(number);
        let options = [
            ("vmid", vmid.to_string()),
            ("name", format!("node-{number}")),
            ("memory", "4096".to_owned()),
            ("cores", "2".to_owned()),
            ("scsihw", "virtio-scsi-pci".to_owned()),
            ("scsi0", "local-lvm:0,import-from=local:import/talos.qcow2".to_owned()),
            ("ide2", "local-lvm:cloudinit".to_owned()),
            ("ipconfig0", format!("ip=10.0.0.{number}/24,gw=10.0.0.1")),
            ("net0", format!("virtio=BC:24:11:00:00:{number:02X},bridge=vmbr0")),
            ("boot", "order=scsi0".to_owned()),
            ("smbios1", format!("uuid=01234567-89ab-4def-8123-4567890000{number:02x}")),
            ("agent", "1".to_owned()),
        ];
        let mut options: BTreeMap<&str, String> = options.into();
        options.extend(changes.iter().map(|(key, value)| (*key, (*value).to_owned())));
        let form: Vec<String> = options
            .iter()
            .map(|(key, value)| {
                format!("{key}={}", value.replace('=', "%3D").replace(';', "%3B").replace(' ', "+"))
            })
            .collect();
        run(&self.lab, "/nodes/pve/qemu", &form.join("&"));
        if options["scsi0"].contains("import-from") {
            let grow = format!("/nodes/pve/qemu/{vmid}/resize");
            let form = "Content-Type: application/x-www-form-urlencoded\r\n";
            let answer = self.lab.request("PUT", &grow, form, "disk=scsi0&size=20G");
            assert_eq!(crate::upload::outcome(&self.lab, &answer), "OK");
        }
        self.power(number, "start");
    }

    /// Makes a Proxmox call, whose task must succeed.
    pub(crate) fn run(&self, path: &str, form: &str) {
        run(&self.lab, path, form);
    }

    /// Runs a power action: `start`, `stop` or `reset`.
    pub(crate) fn power(&self, number: u8, order: &str) {
        run(&self.lab, &format!("/nodes/pve/qemu/{}/status/{order}", vmid(number)), "");
    }

    /// Changes options of a node's VM.
    pub(crate) fn set(&self, number: u8, form: &str) {
        let path = format!("/nodes/pve/qemu/{}/config", vmid(number));
        let header = "Content-Type: application/x-www-form-urlencoded\r\n";
        let answer = self.lab.request("PUT", &path, header, form);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Stops a node's VM.
    pub(crate) fn stop(&self, number: u8) {
        self.power(number, "stop");
    }

    pub(crate) fn is_running(&self, number: u8) -> bool {
        let path = format!("/nodes/pve/qemu/{}/status/current", vmid(number));
        self.lab.get(&path).json()["data"]["status"] == "running"
    }

    /// Adds a fault rule. `entry` has the form of an entry in a fault file.
    pub(crate) fn fault(&self, entry: &str) {
        let faults = Fault::parse("faults.yaml", &format!("faults:\n  - {entry}\n")).unwrap();
        for fault in faults {
            self.lab.lab().faults().add(fault);
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            clock: self.lab.lab().clock(),
            reach: Reach::new(self.lab.lab().ready().reach),
            limits: self.limits,
        }
    }

    pub(crate) fn maintenance(&self, number: u8) -> Client {
        Client::maintenance(address(number), None, &self.settings()).unwrap()
    }

    pub(crate) fn client(&self, number: u8) -> Client {
        self.client_as(number, &[ClientRole::Admin])
    }

    pub(crate) fn client_as(&self, number: u8, roles: &[ClientRole]) -> Client {
        let credentials = self.credentials(roles, now(), YEAR);
        Client::new(address(number), &credentials, &self.settings()).unwrap()
    }

    fn credentials(&self, roles: &[ClientRole], from: UnixTime, ttl: Duration) -> Credentials {
        Credentials::issue(&self.bundle, roles, ttl, from, &mut SystemRandomness::new()).unwrap()
    }

    /// Result of the probe with administrator credentials.
    pub(crate) async fn probe(&self, number: u8) -> Verdict {
        self.probe_as(number, &self.credentials(&[ClientRole::Admin], now(), YEAR)).await
    }

    /// Result of the probe with a client certificate that expired days ago.
    pub(crate) async fn probe_late(&self, number: u8) -> Verdict {
        let (day, week) = (Duration::from_hours(24), Duration::from_hours(24 * 7));
        self.probe_as(number, &self.credentials(&[ClientRole::Admin], now().minus(week), day)).await
    }

    /// Credentials that are valid for one day.
    pub(crate) fn brief_credentials(&self) -> Credentials {
        self.credentials(&[ClientRole::Admin], now(), Duration::from_hours(24))
    }

    /// Result of the probe with credentials of another cluster.
    pub(crate) async fn probe_from(&self, other: &Bundle, number: u8) -> Verdict {
        let (from, mut randomness) = (now(), SystemRandomness::new());
        let admin = Credentials::issue(other, &[ClientRole::Admin], YEAR, from, &mut randomness);
        self.probe_as(number, &admin.unwrap()).await
    }

    pub(crate) async fn probe_as(&self, number: u8, credentials: &Credentials) -> Verdict {
        // The timeout is short, so that servers that send nothing do not delay the tests.
        let limits = Limits { connect: Duration::from_secs(2), ..self.limits };
        let settings = Settings { limits, ..self.settings() };
        probe(&address(number), credentials, None, &settings).await.unwrap()
    }

    /// talosconfig of an administrator.
    pub(crate) fn talosconfig(&self) -> SecretText {
        let request = talosconfig::TalosconfigRequest {
            context: "home",
            endpoints: &[],
            nodes: &[],
            roles: &[ClientRole::Admin],
            ttl: YEAR,
        };
        let mut randomness = SystemRandomness::new();
        talosconfig::generate(&self.bundle, &request, now(), &mut randomness).unwrap()
    }

    /// Loopback address of a node, for clients that do not use the reach map.
    pub(crate) fn loopback(&self, number: u8) -> String {
        self.lab.lab().ready().reach[&format!("10.0.0.{number}")].clone()
    }

    /// Real address of the Talos API of a node.
    pub(crate) fn socket(&self, number: u8) -> SocketAddr {
        let target = self.loopback(number);
        let at = if target.contains(':') { target } else { format!("{target}:50000") };
        at.parse().unwrap()
    }

    /// Raw gRPC connection to a node.
    pub(crate) async fn raw(&self, number: u8) -> Raw {
        let name = format!("10.0.0.{number}");
        Raw::connect(&self.bundle, now(), &name, self.socket(number)).await
    }

    /// Config of a node. The first node is the Kubernetes endpoint.
    pub(crate) fn config(&self, number: u8, is_control_plane: bool) -> SecretText {
        let options = Options::default();
        let identity = ClusterIdentity::from(&self.bundle);
        let contract = self.version.parse::<Contract>().unwrap().for_nodes();
        let input = Input {
            contract,
            cluster_name: "home",
            endpoint: "https://10.0.0.11:6443",
            // Each Talos release supports a range of Kubernetes versions.
            kubernetes_version: match self.version.split('.').nth(1).unwrap().parse::<u8>().unwrap()
            {
                ..=8 => "1.31.4",
                9 => "1.32.4",
                10 => "1.33.6",
                _ => "1.34.1",
            },
            identity: &identity,
            options: &options,
        };
        let role = if is_control_plane { MachineRole::ControlPlane } else { MachineRole::Worker };
        let text = generate(&input, role).unwrap().encode();
        let name = format!("hostname: node-{number}");
        let text = text.replace("auto: stable", &format!("auto: off\n{name}"));
        SecretText::new(text)
    }

    /// Config of a node with a patch.
    pub(crate) fn patched(&self, number: u8, is_control_plane: bool, text: &str) -> SecretText {
        let release = Release::of(&self.version).unwrap();
        let patch = Patch::parse(text, release).unwrap();
        let config = self.config(number, is_control_plane);
        SecretText::new(patch::apply(config.expose(), &[patch], release).unwrap())
    }

    /// Applies a config to a node in maintenance mode. Does not wait for the effect of the config.
    pub(crate) async fn apply(&self, number: u8, text: &SecretText) {
        let anonymous = self.maintenance(number);
        let apply = Apply { config: text, mode: ApplyMode::Auto, dry_run: false };
        until("maintenance mode", || async {
            // The answer may be lost, because the node closes the port.
            let applied = anonymous.apply(&apply).await;
            matches!(applied, Ok(_) | Err(TalosError::Lost { .. })).then_some(())
        })
        .await;
    }

    /// Applies a config to a node in maintenance mode, and waits until it answers as a configured node.
    pub(crate) async fn configure(&self, number: u8, is_control_plane: bool) -> Client {
        self.configure_with(number, &self.config(number, is_control_plane)).await
    }

    pub(crate) async fn configure_with(&self, number: u8, text: &SecretText) -> Client {
        let anonymous = self.maintenance(number);
        let apply = Apply { config: text, mode: ApplyMode::Auto, dry_run: false };
        let client = self.client(number);
        // The answer may be lost because the node closes the port, but the config is applied anyway.
        until("maintenance mode", || async {
            let is_applied = anonymous.apply(&apply).await.is_ok();
            (is_applied || client.version().await.is_ok()).then_some(())
        })
        .await;
        until("the node to be configured", || async { client.version().await.ok() }).await;
        client
    }

    /// Configures this control-plane node, and bootstraps a cluster on it.
    pub(crate) async fn bootstrap(&self, number: u8) -> Client {
        let client = self.configure(number, true).await;
        until("bootstrap", || async { client.bootstrap().await.ok() }).await;
        self.ready(&client).await;
        client
    }

    pub(crate) async fn ready(&self, client: &Client) {
        until("the node to be ready", || async {
            let looked = wait::machine_ready(client).await.ok()?;
            matches!(looked, Look::Done(())).then_some(())
        })
        .await;
    }
}

/// Generates the secrets of a cluster.
pub(crate) fn new_bundle() -> Bundle {
    let mut randomness = SystemRandomness::new();
    let key = PrivateKey::generate(KeyKind::EcdsaP256, &mut randomness);
    generate_with(&key, now().minus(Duration::from_hours(24 * 30)), &mut randomness).unwrap()
}

fn vmid(number: u8) -> u32 {
    100 + u32::from(number)
}

fn run(lab: &TestLab, path: &str, form: &str) {
    let header = "Content-Type: application/x-www-form-urlencoded\r\n";
    let answer = lab.request("POST", path, header, form);
    assert_eq!(crate::upload::outcome(lab, &answer), "OK", "{path}");
}

fn address(number: u8) -> Address {
    node_address(format!("10.0.0.{number}"))
}

fn now() -> UnixTime {
    UnixTime::from_seconds(Clock::real().unix().try_into().unwrap())
}

/// Polls until `look` returns a value.
pub(crate) async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let clock = Clock::real();
    let deadline = clock.deadline(TIMEOUT);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(!deadline.has_passed(), "timed out waiting for {what}");
        clock.sleep(Duration::from_millis(50)).await;
    }
}

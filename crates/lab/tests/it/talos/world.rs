//! A lab with machines that boot Talos, and the secrets of a cluster for them.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_lab::pve::{Fault, Profile};
use talmox_lab::{FaultScript as _, NodeSettings, Settings as LabSettings};
use talmox_talos_api::client::{Apply, ApplyMode};
use talmox_talos_api::{
    Address, Client, Credentials, Limits, Look, Reach, Settings, TalosError, Verdict, probe, wait,
};
use talmox_talos_config::Release;
use talmox_talos_config::client::{Role, talosconfig};
use talmox_talos_config::contract::Contract;
use talmox_talos_config::generate::{Identity, Input, Options, Role as MachineRole, generate};
use talmox_talos_config::patch::{self, Patch};
use talmox_talos_config::pki::{KeyKind, PrivateKey};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{Bundle, generate_with};
use talmox_talos_config::time::UnixTime;

use super::raw::Raw;
use crate::support::{TestLab, scenario};

/// How much faster than ours the lab's time passes.
const SPEED: f64 = 50.0;
/// The same where days are to pass.
const HURRY: f64 = 20_000.0;
const YEAR: Duration = Duration::from_hours(24 * 365);
/// However slow this machine is, in real time.
const PATIENCE: Duration = Duration::from_secs(90);
pub(crate) const SCHEMATIC: &str = "customization:\n    systemExtensions:\n        officialExtensions:\n            - siderolabs/qemu-guest-agent\n";
pub(crate) const SCHEMATIC_ID: &str =
    "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";

pub(crate) struct World {
    pub(crate) lab: TestLab,
    bundle: Bundle,
    version: String,
    schematic: String,
    limits: Limits,
}

impl World {
    /// A lab whose storage has an image of this release.
    pub(crate) fn new(version: &str) -> Self {
        Self::with(version, SCHEMATIC, NodeSettings::default())
    }

    /// The same, with an image of this schematic, and other things around the nodes.
    pub(crate) fn with(version: &str, schematic: &str, nodes: NodeSettings) -> Self {
        Self::made(version, schematic, nodes, SPEED, "{}")
    }

    /// The same, on hosts of a scenario.
    pub(crate) fn on(hosts: &str, version: &str, schematic: &str) -> Self {
        Self::made(version, schematic, NodeSettings::default(), SPEED, hosts)
    }

    /// One where a day is over in a few seconds.
    pub(crate) fn in_a_hurry(version: &str) -> Self {
        let world = Self::made(version, SCHEMATIC, NodeSettings::default(), HURRY, "{}");
        // By the lab's clock, hours pass while anybody answers.
        Self { limits: Limits { answer: YEAR, ..Limits::default() }, ..world }
    }

    /// One whose time does not pass as fast as in other tests.
    pub(crate) fn at_speed(version: &str, speed: f64) -> Self {
        Self::made(version, SCHEMATIC, NodeSettings::default(), speed, "{}")
    }

    /// One whose machines are not as fast as those of other tests.
    pub(crate) fn with_profile(version: &str, profile: Profile, speed: f64) -> Self {
        let settings = LabSettings { speed, profile, ..scenario("{}") };
        let world = Self::of(version, SCHEMATIC, TestLab::start(settings));
        // However fast the lab's time passes, its machines answer in ours.
        Self { limits: Limits { answer: YEAR, ..Limits::default() }, ..world }
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
        let world = Self { lab, bundle, version, schematic: id, limits };
        world.download("import", "talos.qcow2", &world.image_url("nocloud-amd64.qcow2"));
        world
    }

    /// Where the factory has an image of this release.
    pub(crate) fn image_url(&self, file: &str) -> String {
        let Self { schematic, version, .. } = self;
        format!("https://factory.talos.dev/image/{schematic}/{version}/{file}")
    }

    /// Lets Proxmox get a file.
    pub(crate) fn download(&self, content: &str, name: &str, url: &str) {
        let order = format!("content={content}&filename={name}&url={url}");
        run(&self.lab, "/nodes/pve/storage/local/download-url", &order);
    }

    /// Makes and starts a machine at 10.0.0.`number`.
    pub(crate) fn start(&self, number: u8) {
        self.start_with(number, &[]);
    }

    /// One that knows no way out: its clock stays as it is.
    pub(crate) fn start_alone(&self, number: u8) {
        self.start_with(number, &[("ipconfig0", &format!("ip=10.0.0.{number}/24"))]);
    }

    /// A machine with other options of the VM.
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

    /// A call of Proxmox whose task must end well.
    pub(crate) fn run(&self, path: &str, form: &str) {
        run(&self.lab, path, form);
    }

    /// `start`, `stop` or `reset`.
    pub(crate) fn power(&self, number: u8, order: &str) {
        run(&self.lab, &format!("/nodes/pve/qemu/{}/status/{order}", vmid(number)), "");
    }

    /// Changes options of the VM.
    pub(crate) fn set(&self, number: u8, form: &str) {
        let path = format!("/nodes/pve/qemu/{}/config", vmid(number));
        let header = "Content-Type: application/x-www-form-urlencoded\r\n";
        let answer = self.lab.request("PUT", &path, header, form);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Cuts the power.
    pub(crate) fn stop(&self, number: u8) {
        self.power(number, "stop");
    }

    pub(crate) fn is_running(&self, number: u8) -> bool {
        let path = format!("/nodes/pve/qemu/{}/status/current", vmid(number));
        self.lab.get(&path).json()["data"]["status"] == "running"
    }

    /// Something goes wrong from now on: an entry as a file of faults has it.
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
        self.client_as(number, &[Role::Admin])
    }

    pub(crate) fn client_as(&self, number: u8, roles: &[Role]) -> Client {
        let credentials = self.credentials(roles, now(), YEAR);
        Client::new(address(number), &credentials, &self.settings()).unwrap()
    }

    fn credentials(&self, roles: &[Role], from: UnixTime, ttl: Duration) -> Credentials {
        Credentials::issue(&self.bundle, roles, ttl, from, &mut SystemRandomness::new()).unwrap()
    }

    /// What is at the address of a machine, for an administrator.
    pub(crate) async fn probe(&self, number: u8) -> Verdict {
        self.probe_as(number, &self.credentials(&[Role::Admin], now(), YEAR)).await
    }

    /// The same for somebody whose certificate was good for a day, a week ago.
    pub(crate) async fn probe_late(&self, number: u8) -> Verdict {
        let (day, week) = (Duration::from_hours(24), Duration::from_hours(24 * 7));
        self.probe_as(number, &self.credentials(&[Role::Admin], now().minus(week), day)).await
    }

    /// The same for somebody whose certificate is good for a day from now on.
    pub(crate) fn brief_credentials(&self) -> Credentials {
        self.credentials(&[Role::Admin], now(), Duration::from_hours(24))
    }

    /// The same for an administrator of another cluster.
    pub(crate) async fn probe_from(&self, other: &Bundle, number: u8) -> Verdict {
        let (from, mut randomness) = (now(), SystemRandomness::new());
        let admin = Credentials::issue(other, &[Role::Admin], YEAR, from, &mut randomness);
        self.probe_as(number, &admin.unwrap()).await
    }

    pub(crate) async fn probe_as(&self, number: u8, credentials: &Credentials) -> Verdict {
        // Nobody waits long for those who say nothing.
        let limits = Limits { connect: Duration::from_secs(2), ..self.limits };
        let settings = Settings { limits, ..self.settings() };
        probe(&address(number), credentials, None, &settings).await.unwrap()
    }

    /// Who an administrator is, for talosctl and its like.
    pub(crate) fn talosconfig(&self) -> SecretText {
        let request = talosconfig::Request {
            context: "home",
            endpoints: &[],
            nodes: &[],
            roles: &[Role::Admin],
            ttl: YEAR,
        };
        let mut randomness = SystemRandomness::new();
        talosconfig::generate(&self.bundle, &request, now(), &mut randomness).unwrap()
    }

    /// Where clients that know of no map find a node.
    pub(crate) fn loopback(&self, number: u8) -> String {
        self.lab.lab().ready().reach[&format!("10.0.0.{number}")].clone()
    }

    /// Where the Talos API of a node is on this machine.
    pub(crate) fn socket(&self, number: u8) -> SocketAddr {
        let target = self.loopback(number);
        let at = if target.contains(':') { target } else { format!("{target}:50000") };
        at.parse().unwrap()
    }

    /// A connection to a node, for calls that ours does not make.
    pub(crate) async fn raw(&self, number: u8) -> Raw {
        let name = format!("10.0.0.{number}");
        Raw::connect(&self.bundle, now(), &name, self.socket(number)).await
    }

    /// What a node is configured with. The first one is where the Kubernetes API is.
    pub(crate) fn config(&self, number: u8, is_control_plane: bool) -> SecretText {
        let options = Options::default();
        let identity = Identity::from(&self.bundle);
        let contract = self.version.parse::<Contract>().unwrap().for_nodes();
        let input = Input {
            contract,
            cluster_name: "home",
            endpoint: "https://10.0.0.11:6443",
            // No Talos runs every Kubernetes.
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

    /// The same with a patch.
    pub(crate) fn patched(&self, number: u8, is_control_plane: bool, text: &str) -> SecretText {
        let release = Release::of(&self.version).unwrap();
        let patch = Patch::parse(text, release).unwrap();
        let config = self.config(number, is_control_plane);
        SecretText::new(patch::apply(config.expose(), &[patch], release).unwrap())
    }

    /// A node in maintenance takes a config. What comes of that is another matter.
    pub(crate) async fn apply(&self, number: u8, text: &SecretText) {
        let anonymous = self.maintenance(number);
        let apply = Apply { config: text, mode: ApplyMode::Auto, dry_run: false };
        until("maintenance", || async {
            // The answer may be lost when the node closes the port.
            let applied = anonymous.apply(&apply).await;
            matches!(applied, Ok(_) | Err(TalosError::Lost { .. })).then_some(())
        })
        .await;
    }

    /// A node in maintenance takes its config, and answers as a configured one.
    pub(crate) async fn configure(&self, number: u8, is_control_plane: bool) -> Client {
        self.configure_with(number, &self.config(number, is_control_plane)).await
    }

    pub(crate) async fn configure_with(&self, number: u8, text: &SecretText) -> Client {
        let anonymous = self.maintenance(number);
        let apply = Apply { config: text, mode: ApplyMode::Auto, dry_run: false };
        let client = self.client(number);
        // The answer may be lost when the node closes the port: then it is configured all the same.
        until("maintenance", || async {
            let is_applied = anonymous.apply(&apply).await.is_ok();
            (is_applied || client.version().await.is_ok()).then_some(())
        })
        .await;
        until("a configured node", || async { client.version().await.ok() }).await;
        client
    }

    /// A control plane that is a cluster of its own.
    pub(crate) async fn bootstrap(&self, number: u8) -> Client {
        let client = self.configure(number, true).await;
        until("bootstrap", || async { client.bootstrap().await.ok() }).await;
        self.ready(&client).await;
        client
    }

    pub(crate) async fn ready(&self, client: &Client) {
        until("a node that is ready", || async {
            let looked = wait::machine_ready(client).await.ok()?;
            matches!(looked, Look::Done(())).then_some(())
        })
        .await;
    }
}

/// The secrets of a cluster.
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
    Address::new(format!("10.0.0.{number}"))
}

fn now() -> UnixTime {
    UnixTime::from_seconds(Clock::real().unix().try_into().unwrap())
}

/// Looks again and again.
pub(crate) async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let clock = Clock::real();
    let deadline = clock.deadline(PATIENCE);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(!deadline.has_passed(), "no {what}");
        clock.sleep(Duration::from_millis(50)).await;
    }
}

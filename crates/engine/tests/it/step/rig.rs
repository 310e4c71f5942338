//! Runs single steps, and collects their results and events.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::access::{ClientFiles, ClusterAccess};
use talmox_engine::event::{Event, Events};
use talmox_engine::execute::{Cancel, StepResult, execute};
use talmox_engine::kube::endpoints;
use talmox_engine::step::{Context, CutHook};
use talmox_engine::web::{Web, WebSettings};
use talmox_lab::{Lab, Scenario, Settings as LabSettings};
use talmox_plan::desired::{Addressing, Card, CardName, Contact, ExpectedNetwork};
use talmox_plan::ownership::{ClusterMark, Identity, SmbiosUuid};
use talmox_plan::plan::{Action, ApplyConfig, ConfigBy, OwnVm, Plan, Step, StepId, TalosNode};
use talmox_pve::api::qemu::Vm;
use talmox_pve::client as pve;
use talmox_pve::id::VmId;
use talmox_talos_api::{Address, Credentials, Expected, Limits, Reach, Settings};
use talmox_talos_config::client::ClientRole;
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::time::UnixTime;
use tokio::net::TcpSocket;

use super::node::{Etcd, Facts, Node};
use crate::common::{self, ADMIN};
use crate::support::bundle;

pub(crate) const UUID: &str = "4c4c4544-0042-3510-8051-b4c04f333732";
pub(crate) const MAC: &str = "02:00:00:00:00:11";

/// The clients and addresses that a step uses.
pub(crate) struct Rig {
    pub(crate) clock: Clock,
    pub(crate) pve: pve::Client,
    reach: BTreeMap<String, String>,
    own_lab: Option<Lab>,
    /// Addresses in client files of earlier runs.
    pub(crate) earlier: Vec<IpAddr>,
    pub(crate) files: Arc<Mutex<Vec<ClientFiles>>>,
}

/// Result of a step, with its waits and notes.
pub(crate) struct StepReport {
    pub(crate) result: StepResult,
    pub(crate) waits: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl StepReport {
    /// The hint of the error.
    pub(crate) fn hint(&self) -> &str {
        let StepResult::Failed(error) = &self.result else { panic!("{:?}", self.result) };
        error.hint.as_deref().unwrap_or_default()
    }

    /// The text of the error and of all its causes.
    pub(crate) fn failure(&self) -> String {
        let StepResult::Failed(error) = &self.result else { panic!("{:?}", self.result) };
        let mut texts = vec![error.to_string()];
        texts.extend(error.causes());
        texts.join(": ")
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        // The bundle is generated before the clock starts, because that takes some time, and nodes use the real clock.
        bundle();
        Self::at(Clock::scaled(50.0))
    }

    pub(crate) fn at(clock: Clock) -> Self {
        // No Proxmox listens at this address. Tests of steps that need Proxmox set another client.
        Self::of(clock, Address::new("127.0.0.1", 1))
    }

    /// A rig on the real clock whose Proxmox is at this address.
    pub(crate) fn with_proxmox_at(address: SocketAddr) -> Self {
        Self::of(Clock::real(), Address::new(address.ip().to_string(), address.port()))
    }

    fn of(clock: Clock, proxmox: Address) -> Self {
        let settings = pve::Settings {
            endpoints: vec![pve::Endpoint {
                reach: Some(proxmox),
                ..pve::Endpoint::new("pve1", 8006)
            }],
            trust: pve::Trust::Authorities(bundle().certs.os.crt.clone().into_bytes()),
            credentials: pve::Credentials::Token(
                "root@pam!lab=00000000-1111-4222-8333-444444444444".parse().unwrap(),
            ),
            limits: pve::Limits::default(),
            timeouts: pve::Timeouts::default(),
            clock,
            seed: 0,
        };
        let pve = pve::Client::new(settings).unwrap();
        // No test sends requests to a real network.
        let nowhere = |host: &str| (format!("{host}:6443"), "127.0.0.1:1".to_owned());
        let mut reach: BTreeMap<String, String> = ["10.0.0.20", "10.0.0.11"].map(nowhere).into();
        reach.insert("10.0.0.20:50000".to_owned(), "127.0.0.1:1".to_owned());
        Self { clock, pve, reach, own_lab: None, earlier: vec![], files: Arc::default() }
    }

    /// A rig with a Proxmox that has the running VM 300 and the given VMs, in the form of a scenario.
    pub(crate) fn with_proxmox(vms: &str) -> Self {
        let mut rig = Self::new();
        let scenario = format!(
            "release: \"9.2\"\nnodes: [{{name: pve1}}]\nvms:\n  - vmid: 300\n    node: pve1\n    status: running\n    \
             config: {{name: cp-11}}\n{vms}access:\n  users: [{{userid: root@pam}}]\n  tokens:\n  \
             - {{tokenid: \"root@pam!lab\", secret: 00000000-1111-4222-8333-444444444444, privsep: 0}}\n"
        );
        let scenario = Scenario::parse("test", &scenario).unwrap();
        let settings = LabSettings { scenario, speed: 50.0, ..LabSettings::default() };
        let lab = Lab::start(settings).unwrap();
        rig.pve = common::client(&lab, ADMIN);
        rig.own_lab = Some(lab);
        rig
    }

    /// The lab of [`Self::with_proxmox`], for the injection of faults.
    pub(crate) fn lab(&self) -> &Lab {
        self.own_lab.as_ref().unwrap()
    }

    /// Makes the address and port lead to this socket address.
    pub(crate) fn lead(&mut self, host: &str, port: u16, to: SocketAddr) {
        self.reach.insert(format!("{host}:{port}"), to.to_string());
    }

    /// Makes the Talos port of the address lead to a closed port. The returned socket keeps other processes from using that
    /// port.
    pub(crate) fn lead_nowhere(&mut self, host: &str) -> TcpSocket {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        self.lead(host, 50000, socket.local_addr().unwrap());
        socket
    }

    /// Starts a node at this address, with facts as expected except for `change`.
    pub(crate) async fn node(&mut self, address: &str, change: impl FnOnce(&mut Facts)) -> Node {
        self.node_of(address, bundle(), change).await
    }

    pub(crate) async fn node_of(
        &mut self,
        address: &str,
        bundle: &Bundle,
        change: impl FnOnce(&mut Facts),
    ) -> Node {
        let mut facts = facts(address);
        change(&mut facts);
        let node = Node::start(address, bundle, facts).await;
        self.lead(address, 50000, node.at);
        node
    }

    pub(crate) fn access(&self) -> ClusterAccess {
        // Nodes check the certificate with the real time, and a scaled clock is ahead of it.
        let now = UnixTime::from_seconds(Clock::real().unix().try_into().unwrap());
        let day = Duration::from_hours(24);
        let randomness = &mut SystemRandomness::new();
        let credentials = Credentials::issue(bundle(), &[ClientRole::Admin], day, now, randomness);
        let files = Arc::clone(&self.files);
        ClusterAccess {
            bundle: Arc::new(bundle().clone()),
            credentials: credentials.unwrap(),
            settings: Settings {
                clock: self.clock,
                reach: Reach::new(self.reach.clone()),
                limits: Limits { connect: Duration::from_secs(20), ..Limits::default() },
            },
            api: endpoints(["10.0.0.20", "10.0.0.11"]).to_vec(),
            earlier: self.earlier.clone(),
            write_files: Arc::new(move |made| {
                files.lock().unwrap().push(made);
                Ok(())
            }),
        }
    }

    pub(crate) async fn run(&self, action: Action) -> StepReport {
        self.run_cut(action, None).await
    }

    /// Runs a step with a hook that may end or fail it.
    pub(crate) async fn run_cut(&self, action: Action, cut: Option<CutHook>) -> StepReport {
        let context = Context {
            clock: self.clock,
            pve: self.pve.clone(),
            web: Web::new(WebSettings::default()).unwrap(),
            cluster: Some(self.access()),
            locks: vec![],
            seed: 0,
            cut,
        };
        let step = Step { id: StepId::new("the/step"), node: None, action, after: vec![] };
        let plan = Plan {
            cluster: "home".to_owned(),
            changes: vec![],
            findings: vec![],
            steps: vec![step],
        };
        let (events, mut heard) = Events::channel(self.clock);
        let mut outcome = execute(&plan, &context, &Cancel::default(), &events).await;
        let (mut all, mut waits, mut notes) = (vec![], vec![], vec![]);
        while let Ok(event) = heard.try_recv() {
            all.push(event);
        }
        common::assert_waits(&all);
        for event in all {
            match event.what {
                Event::StepWaits { reason, .. } => waits.push(reason),
                Event::StepNote { text, .. } => notes.push(text),
                _ => {}
            }
        }
        StepReport { result: outcome.steps.remove(0).1, waits, notes }
    }
}

/// Facts of a machine in maintenance mode with the expected identity.
pub(crate) fn facts(address: &str) -> Facts {
    Facts {
        is_configured: false,
        uuid: UUID.to_owned(),
        mac: MAC.to_owned(),
        instance_id: "abc".to_owned(),
        hostname: name(address),
        addresses: vec![format!("{address}/24")],
        node_ip: address.to_owned(),
        etcd: Etcd::Nothing,
        boot_id: "1".to_owned(),
        bootstrapped: Etcd::Member,
        not_yet: 0,
        synced: None,
        bootstraps: 0,
        requested_in: None,
        rejections: 0,
        applied: vec![],
        modes: vec![],
        configs: None,
        never_answers_apply: false,
        hides_version: false,
    }
}

/// The name of the node at this address, such as `cp-11` for `10.0.0.11`.
pub(crate) fn name(address: &str) -> String {
    format!("cp-{}", address.rsplit('.').next().unwrap())
}

pub(crate) fn own_vm(node: &str) -> OwnVm {
    let identity = Identity {
        cluster: ClusterMark::of(&bundle().cluster.id),
        node: node.to_owned(),
        uuid: SmbiosUuid::of(&bundle().cluster.id, node),
    };
    OwnVm { vm: Vm::new(&"pve1".parse().unwrap(), VmId::new(300).unwrap()), identity }
}

/// The control plane at this address.
pub(crate) fn talos_node(address: &str) -> TalosNode {
    TalosNode {
        name: name(address),
        own: own_vm(&name(address)),
        contact: Contact::At(address.parse().unwrap()),
        expected: Expected {
            uuid: Some(UUID.to_owned()),
            macs: vec![MAC.to_owned()],
            instance_id: None,
        },
        is_control_plane: true,
    }
}

/// The expected network of the node at this address: with the address `fixed`, or with one from DHCP.
pub(crate) fn shape(address: &str, fixed: Option<&str>) -> ExpectedNetwork {
    let addressing = Addressing {
        is_dhcp: fixed.is_none(),
        fixed: fixed.iter().map(|ip| ip.parse().unwrap()).collect(),
    };
    ExpectedNetwork {
        hostname: Some(name(address)),
        cards: vec![Card { name: CardName::Mac(MAC.to_owned()), addressing }],
        ..ExpectedNetwork::default()
    }
}

pub(crate) fn apply_config(address: &str) -> ApplyConfig {
    ApplyConfig {
        node: talos_node(address),
        by: ConfigBy::Maintenance,
        has_drive: false,
        config: SecretText::new("the config").into(),
        talos_version: "v1.11.2".to_owned(),
        template: None,
        shape: shape(address, Some(address)),
        is_started: true,
        resets: 2,
        boot: Duration::from_mins(3),
        needs: vec![],
        deadline: Duration::from_mins(15),
    }
}

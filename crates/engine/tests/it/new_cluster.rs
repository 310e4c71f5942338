//! Creates a healthy cluster from an inventory, on a simulated Proxmox with Talos in its VMs.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use talmox_engine::access::{ClientFiles, ClusterAccess};
use talmox_engine::event::Events;
use talmox_engine::execute::{Cancel, Outcome, StepResult, execute};
use talmox_engine::kube::{KubeClient, endpoints};
use talmox_engine::observe::{self, TalosAccess};
use talmox_engine::status::{NodeRole, ObservedCluster, Status, StatusSources, Subject, gather};
use talmox_engine::step::Context;
use talmox_engine::web::{Web, WebSettings};
use talmox_lab::pve::Profile;
use talmox_lab::{Lab, NodeSettings, Scenario, Settings};
use talmox_plan::desired::{Desired, Inputs, Login, Phase};
use talmox_plan::plan::{OwnVm, Plan, Severity};
use talmox_plan::planning::{PlanOptions, plan};
use talmox_pve::api::qemu::Vm;
use talmox_pve::client as pve;
use talmox_talos_api::{Address, Credentials, Limits, Reach};
use talmox_talos_config::client::ClientRole as TalosRole;
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;

use crate::support::{bundle, inventory};

const INVENTORY: &str = "\
cluster_name: home
talos_version: v1.11.2
kubernetes_version: v1.32.1
network: {subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [1.1.1.1], vip: 10.0.0.20, CNI}
proxmox:
  endpoint: https://pve1:8006
  token: {env: TOKEN}
  node: pve1
  datastore: local-lvm
  image_datastore: local
  bridge: vmbr0
controlplane:
  - {name: cp-1, ip: 10.0.0.11, vmid: 300}
  - {name: cp-2, ip: 10.0.0.12, vmid: 301}
  - {name: cp-3, ip: 10.0.0.13, vmid: 302}
workers:
  - {name: worker-1, ip: 10.0.0.21, vmid: 303}
";

const LAB: &str = "\
release: \"9.2\"
nodes: [{name: pve1, cores: 64, memory: 512GiB, bridges: [{name: vmbr0}]}]
storages:
  - {storage: local, type: dir, path: /var/lib/vz, content: \"iso,import\", size: 1TiB}
  - {storage: local-lvm, type: lvmthin, vgname: pve, thinpool: data, content: images, size: 1TiB}
access:
  users: [{userid: root@pam, password: swordfish}]
  tokens:
  - {tokenid: \"root@pam!lab\", secret: 00000000-1111-4222-8333-444444444444, privsep: 0}
";

struct TestCluster {
    lab: Lab,
    desired: Desired,
    context: Context,
    files: Arc<Mutex<Vec<ClientFiles>>>,
}

impl TestCluster {
    fn start(cni: &str) -> Self {
        let lab = Lab::start(Settings {
            scenario: Scenario::parse("lab", LAB).unwrap(),
            speed: 30.0,
            profile: Profile::Fast,
            factory_names: vec!["factory.talos.dev".to_owned()],
            nodes: NodeSettings {
                networks: vec![Ipv4Addr::new(10, 0, 0, 0)],
                ..NodeSettings::default()
            },
            ..Settings::default()
        })
        .unwrap();
        let inventory = inventory(&INVENTORY.replace("CNI", cni));
        let (secrets, texts) = (BTreeMap::new(), BTreeMap::new());
        let inputs = Inputs {
            cluster: &inventory.clusters[0],
            bundle: bundle(),
            secrets: &secrets,
            files: &texts,
            phase: Phase::Final,
        };
        let login = Login { user: "root@pam".to_owned(), token: Some("lab".to_owned()) };
        let desired = Desired::of(&inputs, &BTreeMap::new(), login).unwrap();
        let files = Arc::new(Mutex::new(vec![]));
        let context = context(&lab, &files);
        Self { lab, desired, context, files }
    }

    fn access(&self) -> &ClusterAccess {
        self.context.cluster.as_ref().unwrap()
    }

    async fn plan(&self) -> Plan {
        let access = TalosAccess {
            credentials: self.access().credentials.clone(),
            settings: self.access().settings.clone(),
        };
        let randomness = &mut SystemRandomness::new();
        let cluster = self.access();
        let kube = KubeClient::new(&cluster.bundle, &cluster.api, &cluster.settings, randomness);
        let sources = observe::Sources {
            pve: &self.context.pve,
            talos: &access,
            kube: &kube.unwrap(),
            web: &self.context.web,
            purpose: observe::Purpose::Change,
        };
        let observed = observe::observe(&self.desired, &sources).await.unwrap();
        let has_client_files = !self.files.lock().unwrap().is_empty();
        let plan = plan(
            &self.desired,
            &observed,
            PlanOptions { has_client_files, was_up: has_client_files, was_bootstrapped: false },
        );
        let errors: Vec<_> =
            plan.findings.iter().filter(|one| one.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        plan
    }

    async fn up(&self) -> Outcome {
        let plan = self.plan().await;
        let events = Events::unheard(self.lab.clock());
        let outcome = execute(&plan, &self.context, &Cancel::default(), &events).await;
        let failures: Vec<String> = outcome
            .failures()
            .map(|(step, error)| format!("{step}: {error}: {}", error.causes().join(": ")))
            .collect();
        assert!(outcome.is_done(), "{failures:#?}");
        outcome
    }

    async fn status(&self) -> Status {
        let subject = |node: &talmox_plan::desired::DesiredNode| Subject {
            name: node.name.clone(),
            role: if node.is_control_plane { NodeRole::ControlPlane } else { NodeRole::Worker },
            is_talos: node.is_talos,
            own: Some(OwnVm {
                vm: Vm::new(&"pve1".parse().unwrap(), node.vmid.unwrap()),
                identity: self.desired.identity_of(&node.name),
            }),
            foreign_vm: None,
            contact: node.contact,
        };
        let subjects: Vec<Subject> = self.desired.nodes.iter().map(subject).collect();
        let sources = StatusSources {
            pve: self.context.pve.clone(),
            cluster: self.access().clone(),
            limit: Duration::from_secs(20),
        };
        let plan = self.plan().await;
        let observed = async {
            Ok(ObservedCluster {
                subjects: subjects.clone(),
                changes: plan.changes,
                ..ObservedCluster::default()
            })
        };
        gather(&self.desired.cluster, &subjects, &sources, observed).await.0
    }
}

fn context(lab: &Lab, files: &Arc<Mutex<Vec<ClientFiles>>>) -> Context {
    let (clock, ready, address) = (lab.clock(), lab.ready(), lab.address());
    let authority = std::fs::read(&ready.pve.ca).unwrap();
    let token = format!("{}={}", ready.pve.token_id, ready.pve.token_secret);
    let pve = pve::Client::new(pve::Settings {
        endpoints: vec![pve::Endpoint {
            reach: Some(Address::new(address.ip().to_string(), address.port())),
            ..pve::Endpoint::new("pve1", 8006)
        }],
        trust: pve::Trust::Authorities(authority.clone()),
        credentials: pve::Credentials::Token(token.parse().unwrap()),
        limits: pve::Limits::default(),
        timeouts: pve::Timeouts::default(),
        clock,
        seed: 0,
    })
    .unwrap();
    let reach = Reach::new(ready.reach);
    let web = WebSettings { reach: reach.clone(), authorities: authority };
    let now = UnixTime::from_seconds(clock.unix().try_into().unwrap());
    let day = Duration::from_hours(24);
    let randomness = &mut SystemRandomness::new();
    let credentials = Credentials::issue(bundle(), &[TalosRole::Admin], day, now, randomness);
    let files = Arc::clone(files);
    let cluster = ClusterAccess {
        bundle: Arc::new(bundle().clone()),
        credentials: credentials.unwrap(),
        settings: talmox_talos_api::Settings {
            clock,
            reach,
            limits: Limits { connect: Duration::from_secs(20), ..Limits::default() },
        },
        api: endpoints(["10.0.0.20", "10.0.0.11", "10.0.0.12", "10.0.0.13"]).to_vec(),
        earlier: vec![],
        write_files: Arc::new(move |made| {
            files.lock().unwrap().push(made);
            Ok(())
        }),
    };
    Context {
        clock,
        pve,
        web: Web::new(web).unwrap(),
        cluster: Some(cluster),
        locks: vec![],
        seed: 7,
        cut: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_created_and_the_next_run_changes_nothing() {
    let test_cluster = TestCluster::start("cni: flannel");
    test_cluster.up().await;
    assert_eq!(test_cluster.files.lock().unwrap().len(), 1);
    let status = test_cluster.status().await;
    assert_eq!(status.kubernetes.get().map(String::as_str), Some("v1.32.1"));
    for node in &status.nodes {
        let kubernetes = node.kubernetes.as_ref().unwrap().get();
        assert!(kubernetes.is_some_and(|kubernetes| kubernetes.ready), "{node:#?}");
        let talos = node.talos.as_ref().unwrap().get().unwrap();
        assert_eq!(talos.stage, "running", "{node:#?}");
        assert_eq!(talos.troubles, Vec::<String>::new());
        assert_eq!(node.drift, Vec::<String>::new());
        assert!(node.vm.get().unwrap().running);
    }
    let leads = |node: &&talmox_engine::status::NodeStatus| {
        node.etcd.as_ref().and_then(|etcd| etcd.get()).is_some_and(|etcd| etcd.leader)
    };
    assert_eq!(status.nodes.iter().filter(leads).count(), 1);
    let again = test_cluster.up().await;
    let acted: Vec<_> =
        again.steps.iter().filter(|(_, result)| matches!(result, StepResult::Done)).collect();
    assert!(acted.is_empty(), "{acted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_network_nodes_are_registered_and_not_ready() {
    let test_cluster = TestCluster::start("cni: none");
    test_cluster.up().await;
    let status = test_cluster.status().await;
    for node in &status.nodes {
        let kubernetes = node.kubernetes.as_ref().unwrap().get().unwrap();
        assert!(!kubernetes.ready, "{node:#?}");
        assert!(kubernetes.reason.as_ref().unwrap().contains("cni"), "{node:#?}");
    }
}

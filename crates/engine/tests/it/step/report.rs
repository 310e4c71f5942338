//! Observing a cluster for a report, which must be complete within seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::kube::KubeClient;
use talmox_engine::observe::{Purpose, Sources, TalosAccess, observe};
use talmox_engine::web::{Web, WebSettings};
use talmox_plan::desired::{Desired, Inputs, Login, Phase};
use talmox_plan::observed::{EtcdSeen, KubernetesSeen, Observed, TalosSeen};
use talmox_talos_config::random::SystemRandomness;
use tokio::net::TcpListener;

use super::node::Etcd;
use super::rig::Rig;
use crate::kube::cluster::VIP;
use crate::support::{bundle, inventory};

const NODE: &str = "10.0.0.11";

/// State of a node that does not answer within the limit.
const LATE: &str = "something that does not answer in time";

/// The limit of a report is 4 s after Proxmox has answered. The rest is for a busy machine.
const BOUND: Duration = Duration::from_secs(8);

const INVENTORY: &str = "\
cluster_name: home
talos_version: v1.11.2
kubernetes_version: v1.32.1
network: {subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [1.1.1.1], vip: 10.0.0.20, cni: flannel}
proxmox:
  endpoint: https://pve1:8006
  token: {env: TOKEN}
  node: pve1
  datastore: local-lvm
  image_datastore: local
  bridge: vmbr0
controlplane:
  - {name: cp-11, ip: 10.0.0.11, vmid: 300}
";

fn desired() -> Desired {
    let inventory = inventory(INVENTORY);
    let (secrets, files) = (BTreeMap::new(), BTreeMap::new());
    let inputs = Inputs {
        cluster: &inventory.clusters[0],
        bundle: bundle(),
        secrets: &secrets,
        files: &files,
        phase: Phase::Final,
    };
    let login = Login { user: "root@pam".to_owned(), token: Some("lab".to_owned()) };
    Desired::of(&inputs, &BTreeMap::new(), login).unwrap()
}

/// Observes the cluster of the rig for a report, and checks that the observation took less than `BOUND`.
async fn report(rig: &Rig) -> Observed {
    let access = rig.access();
    let randomness = &mut SystemRandomness::new();
    let kube = KubeClient::new(&access.bundle, &access.api, &access.settings, randomness).unwrap();
    let talos = TalosAccess { credentials: access.credentials, settings: access.settings };
    let web = Web::new(WebSettings::default()).unwrap();
    let sources =
        Sources { pve: &rig.pve, talos: &talos, kube: &kube, web: &web, purpose: Purpose::Report };
    let desired = desired();
    let clock = Clock::real();
    let started = clock.moment();
    let observed = observe(&desired, &sources).await.unwrap();
    let time = clock.moment().since(started);
    assert!(time < BOUND, "{time:?}");
    observed
}

/// A port that accepts connections and never answers.
async fn silent_port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

#[tokio::test]
async fn a_report_does_not_wait_for_a_kubernetes_api_that_never_answers() {
    let mut rig = Rig::with_proxmox("");
    rig.node(NODE, |facts| {
        facts.is_configured = true;
        facts.etcd = Etcd::Member;
    })
    .await;
    let silent = silent_port().await;
    for host in [VIP, NODE] {
        rig.lead(host, 6443, silent.local_addr().unwrap());
    }
    let observed = report(&rig).await;
    assert!(matches!(observed.nodes["cp-11"], TalosSeen::OwnNode(_)), "{:?}", observed.nodes);
    let unanswered = KubernetesSeen::Silent("no answer came in time".to_owned());
    assert_eq!(observed.kubernetes, unanswered);
}

#[tokio::test]
async fn a_report_does_not_wait_for_an_etcd_that_is_down() {
    let mut rig = Rig::with_proxmox("");
    rig.node(NODE, |facts| {
        facts.is_configured = true;
        facts.etcd = Etcd::Silent;
    })
    .await;
    let observed = report(&rig).await;
    // The request to etcd has a timeout of 3 s, and the node has one of 4 s. On a busy machine the timeout of the node may
    // end first.
    let is_unanswered = match &observed.nodes["cp-11"] {
        TalosSeen::OwnNode(node) => matches!(
            &node.etcd,
            EtcdSeen::Unhealthy { reason, .. } if reason.contains("was not answered in time")
        ),
        TalosSeen::Mute(what) => what == LATE,
        _ => false,
    };
    assert!(is_unanswered, "{:?}", observed.nodes);
    assert_eq!(observed.kubernetes, KubernetesSeen::NotAsked, "no member of etcd answers");
}

/// Without the limit of a report, the server at the port would be identified, which takes longer.
#[tokio::test]
async fn a_report_does_not_wait_for_a_node_that_never_answers() {
    let mut rig = Rig::with_proxmox("");
    let silent = silent_port().await;
    rig.lead(NODE, 50000, silent.local_addr().unwrap());
    let observed = report(&rig).await;
    let TalosSeen::Mute(what) = &observed.nodes["cp-11"] else { panic!("{:?}", observed.nodes) };
    assert_eq!(what, LATE);
}

use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::status::{
    Known, NodeRole, ObservedCluster, Part, Status, StatusSources, Subject, VmState, gather,
    running,
};
use talmox_plan::desired::Contact;
use talmox_plan::plan::{Change, Class, FieldChange, Object};
use tokio::net::TcpListener;

use super::node::Etcd;
use super::rig::{Rig, name, own_vm};
use crate::kube::cluster::{Cluster, VIP};

fn subject(address: &str, role: NodeRole) -> Subject {
    Subject {
        name: name(address),
        role,
        is_talos: true,
        own: Some(own_vm(&name(address))),
        foreign_vm: None,
        contact: Contact::At(address.parse().unwrap()),
    }
}

#[tokio::test]
async fn the_status_has_answers_and_names_missing_ones() {
    let cluster = Cluster::start_ready(&["cp-11"]).await;
    let mut rig = Rig::at(cluster.clock);
    rig.lead(VIP, 6443, cluster.address);
    rig.node("10.0.0.11", |facts| {
        facts.is_configured = true;
        facts.etcd = Etcd::Member;
    })
    .await;
    rig.node("10.0.0.12", |_| {}).await;
    // This node accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    rig.lead("10.0.0.13", 50000, silent.local_addr().unwrap());
    let subjects = [
        subject("10.0.0.11", NodeRole::ControlPlane),
        subject("10.0.0.12", NodeRole::Worker),
        subject("10.0.0.13", NodeRole::ControlPlane),
        Subject { is_talos: false, ..subject("10.0.0.14", NodeRole::Worker) },
    ];
    let field =
        FieldChange { path: "memory".to_owned(), old: Some(1_u32.into()), new: Some(2_u32.into()) };
    let change = Change {
        object: Object::Vm("cp-11".to_owned()),
        class: Class::Reboot,
        fields: vec![field],
        note: None,
        is_planned: true,
        left: None,
    };
    let sources = StatusSources {
        pve: rig.pve.clone(),
        cluster: rig.access(),
        limit: Duration::from_secs(10),
    };
    // The observation waits until the silent node received a request. So the test ends only if neither waits for the other.
    let observed = async {
        let asked = silent.accept().await.unwrap();
        tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(asked);
        });
        Ok(ObservedCluster {
            subjects: subjects.to_vec(),
            changes: vec![change],
            ..ObservedCluster::default()
        })
    };
    let (status, problem) = gather("home", &subjects, &sources, observed).await;
    assert_eq!(problem, None);

    assert_eq!(status.kubernetes, Known::Is("v1.32.4".to_owned()));
    assert_eq!(status.authorities.len(), 4);
    let first = &status.nodes[0];
    let talos = first.talos.as_ref().unwrap().get().unwrap();
    assert_eq!((talos.stage.as_str(), talos.version.as_deref()), ("running", Some("v1.11.2")));
    assert!(talos.certificate_end.unwrap() > i64::try_from(cluster.clock.unix()).unwrap());
    assert_eq!(talos.troubles, Vec::<String>::new());
    assert!(first.kubernetes.as_ref().unwrap().get().unwrap().ready);
    assert!(first.etcd.as_ref().unwrap().get().unwrap().leader);
    assert_eq!(first.drift, ["vm memory 1 MiB → 2 MiB (needs a restart)"]);
    // There is no Proxmox in this test.
    let VmState::Unknown(why) = &first.vm else { panic!("{:?}", first.vm) };
    assert!(why.contains("was not sent"), "{why}");

    let waiting = status.nodes[1].talos.as_ref().unwrap().get().unwrap();
    assert_eq!(waiting.stage, "maintenance");
    assert_eq!(status.nodes[1].etcd, None);
    let unregistered = Known::Unknown("it is not registered".to_owned());
    assert_eq!(status.nodes[1].kubernetes, Some(unregistered));
    assert!(matches!(status.nodes[2].talos, Some(Known::Unknown(_))));
    assert_eq!((&status.nodes[3].talos, &status.nodes[3].kubernetes), (&None, &None));

    let silent: Vec<_> =
        status.unreachable.iter().map(|one| (one.part, one.nodes.join(" "))).collect();
    assert_eq!(silent, [(Part::Proxmox, String::new()), (Part::Talos, "cp-13".to_owned())]);

    let text = serde_json::to_string(&status).unwrap();
    assert!(text.contains(r#""kubernetes":{"is":"v1.32.4"}"#), "{text}");
    assert!(text.contains(r#""unreachable":[{"part":"proxmox","nodes":[],"reason":"#), "{text}");
}

/// A Proxmox that accepts connections and never answers does not delay the report for the whole timeout.
#[tokio::test]
async fn a_proxmox_that_never_answers_is_reported_within_seconds() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::with_proxmox_at(silent.local_addr().unwrap());
    let subjects = [Subject { is_talos: false, ..subject("10.0.0.14", NodeRole::Worker) }];
    let sources = StatusSources {
        pve: rig.pve.clone(),
        cluster: rig.access(),
        limit: Duration::from_secs(30),
    };
    let clock = Clock::real();
    let began = clock.moment();
    let observed = std::future::pending::<Result<ObservedCluster, String>>();
    let (status, problem) = gather("home", &subjects, &sources, observed).await;
    let took = clock.moment().since(began);
    assert!(took < Duration::from_secs(5), "{took:?}");
    let why = "no answer within 4 s";
    assert_eq!(problem, Some(format!("the state of Proxmox was not observed: {why}")));
    assert_eq!(status.unreachable[0].part, Part::Proxmox);
    assert_eq!(status.unreachable[0].reason, why);
    assert_eq!(status.nodes[0].vm, VmState::Unknown(why.to_owned()));
}

#[tokio::test]
async fn addresses_and_versions_come_from_nodes_and_kubernetes() {
    let cluster = Cluster::start_ready(&["cp-11", "wk-13"]).await;
    let mut rig = Rig::at(cluster.clock);
    rig.lead(VIP, 6443, cluster.address);
    rig.node("10.0.0.11", |facts| facts.is_configured = true).await;
    // This node accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    rig.lead("10.0.0.13", 50000, silent.local_addr().unwrap());
    let mut subjects = vec![
        subject("10.0.0.11", NodeRole::ControlPlane),
        subject("10.0.0.13", NodeRole::Worker),
        Subject { own: None, ..subject("10.0.0.14", NodeRole::Worker) },
        Subject { own: None, is_talos: false, ..subject("10.0.0.15", NodeRole::Worker) },
    ];
    // Kubernetes lists this node, and it does not answer at the address in the inventory.
    subjects[1].name = "wk-13".to_owned();
    let sources = StatusSources {
        pve: rig.pve.clone(),
        cluster: rig.access(),
        limit: Duration::from_secs(10),
    };
    let found = running(&subjects, &sources).await;

    assert_eq!(found.kubernetes, Known::Is("v1.32.4".to_owned()));
    let [answers, mute, without, ubuntu] = &found.nodes[..] else { panic!("{found:#?}") };
    assert_eq!(answers.address, Known::Is("10.0.0.11".parse().unwrap()));
    assert_eq!(answers.talos, Some(Known::Is("v1.11.2".to_owned())));
    assert_eq!(answers.kubernetes, Some(Known::Is("v1.32.4".to_owned())));
    assert!(matches!(mute.talos, Some(Known::Unknown(_))), "{mute:?}");
    assert!(matches!(mute.kubernetes, Some(Known::Is(_))), "{mute:?}");
    assert_eq!(mute.address, Known::Is("10.0.0.12".parse().unwrap()), "as it has registered");
    let none = || Known::Unknown("it has no VM that runs".to_owned());
    assert_eq!(
        (&without.address, &without.talos),
        (&Known::Unknown("it has no VM that runs".to_owned()), &Some(none()))
    );
    assert_eq!((&ubuntu.talos, &ubuntu.kubernetes), (&None, &None));
}

/// Requests the status of one control plane, and checks that the request does not take the whole limit. Nodes and Kubernetes
/// have a timeout of 4 s, and the rest of the bound is for a busy machine. Every other timeout is 20 s or longer.
async fn status_within_seconds(rig: &Rig) -> Status {
    let subjects = [subject("10.0.0.11", NodeRole::ControlPlane)];
    let sources = StatusSources {
        pve: rig.pve.clone(),
        cluster: rig.access(),
        limit: Duration::from_secs(30),
    };
    let observed =
        async { Ok(ObservedCluster { subjects: subjects.to_vec(), ..ObservedCluster::default() }) };
    let clock = Clock::real();
    let started = clock.moment();
    let (status, _) = gather("home", &subjects, &sources, observed).await;
    let time = clock.moment().since(started);
    assert!(time < Duration::from_secs(10), "{time:?}");
    status
}

#[tokio::test]
async fn a_kubernetes_api_that_never_answers_is_reported_within_seconds() {
    let proxmox = Rig::with_proxmox("");
    let mut rig = Rig::at(Clock::real());
    rig.pve = proxmox.pve.clone();
    rig.node("10.0.0.11", |facts| {
        facts.is_configured = true;
        facts.etcd = Etcd::Member;
    })
    .await;
    // This server accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for host in [VIP, "10.0.0.11"] {
        rig.lead(host, 6443, silent.local_addr().unwrap());
    }
    let status = status_within_seconds(&rig).await;
    let unanswered = || "no answer in time".to_owned();
    assert_eq!(status.kubernetes, Known::Unknown(unanswered()));
    let node = &status.nodes[0];
    assert_eq!(node.kubernetes, Some(Known::Unknown(unanswered())));
    assert!(matches!(node.talos, Some(Known::Is(_))), "{node:#?}");
    assert!(matches!(node.etcd, Some(Known::Is(_))), "{node:#?}");
    let kubernetes = status.unreachable.iter().find(|one| one.part == Part::Kubernetes).unwrap();
    assert_eq!(kubernetes.reason, "no answer in time");
}

#[tokio::test]
async fn an_etcd_that_is_down_is_reported_within_seconds() {
    let proxmox = Rig::with_proxmox("");
    let mut rig = Rig::at(Clock::real());
    rig.pve = proxmox.pve.clone();
    rig.node("10.0.0.11", |facts| {
        facts.is_configured = true;
        facts.etcd = Etcd::Data;
    })
    .await;
    let status = status_within_seconds(&rig).await;
    let node = &status.nodes[0];
    let Some(Known::Unknown(why)) = &node.etcd else { panic!("{node:#?}") };
    assert_eq!(why, "etcd is starting: pulling its image");
    assert!(matches!(node.talos, Some(Known::Is(_))), "{node:#?}");
}

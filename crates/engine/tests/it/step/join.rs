use std::time::Duration;

use talmox_engine::access::PROVISIONAL;
use talmox_engine::execute::StepResult;
use talmox_plan::plan::{
    Action, AwaitHealth, AwaitMember, AwaitVip, HealthGoal, Meanwhile, SharedAddress, VipBringer,
    WriteClientFiles,
};
use talmox_talos_config::client::{kubeconfig, talosconfig};

use super::node::Etcd;
use super::rig::{Rig, shape, talos_node};
use crate::kube::cluster::{Cluster, VIP, flannel, is_ready};

const ADDRESS: &str = "10.0.0.11";

/// A rig with one running control plane, and its Kubernetes API at the shared address.
async fn grown(cluster: &Cluster) -> Rig {
    let mut rig = Rig::at(cluster.clock);
    rig.lead(VIP, 6443, cluster.address);
    rig.lead(ADDRESS, 6443, cluster.address);
    rig.node(ADDRESS, |facts| {
        facts.is_configured = true;
        facts.etcd = Etcd::Member;
    })
    .await;
    rig
}

fn health(goal: HealthGoal) -> Action {
    let nodes = vec![talos_node(ADDRESS)];
    let deadline = Duration::from_mins(5);
    Action::AwaitHealth(AwaitHealth { nodes, goal, allows_other_members: false, deadline })
}

#[tokio::test]
async fn a_node_has_joined_when_etcd_and_kubernetes_know_it() {
    let cluster = Cluster::start(&["cp-11"]).await;
    let rig = grown(&cluster).await;
    let member = |name: &str| {
        let mut node = talos_node(ADDRESS);
        name.clone_into(&mut node.name);
        node.is_control_plane = name == "cp-11";
        Action::AwaitMember(AwaitMember {
            node,
            shape: None,
            awaits_ready: false,
            deadline: Duration::from_mins(2),
        })
    };
    let report = rig.run(member("cp-11")).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
    let report = rig.run(member("worker-1")).await;
    assert_eq!(
        report.failure(),
        "worker-1 does not join in time: waiting for the kubelet to register the node"
    );
}

#[tokio::test]
async fn a_joined_node_must_match_its_config() {
    let cluster = Cluster::start(&["cp-11"]).await;
    let rig = grown(&cluster).await;
    let join = |fixed: &str| {
        let shape = Some(shape(ADDRESS, Some(fixed)));
        let (node, deadline) = (talos_node(ADDRESS), Duration::from_mins(2));
        Action::AwaitMember(AwaitMember { node, shape, awaits_ready: false, deadline })
    };
    let report = rig.run(join(ADDRESS)).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
    let report = rig.run(join("10.0.0.78")).await;
    assert_eq!(
        report.failure(),
        "cp-11 does not have the network of its config in time: \
         eth0 does not have the address 10.0.0.78, and has 10.0.0.11"
    );
}

#[tokio::test]
async fn a_node_of_a_cluster_with_a_network_has_joined_when_it_is_ready() {
    let cluster = Cluster::start(&["cp-11"]).await;
    let rig = grown(&cluster).await;
    let join = || {
        let (node, deadline) = (talos_node(ADDRESS), Duration::from_mins(2));
        Action::AwaitMember(AwaitMember { node, shape: None, awaits_ready: true, deadline })
    };
    let ended = rig.run(join()).await;
    let failure = ended.failure();
    assert!(failure.starts_with("cp-11 does not become ready in time: "), "{failure}");
    cluster.store.create("daemonsets.apps", flannel()).unwrap();
    let ended = rig.run(join()).await;
    assert!(matches!(ended.result, StepResult::Already), "{:?}", ended.result);
    assert!(is_ready(&cluster.store.get("nodes", "", "cp-11").unwrap()));
}

#[tokio::test]
async fn the_shared_address_must_answer_for_this_cluster() {
    let cluster = Cluster::start(&[]).await;
    let rig = grown(&cluster).await;
    let address = VIP.parse().unwrap();
    let vip = |by: VipBringer| {
        Action::AwaitVip(AwaitVip { address, port: 6443, by, deadline: Duration::from_mins(2) })
    };
    for by in [VipBringer::Talos, VipBringer::Nobody] {
        let report = rig.run(vip(by)).await;
        assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
        assert_eq!(report.notes, Vec::<String>::new());
    }
    cluster.server.stop().await;
    for (by, start) in [
        (
            VipBringer::Talos,
            "10.0.0.20:6443 does not answer as the Kubernetes API of this cluster in time: ",
        ),
        (
            VipBringer::Addon("net".to_owned()),
            "the add-on net does not provide the Kubernetes API at 10.0.0.20:6443 in time: ",
        ),
    ] {
        let report = rig.run(vip(by)).await;
        let failure = report.failure();
        assert!(failure.starts_with(start), "{failure}");
    }
    // If no component is known to provide the address, the step reports that and does not fail.
    for by in [VipBringer::Perhaps, VipBringer::Nobody] {
        let report = rig.run(vip(by)).await;
        assert!(!matches!(report.result, StepResult::Failed(_)), "{:?}", report.result);
        assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
        let start = "no add-on provides 10.0.0.20 yet, which is left to kube-vip: ";
        assert!(report.notes[0].starts_with(start), "{}", report.notes[0]);
    }
}

#[tokio::test]
async fn a_cluster_with_a_network_becomes_healthy() {
    let cluster = Cluster::start_ready(&["cp-11"]).await;
    let rig = grown(&cluster).await;
    let report = rig.run(health(HealthGoal::Ready)).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
    assert_eq!(report.notes, Vec::<String>::new());
}

#[tokio::test]
async fn without_a_network_nodes_must_only_be_registered() {
    let cluster = Cluster::start(&["cp-11"]).await;
    let rig = grown(&cluster).await;
    let report = rig.run(health(HealthGoal::Registered)).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
    assert_eq!(report.notes.len(), 1);
    assert!(report.notes[0].starts_with("1 of 1 nodes are registered, NotReady: CNI missing"));
    assert!(report.notes[0].contains("Not checked: all nodes are ready; "), "{}", report.notes[0]);
    let report = rig.run(health(HealthGoal::Ready)).await;
    let failure = report.failure();
    assert!(failure.contains(" of 16 checks: node readiness (cp-11 is not ready: "), "{failure}");
    assert!(failure.contains("cni plugin not initialized"), "{failure}");
    let StepResult::Failed(error) = &report.result else { panic!("{failure}") };
    let hint = error.hint.as_deref().unwrap_or_default();
    assert!(hint.starts_with("the cluster has no pod network (CNI)"), "{hint}");
}

fn client_files(meanwhile: Meanwhile) -> Action {
    let shared = SharedAddress { address: VIP.parse().unwrap(), port: 6443, meanwhile };
    Action::WriteClientFiles(WriteClientFiles {
        cluster: "home".to_owned(),
        server: format!("https://{VIP}:6443"),
        shared: Some(shared),
        endpoints: vec![talos_node(ADDRESS)],
        nodes: vec![talos_node(ADDRESS)],
        deadline: Duration::from_mins(1),
    })
}

#[tokio::test]
async fn a_shared_address_that_does_not_answer_is_bypassed() {
    let cluster = Cluster::start(&[]).await;
    let mut rig = grown(&cluster).await;
    rig.lead(VIP, 6443, "127.0.0.1:1".parse().unwrap());
    let report = rig.run(client_files(Meanwhile::Leave)).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
    assert_eq!(rig.files.lock().unwrap().len(), 0, "others have written some");
    let report = rig.run(client_files(Meanwhile::Await(None))).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(report.notes.len(), 1);
    assert!(report.notes[0].contains("kubeconfig leads to cp-11 alone"), "{}", report.notes[0]);
    let files = rig.files.lock().unwrap();
    let kube = files[0].kubeconfig.expose();
    assert!(kube.starts_with(PROVISIONAL), "it is not marked");
    assert!(kube.contains(&format!("server: https://{}\n", cluster.address)), "no server");
    assert!(kube.contains("tls-server-name: 10.0.0.11\n"), "no name");
}

#[tokio::test]
async fn a_network_installed_by_a_user_makes_nodes_ready() {
    let cluster = Cluster::start(&["cp-11"]).await;
    let rig = grown(&cluster).await;
    cluster.store.create("daemonsets.apps", flannel()).unwrap();
    let report = rig.run(health(HealthGoal::Registered)).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
    assert_eq!(report.notes, Vec::<String>::new());
    assert!(is_ready(&cluster.store.get("nodes", "", "cp-11").unwrap()));
}

#[tokio::test]
async fn add_ons_have_time_to_install_a_network() {
    let cluster = Cluster::start(&["cp-11"]).await;
    let rig = grown(&cluster).await;
    let report = rig.run(health(HealthGoal::Settled)).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
    assert!(
        report
            .waits
            .iter()
            .any(|why| why.contains("waiting for an add-on to create the pod network")),
        "{:?}",
        report.waits
    );
    assert_eq!(report.notes.len(), 1);
}

#[tokio::test]
async fn client_files_contain_reachable_addresses() {
    let cluster = Cluster::start(&[]).await;
    let rig = grown(&cluster).await;
    let report = rig.run(client_files(Meanwhile::Leave)).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    let files = rig.files.lock().unwrap();
    let kube = files[0].kubeconfig.expose();
    assert!(kube.contains(&format!("server: https://{}\n", cluster.address)), "no server");
    assert!(kube.contains("tls-server-name: 10.0.0.20\n"), "no name");
    assert_eq!(kubeconfig::expiry(kube).unwrap()[0].context, "admin@home");
    let talos = files[0].talosconfig.expose();
    assert_eq!(talosconfig::expiry(talos).unwrap()[0].context, "home");
    assert!(talos.contains("nodes:\n            - 10.0.0.11\n"), "no nodes");
}

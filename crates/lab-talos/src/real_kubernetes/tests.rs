//! Tests with real kube-apiserver and etcd programs. They are skipped if the programs are not installed.

use std::env;
use std::time::Duration;

use serde_json::{Value, json};
use talmox_clock::Clock;
use talmox_lab_kube::object::{has_condition, is_being_deleted, list, name, text};
use talmox_talos_config::generate::Role;

use super::RealKubernetes;
use super::client::Client;
use super::process::RealCluster;
use crate::etcd;
use crate::simulation::SimulationSettings;
use crate::test_bench::Bench;

/// Timeout of every wait, in real time. It is sufficient on slow machines.
const TIMEOUT: Duration = Duration::from_mins(2);
const APPS: &str = "/apis/apps/v1/namespaces";

/// Programs from environment variables; `None` if the variables are not set, which is reported on stderr.
#[expect(
    clippy::disallowed_methods,
    reason = "tests find the real programs by environment variables"
)]
pub(super) fn programs() -> Option<RealKubernetes> {
    let named = env::var_os("TALMOX_KUBE_APISERVER").zip(env::var_os("TALMOX_ETCD"));
    let Some((apiserver, etcd)) = named else {
        let missing = "TALMOX_KUBE_APISERVER and TALMOX_ETCD are not set";
        assert_ne!(env::var_os("CI").as_deref(), Some("true".as_ref()), "{missing}");
        // The text is written directly to stderr, because the test harness captures the output of passing tests.
        let text = format!("SKIPPED: {missing}\n");
        std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).unwrap();
        return None;
    };
    Some(RealKubernetes { apiserver: apiserver.into(), etcd: etcd.into() })
}

/// Repeats a request until the answer meets the condition.
pub(super) async fn until(
    client: &mut Client,
    path: &str,
    is_wanted: impl Fn(&Value) -> bool,
) -> Value {
    let deadline = Clock::real().deadline(TIMEOUT);
    loop {
        let answer = client.get(path).await.and_then(super::client::ApiServerAnswer::found);
        match answer {
            Ok(found) if is_wanted(&found) => return found,
            other => assert!(!deadline.has_passed(), "{path}: {other:#?}"),
        }
        Clock::real().sleep(Duration::from_millis(100)).await;
    }
}

async fn until_gone(client: &mut Client, path: &str) {
    let deadline = Clock::real().deadline(TIMEOUT);
    while client.get(path).await.map(|answer| answer.status) != Ok(404) {
        assert!(!deadline.has_passed(), "{path} still exists");
        Clock::real().sleep(Duration::from_millis(100)).await;
    }
}

async fn create(client: &mut Client, path: &str, object: &Value) {
    client.create(path, object).await.unwrap().found().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_has_a_certificate_for_node_names() {
    let Some(programs) = programs() else { return };
    let bench = Bench::new();
    let config = bench.config(&bench.bundle, Role::ControlPlane, |_| {});
    let names = ["10.0.0.11".to_owned()].into();
    let cluster = RealCluster::start(&programs, &config.facts, &names).unwrap();
    let mut client = Client::new(&cluster).unwrap();
    until(&mut client, "/version", |version| text(version, "/gitVersion").starts_with('v')).await;
    // The API server reloads its certificate some time later.
    cluster.add_names(&["10.0.0.12".to_owned()].into()).unwrap();
    let namespaces = until(&mut client, "/api/v1/namespaces", |_| true).await;
    assert_eq!(namespaces["kind"], "NamespaceList");
    assert_eq!(cluster.restart_ended(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_programs_are_restarted_and_reported() {
    let bench = Bench::new();
    let config = bench.config(&bench.bundle, Role::ControlPlane, |_| {});
    let programs = RealKubernetes { apiserver: "true".into(), etcd: "false".into() };
    let cluster = RealCluster::start(&programs, &config.facts, &[].into()).unwrap();
    let deadline = Clock::real().deadline(TIMEOUT);
    let mut problems = String::new();
    while !(problems.contains("kube-apiserver ended") && problems.contains("etcd ended")) {
        assert!(!deadline.has_passed(), "{problems}");
        problems += &cluster.restart_ended().unwrap_or_default();
        Clock::real().sleep(Duration::from_millis(10)).await;
    }
    assert!(problems.contains("etcd ended, exit status: 1"), "{problems}");
}

/// Bench with a control plane and a worker, and a client of the API server.
async fn two_nodes(programs: RealKubernetes) -> (Bench, Client) {
    let bench =
        Bench::with(SimulationSettings { real: Some(programs), ..SimulationSettings::default() });
    let boot = bench.start_control_plane(11);
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    bench.start_worker(21);
    let cluster = bench
        .until("an API server", |talos| {
            bench.simulation.real.get(talos.nodes.get(&11)?.etcd?.cluster)
        })
        .await;
    let mut client = Client::new(&cluster).unwrap();
    for node in ["node-11", "node-21"] {
        let path = format!("/api/v1/nodes/{node}");
        until(&mut client, &path, |node| has_condition(node, "Ready")).await;
    }
    (bench, client)
}

/// Log lines about objects that the API server rejected.
fn logged_rejections(bench: &Bench) -> Vec<String> {
    let lines = bench.simulation.look(|talos| talos.nodes[&11].dmesg.clone());
    lines.into_iter().filter(|line| line.contains("kube-apiserver: ")).collect()
}

fn web(replicas: u64) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })
}

/// Whether all replicas of a Deployment have its current template.
fn is_rolled_out(deployment: &Value) -> bool {
    let status = &deployment["status"];
    let wanted = &deployment["spec"]["replicas"];
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "availableReplicas"]
            .iter()
            .all(|key| status[key] == *wanted)
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_real_api_server_run_on_nodes_of_the_lab() {
    let Some(programs) = programs() else { return };
    let (bench, mut client) = two_nodes(programs).await;
    // Pods are created after their nodes, and the API server rejects no bootstrap object.
    until(&mut client, &format!("{APPS}/kube-system/deployments/coredns"), is_rolled_out).await;
    assert_eq!(logged_rejections(&bench), Vec::<String>::new());
    let system = "/api/v1/namespaces/kube-system/pods";
    for pod in ["kube-apiserver-node-11", "kube-scheduler-node-11"] {
        until(&mut client, &format!("{system}/{pod}"), |pod| has_condition(pod, "Ready")).await;
    }
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-21";
    until(&mut client, lease, |lease| lease["spec"]["holderIdentity"] == "node-21").await;

    create(&mut client, "/api/v1/namespaces", &json!({"metadata": {"name": "team"}})).await;
    create(&mut client, &format!("{APPS}/team/deployments"), &web(2)).await;
    let path = format!("{APPS}/team/deployments/web");
    let made = until(&mut client, &path, is_rolled_out).await;
    let sets = client.list(&format!("{APPS}/team/replicasets")).await.unwrap();
    assert_eq!(sets[0]["metadata"]["ownerReferences"][0]["uid"], made["metadata"]["uid"]);
    let pods = client.list("/api/v1/namespaces/team/pods").await.unwrap();
    assert_eq!(pods.len(), 2);
    for pod in &pods {
        assert!(has_condition(pod, "Ready"), "{pod:#}");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], sets[0]["metadata"]["uid"]);
        assert_eq!(pod["spec"]["nodeName"], "node-21", "{pod:#}");
    }

    // One pod may be evicted. The next eviction must wait until the replacement of that pod is ready.
    let budget = json!({
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    let budgets = "/apis/policy/v1/namespaces/team/poddisruptionbudgets";
    create(&mut client, budgets, &budget).await;
    let is_open = |budget: &Value| budget["status"]["disruptionsAllowed"] == 1;
    until(&mut client, &format!("{budgets}/web"), is_open).await;
    let [first, second] = [&pods[0], &pods[1]].map(|pod| {
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name(pod), "namespace": "team"},
        });
        (format!("/api/v1/namespaces/team/pods/{}", name(pod)), eviction)
    });
    create(&mut client, &format!("{}/eviction", first.0), &first.1).await;
    let rejected = client.create(&format!("{}/eviction", second.0), &second.1).await.unwrap();
    assert_eq!(rejected.status, 429, "{rejected:?}");
    until_gone(&mut client, &first.0).await;
    until(&mut client, &format!("{budgets}/web"), is_open).await;

    let containers = json!([{"name": "web", "image": "web:2"}]);
    let other = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    client.merge(&path, &other).await.unwrap().found().unwrap();
    until(&mut client, &path, is_rolled_out).await;
    // Pods of the previous template are deleted one after the other.
    let is_new =
        |pod: &Value| is_being_deleted(pod) || text(pod, "/spec/containers/0/image") == "web:2";
    until(&mut client, "/api/v1/namespaces/team/pods", |pods| {
        list(pods, "/items").iter().all(is_new)
    })
    .await;

    let cordon = json!({"spec": {"unschedulable": true}});
    client.merge("/api/v1/nodes/node-21", &cordon).await.unwrap().found().unwrap();
    let is_tainted = |node: &Value| {
        let mut taints = list(node, "/spec/taints").iter();
        taints.any(|taint| taint["key"] == "node.kubernetes.io/unschedulable")
    };
    until(&mut client, "/api/v1/nodes/node-21", is_tainted).await;

    client.delete(&path, &json!({"propagationPolicy": "Foreground"})).await.unwrap();
    until_gone(&mut client, &path).await;
    until(&mut client, "/api/v1/namespaces/team/pods", |pods| list(pods, "/items").is_empty())
        .await;
    create(&mut client, "/api/v1/namespaces/team/configmaps", &json!({"metadata": {"name": "a"}}))
        .await;
    client.delete("/api/v1/namespaces/team", &json!({})).await.unwrap();
    until_gone(&mut client, "/api/v1/namespaces/team").await;
    bench.simulation.real.stop();
}

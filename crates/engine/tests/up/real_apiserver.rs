//! Draining a node of a cluster with a real kube-apiserver.

use std::env;
use std::time::Duration;

use talmox_clock::Wait;
use talmox_engine::execute::StepResult;
use talmox_engine::kube::KubeClient;
use talmox_engine::step::StepCode;
use talmox_lab::{NodeSettings, RealKubernetes};
use talmox_plan::manifest::read_manifests;
use talmox_plan::observed::CordonedBy;
use talmox_plan::plan::{Action, DrainNode, Plan, Step, StepId, UncordonNode};

use super::inventory::{HEAD, HOME};
use super::rig::{CompletedRun, LabOptions, Rig};

/// Programs from environment variables. None, with a message, if the variables are not set.
#[expect(
    clippy::disallowed_methods,
    reason = "tests find the real programs by environment variables"
)]
fn programs() -> Option<RealKubernetes> {
    let named = env::var_os("TALMOX_KUBE_APISERVER").zip(env::var_os("TALMOX_ETCD"));
    let Some((apiserver, etcd)) = named else {
        let missing = "TALMOX_KUBE_APISERVER and TALMOX_ETCD are not set";
        assert_ne!(env::var_os("CI").as_deref(), Some("true".as_ref()), "{missing}");
        // Written to stderr directly, because the test harness hides the output of passing tests.
        let text = format!("SKIPPED: {missing}\n");
        std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).unwrap();
        return None;
    };
    Some(RealKubernetes { apiserver: apiserver.into(), etcd: etcd.into() })
}

/// A Deployment with four pods, and a disruption budget that needs this number of them.
fn app(needed: u32) -> String {
    format!(
        "\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: app, namespace: default}}
spec:
  replicas: 4
  selector: {{matchLabels: {{app: app}}}}
  template:
    metadata: {{labels: {{app: app}}}}
    spec: {{containers: [{{name: main, image: 'app:1'}}]}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: app, namespace: default}}
spec:
  minAvailable: {needed}
  selector: {{matchLabels: {{app: app}}}}
"
    )
}

async fn deploy(rig: &Rig, kube: &KubeClient, needed: u32) {
    let manifests = read_manifests("app.yaml", &app(needed)).unwrap();
    let wait = || {
        let clock = rig.lab.clock();
        Wait::new(clock, clock.deadline(Duration::from_mins(30)), "the API server")
    };
    kube.apply(&manifests, &mut wait()).await.unwrap();
    kube.await_rollout(&manifests, &mut wait()).await.unwrap();
}

/// Number of pods of the app that run on a node.
async fn pods(kube: &KubeClient, node: &str) -> usize {
    let pods = kube.pods_to_evict(node).await.unwrap();
    pods.iter().filter(|pod| pod.name.starts_with("app-") && !pod.is_ending).count()
}

async fn run(rig: &Rig, text: &str, action: Action) -> CompletedRun {
    let step = Step { id: StepId::new("the/step"), node: None, action, after: vec![] };
    let plan =
        Plan { cluster: "home".to_owned(), changes: vec![], findings: vec![], steps: vec![step] };
    rig.carry_out(plan, text, None).await
}

fn drain(node: &str, deadline: Duration) -> Action {
    Action::DrainNode(DrainNode { node: node.to_owned(), evicts: true, deadline })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_evicts_pods_within_their_budget() {
    let Some(programs) = programs() else { return };
    let lab_options = LabOptions::default();
    let nodes = NodeSettings { real: Some(programs), ..lab_options.nodes };
    // The API server uses the real clock, and rejects certificates of a later time.
    let rig = Rig::of(LabOptions { nodes, speed: 1.0, ..lab_options });
    let text = format!("{HEAD}{HOME}");
    rig.up(&text).await.assert_done();
    let kube = rig.kube(&text);

    // With a budget that needs all pods, no pod leaves, and the error names the budget.
    deploy(&rig, &kube, 4).await;
    let mut workers = vec![];
    for worker in ["wk-1", "wk-2"] {
        workers.push((pods(&kube, worker).await, worker));
    }
    let (count, node) = workers.into_iter().max().unwrap();
    assert!(count > 0, "no worker runs the app");
    let ran = run(&rig, &text, drain(node, Duration::from_secs(20))).await;
    let StepResult::Failed(error) = &ran.outcome.steps[0].1 else { panic!("it is drained") };
    assert_eq!(error.code, StepCode::DrainBlocked, "{}", ran.failures());
    assert!(error.message.contains("The disruption budget app needs 4"), "{}", error.message);
    assert!(error.message.contains("default/app-"), "{}", error.message);
    assert_eq!(pods(&kube, node).await, count);
    let cordon = kube.node_cordon(node).await.unwrap().unwrap();
    assert_eq!((cordon.by, cordon.is_marked), (Some(CordonedBy::Talmox), true));

    // With a budget that needs one pod less, all pods move, one after the other.
    deploy(&rig, &kube, 3).await;
    let ran = run(&rig, &text, drain(node, Duration::from_secs(40))).await;
    ran.assert_done();
    assert!(kube.pods_to_evict(node).await.unwrap().is_empty());
    deploy(&rig, &kube, 3).await;
    let other = if node == "wk-1" { "wk-2" } else { "wk-1" };
    assert_eq!(pods(&kube, other).await, 4);

    let uncordon = UncordonNode {
        node: node.to_owned(),
        awaits_ready: true,
        is_asked: false,
        deadline: Duration::from_mins(30),
    };
    run(&rig, &text, Action::UncordonNode(uncordon)).await.assert_done();
    let cordon = kube.node_cordon(node).await.unwrap().unwrap();
    assert_eq!((cordon.by, cordon.is_marked), (None, false));
}

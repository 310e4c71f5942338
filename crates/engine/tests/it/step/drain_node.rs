use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use talmox_engine::execute::StepResult;
use talmox_engine::step::{Cut, CutHook, Moment};
use talmox_plan::plan::{Action, DrainNode, UncordonNode};

use super::rig::Rig;
use crate::kube::cluster::{Cluster, VIP, machine};
use crate::kube::drain::{deploy, pods_on, protect};

/// A rig whose steps use the Kubernetes API of this cluster.
fn rig(cluster: &Cluster) -> Rig {
    let mut rig = Rig::at(cluster.clock);
    rig.lead(VIP, 6443, cluster.address);
    rig
}

fn drain(node: &str) -> Action {
    drain_within(node, Duration::from_hours(1))
}

fn drain_within(node: &str, deadline: Duration) -> Action {
    Action::DrainNode(DrainNode { node: node.to_owned(), evicts: true, deadline })
}

fn uncordon(node: &str, is_asked: bool) -> Action {
    Action::UncordonNode(UncordonNode {
        node: node.to_owned(),
        awaits_ready: true,
        is_asked,
        deadline: Duration::from_mins(5),
    })
}

/// Whether a node is cordoned, and whether it has the annotation of talmox.
fn cordon(cluster: &Cluster, node: &str) -> (bool, bool) {
    let node = cluster.store.get("nodes", "", node).unwrap();
    let mark = node["metadata"]["annotations"].get("talmox/cordoned");
    (node["spec"]["unschedulable"] == true, mark.is_some())
}

/// Number of running pods of the app.
fn running(cluster: &Cluster) -> usize {
    let runs = |pod: &Value| {
        pod["metadata"]["labels"]["app"] == "app"
            && pod["metadata"]["deletionTimestamp"].is_null()
            && pod["status"]["phase"] == "Running"
    };
    cluster.store.list("pods").iter().filter(|pod| runs(pod)).count()
}

#[tokio::test]
async fn the_pods_of_a_drained_node_run_elsewhere() {
    let cluster = Cluster::start_ready(&["worker-1", "worker-2"]).await;
    deploy(&cluster).await;
    let rig = rig(&cluster);
    assert!(pods_on(&cluster.store, "worker-1") > 1);
    let report = rig.run(drain("worker-1")).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(cordon(&cluster, "worker-1"), (true, true));
    // Only the pod of flannel is left.
    assert_eq!(pods_on(&cluster.store, "worker-1"), 1);
    cluster.until(|_| running(&cluster) == 4).await;
    assert_eq!(pods_on(&cluster.store, "worker-2"), 5);
    let report = rig.run(drain("worker-1")).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);

    for (expected, is_done) in [("the cordon of talmox", true), ("no cordon", false)] {
        let report = rig.run(uncordon("worker-1", false)).await;
        let found = matches!(report.result, StepResult::Done);
        assert_eq!(found, is_done, "{expected}: {:?}", report.result);
        assert_eq!(cordon(&cluster, "worker-1"), (false, false));
    }
}

#[tokio::test]
async fn a_foreign_cordon_stays_unless_a_user_asks() {
    let cluster = Cluster::start_ready(&["worker-1", "worker-2"]).await;
    deploy(&cluster).await;
    let rig = rig(&cluster);
    cluster.store.change("nodes", "", "worker-1", |node| {
        node["spec"]["unschedulable"] = true.into();
    });
    let report = rig.run(drain("worker-1")).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(pods_on(&cluster.store, "worker-1"), 1);
    assert_eq!(cordon(&cluster, "worker-1"), (true, false));
    let report = rig.run(uncordon("worker-1", false)).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
    assert_eq!(report.notes, ["worker-1 stays cordoned: talmox did not cordon it"]);
    assert_eq!(cordon(&cluster, "worker-1"), (true, false));
    let report = rig.run(uncordon("worker-1", true)).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(cordon(&cluster, "worker-1"), (false, false));
}

#[tokio::test]
async fn a_budget_is_never_violated_and_is_the_reason_of_the_wait() {
    let cluster = Cluster::start_ready(&["worker-1"]).await;
    deploy(&cluster).await;
    protect(&cluster, 4).await;
    let rig = rig(&cluster);
    let report = rig.run(drain_within("worker-1", Duration::from_mins(5))).await;
    let failure = report.failure();
    let start = "worker-1 is not drained in time: 4 pods are still on worker-1; default/app-";
    assert!(failure.starts_with(start), "{failure}");
    let budget = "The disruption budget app needs 4 healthy pods and has 4 currently";
    assert_eq!(failure.matches(budget).count(), 4, "{failure}");
    assert_eq!((running(&cluster), cordon(&cluster, "worker-1")), (4, (true, true)));

    // With another node and a budget that allows one pod less, all move.
    cluster.store.start_kubelet(machine("worker-2", 1));
    cluster.store.change("poddisruptionbudgets.policy", "default", "app", |budget| {
        budget["spec"]["minAvailable"] = 3.into();
    });
    let report = rig.run(drain("worker-1")).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(pods_on(&cluster.store, "worker-1"), 1);
}

#[tokio::test]
async fn a_pod_without_a_controller_is_evicted_unless_the_node_is_only_cordoned() {
    let cluster = Cluster::start_ready(&["worker-1"]).await;
    let rig = rig(&cluster);
    let single = json!({
        "metadata": {"name": "single", "namespace": "default"},
        "spec": {
            "nodeName": "worker-1",
            "containers": [{"name": "main", "image": "app:1"}],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        },
    });
    cluster.store.create("pods", single).unwrap();
    let deadline = Duration::from_mins(5);
    let only_cordon = DrainNode { node: "worker-1".to_owned(), evicts: false, deadline };
    let report = rig.run(Action::DrainNode(only_cordon)).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert!(cluster.store.get("pods", "default", "single").is_some());
    let report = rig.run(drain("worker-1")).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert!(cluster.store.get("pods", "default", "single").is_none());
}

#[tokio::test]
async fn a_node_that_is_not_registered_has_no_pods_and_is_waited_for_afterwards() {
    let cluster = Cluster::start_ready(&["worker-1"]).await;
    let rig = rig(&cluster);
    let report = rig.run(drain("worker-2")).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
    let report = rig.run(uncordon("worker-2", false)).await;
    assert_eq!(
        report.failure(),
        "worker-2 is not ready in time: waiting for the kubelet to register the node"
    );
}

#[tokio::test]
async fn a_drain_killed_anywhere_is_finished_by_the_next_run() {
    for (moment, cut) in [
        (Moment::BeforeAct, Cut::Crash),
        (Moment::AfterAct, Cut::Crash),
        (Moment::BeforeAct, Cut::Fail),
        (Moment::AfterAct, Cut::Fail),
    ] {
        // The first change is the cordon, the second one the first evictions.
        for nth in [1, 2] {
            let what = format!("{moment:?} {cut:?} {nth}");
            let cluster = Cluster::start_ready(&["worker-1", "worker-2"]).await;
            deploy(&cluster).await;
            let rig = rig(&cluster);
            let seen = Mutex::new(0);
            let hook: CutHook = Arc::new(move |_, at| {
                let mut seen = seen.lock().unwrap();
                *seen += u32::from(at == moment);
                if at == moment && *seen == nth { cut } else { Cut::Go }
            });
            let report = rig.run_cut(drain("worker-1"), Some(hook)).await;
            assert!(matches!(report.result, StepResult::Failed(_)), "{what}: {:?}", report.result);
            let report = rig.run(drain("worker-1")).await;
            assert!(!matches!(report.result, StepResult::Failed(_)), "{what}: {:?}", report.result);
            assert_eq!(pods_on(&cluster.store, "worker-1"), 1, "{what}");
            assert_eq!(cordon(&cluster, "worker-1"), (true, true), "{what}");
            let report = rig.run(uncordon("worker-1", false)).await;
            assert!(matches!(report.result, StepResult::Done), "{what}: {:?}", report.result);
        }
    }
}

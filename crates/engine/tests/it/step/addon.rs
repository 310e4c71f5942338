use std::time::Duration;

use talmox_engine::execute::StepResult;
use talmox_plan::desired::{AddonSource, ManifestFile};
use talmox_plan::plan::{Action, ApplyAddon};

use super::rig::Rig;
use crate::kube::cluster::{Cluster, VIP};

fn addon(text: &str) -> Action {
    let text = ManifestFile { origin: "net.yaml".to_owned(), text: text.to_owned().into() };
    Action::ApplyAddon(ApplyAddon {
        name: "net".to_owned(),
        source: AddonSource::Texts(vec![text]),
        namespace: None,
        skips_rollout: false,
        deadline: Duration::from_mins(10),
    })
}

#[tokio::test]
async fn an_add_on_with_a_network_makes_nodes_ready() {
    let cluster = Cluster::start(&["cp-11"]).await;
    let mut rig = Rig::at(cluster.clock);
    rig.lead(VIP, 6443, cluster.address);
    let mut set = crate::kube::cluster::flannel();
    set["apiVersion"] = "apps/v1".into();
    set["kind"] = "DaemonSet".into();
    // JSON text is valid YAML.
    let report = rig.run(addon(&set.to_string())).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    cluster
        .until(|store| {
            let node = store.get("nodes", "", "cp-11").unwrap();
            let conditions = node["status"]["conditions"].as_array().unwrap();
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        })
        .await;
}

#[tokio::test]
async fn an_invalid_manifest_is_reported_with_its_file() {
    let rig = Rig::new();
    let report = rig.run(addon("kind: Pod\n")).await;
    assert_eq!(report.failure(), "add-on net: net.yaml, document 1: it has no `apiVersion`");
}

#[tokio::test]
async fn a_missing_kind_has_a_hint_to_create_it() {
    let cluster = Cluster::start(&[]).await;
    let mut rig = Rig::at(cluster.clock);
    rig.lead(VIP, 6443, cluster.address);
    let report =
        rig.run(addon("apiVersion: no.example/v1\nkind: Such\nmetadata: {name: thing}\n")).await;
    assert!(report.failure().contains("the Kubernetes API has no"), "{}", report.failure());
    assert!(report.hint().starts_with("create it with an add-on"), "{}", report.hint());
}

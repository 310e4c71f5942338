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
        deadline: Duration::from_mins(10),
    })
}

#[tokio::test]
async fn an_add_on_that_brings_a_network_makes_nodes_ready() {
    let cluster = Cluster::start(&["cp-11"]).await;
    let mut rig = Rig::at(cluster.clock);
    rig.lead(VIP, 6443, cluster.address);
    let mut set = crate::kube::cluster::flannel();
    set["apiVersion"] = "apps/v1".into();
    set["kind"] = "DaemonSet".into();
    // JSON text is valid YAML.
    let told = rig.run(addon(&set.to_string())).await;
    assert!(matches!(told.result, StepResult::Done), "{:?}", told.result);
    cluster
        .until(|store| {
            let node = store.get("nodes", "", "cp-11").unwrap();
            let conditions = node["status"]["conditions"].as_array().unwrap();
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        })
        .await;
}

#[tokio::test]
async fn an_add_on_that_is_no_manifest_names_its_file() {
    let rig = Rig::new();
    let told = rig.run(addon("kind: Pod\n")).await;
    assert_eq!(told.failure(), "add-on net: net.yaml, document 1: it has no `apiVersion`");
}

#[tokio::test]
async fn who_waits_for_what_nobody_brings_hears_that_it_is_to_be_brought() {
    let cluster = Cluster::start(&[]).await;
    let mut rig = Rig::at(cluster.clock);
    rig.lead(VIP, 6443, cluster.address);
    let told =
        rig.run(addon("apiVersion: no.example/v1\nkind: Such\nmetadata: {name: thing}\n")).await;
    assert!(told.failure().contains("the Kubernetes API has no"), "{}", told.failure());
    assert!(told.hint().starts_with("create it with an add-on"), "{}", told.hint());
}

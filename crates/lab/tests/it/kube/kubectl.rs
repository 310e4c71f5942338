//! The real kubectl, where there is one.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::cluster::{Cluster, deployment};
use crate::kubectl::Kubectl;

fn find(cluster: &Cluster) -> Option<Kubectl> {
    let (certificate, key) = cluster.certificate("admin", &["system:masters"]);
    let data = |pem: String| STANDARD.encode(pem);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {
            "server": format!("https://{}", cluster.address),
            "certificate-authority-data": data(cluster.authority_pem()),
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": data(certificate),
            "client-key-data": data(key),
        }}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "admin"}}],
        "current-context": "lab",
    });
    Kubectl::find(&config.to_string())
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "pools.lab.example"},
        "spec": {
            "group": "lab.example",
            "scope": "Namespaced",
            "names": {"plural": "pools", "singular": "pool", "kind": "Pool"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_applies_and_waits() {
    let cluster = Cluster::start_ready(&["cp-1", "w-1", "w-2"]).await;
    let Some(kubectl) = find(&cluster) else { return };
    let nodes = kubectl.run("get nodes");
    let line = nodes.lines().find(|line| line.starts_with("cp-1")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((words[1], words[2], words[4]), ("Ready", "control-plane", "v1.32.4"));
    assert!(kubectl.run("get nodes -o wide").contains("Talos (v1.10.0)"));
    assert!(kubectl.run("get nodes -o yaml").contains("kubeletVersion: v1.32.4"));
    let json: Value = serde_json::from_str(&kubectl.run("get no w-1 -o json")).unwrap();
    assert_eq!(json["metadata"]["name"], "w-1");
    assert!(kubectl.run("get all -A").contains("daemonset.apps/kube-flannel"));
    assert!(kubectl.run("api-resources").contains("deployments"));
    assert!(kubectl.run("version").contains("v1.32.4"));

    let web = kubectl.file("web.json", &[deployment("web", 2, "web:1")]);
    assert!(kubectl.run(&format!("apply --server-side -f {web}")).contains("serverside-applied"));
    kubectl.run("wait --for=condition=Available deployment/web --timeout=60s");
    kubectl.run("rollout status deployment/web --timeout=60s");
    assert!(kubectl.run("get deploy").contains("2/2"));
    let plain = kubectl.file("plain.json", &[deployment("plain", 1, "web:1")]);
    kubectl.run(&format!("apply -f {plain}"));
    assert!(kubectl.run(&format!("apply -f {plain}")).contains("unchanged"));

    let kind = kubectl.file("kind.json", &[definition()]);
    kubectl.run(&format!("apply --server-side -f {kind}"));
    kubectl.run("wait --for=condition=Established crd/pools.lab.example --timeout=60s");
    let pool = json!({
        "apiVersion": "lab.example/v1",
        "kind": "Pool",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"size": 3},
    });
    let pool = kubectl.file("pool.json", &[pool]);
    kubectl.run(&format!("apply --server-side -f {pool}"));
    assert!(kubectl.run("get pools").contains('a'));
    kubectl.run("label pool a color=red");
    assert!(kubectl.run("get pools -l color=red -o name").contains("pool.lab.example/a"));
    kubectl.run("annotate node w-1 note=here");
    kubectl.run("patch pool a --type=merge -p {\"spec\":{\"size\":4}}");
    assert_eq!(kubectl.run("get pool a -o jsonpath={.spec.size}"), "4");
    kubectl.run("create configmap conf --from-literal=a=1");
    assert!(kubectl.fail("create configmap conf").contains("already exists"));
    assert!(kubectl.fail("get pod none").contains("pods \"none\" not found"));
    assert!(kubectl.run("auth can-i delete pods").contains("yes"));
    assert!(kubectl.run("auth whoami").contains("system:masters"));
    assert!(kubectl.run("describe node w-1").contains("Kubelet Version"));
    kubectl.run("delete pool a");
    kubectl.run("delete crd pools.lab.example");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_cordons_drains_watches_and_deletes() {
    let cluster = Cluster::start_ready(&["w-1", "w-2"]).await;
    let Some(kubectl) = find(&cluster) else { return };
    kubectl.run("create deployment web --image=web:1 --replicas=4");
    kubectl.run("wait --for=condition=Available deployment/web --timeout=60s");
    kubectl.run("cordon w-1");
    assert!(kubectl.run("get node w-1").contains("Ready,SchedulingDisabled"));
    let drained = kubectl.run("drain w-1 --ignore-daemonsets --delete-emptydir-data --timeout=60s");
    assert!(drained.contains("evicted"), "{drained}");
    let left = kubectl.run("get pods --field-selector spec.nodeName=w-1 -o name");
    assert_eq!(left, "");
    kubectl.run("uncordon w-1");
    kubectl.run("scale deployment web --replicas=1");
    let mut watching =
        kubectl.command("get deployments -w").stdout(Stdio::piped()).spawn().unwrap();
    let mut seen = BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(seen.next().unwrap().starts_with("NAME"));
    assert!(seen.next().unwrap().starts_with("web"));
    kubectl.run("set image deployment/web web=web:2");
    assert!(seen.next().unwrap().starts_with("web"));
    watching.kill().unwrap();
    watching.wait().unwrap();
    kubectl.run("rollout status deployment/web --timeout=60s");
    kubectl.run("create namespace team");
    kubectl.run("create configmap conf -n team");
    kubectl.run("delete namespace team --timeout=60s");
    kubectl.run("delete deployment web --timeout=60s");
    kubectl.run("delete node w-2");
    assert!(!kubectl.run("get nodes").contains("w-2"));
}

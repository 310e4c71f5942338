//! Test of the real kubectl with the kubeconfig of a simulated node.

use serde_json::{Value, json};

use crate::kubectl::Kubectl;

use super::test_bed::TestBed;

fn deployment(name: &str, replicas: u64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

#[test]
fn kubectl_works_with_a_simulated_cluster() {
    let bed = TestBed::new("v1.13.6");
    for number in [11, 12, 13] {
        bed.start(number);
    }
    let kubeconfig = bed.lab.wait(async {
        let plane = bed.bootstrap(11).await;
        for number in [12, 13] {
            let worker = bed.configure(number, false).await;
            bed.ready(&worker).await;
        }
        plane.kubeconfig().await.unwrap()
    });
    // kubectl does not use the reach map of the lab.
    let server = bed.loopback(11);
    let Some(kubectl) = Kubectl::find(&kubeconfig.expose().replace("10.0.0.11", &server)) else {
        return;
    };
    kubectl.run("wait --for=condition=Ready nodes --all --timeout=90s");
    let nodes = kubectl.run("get nodes -o wide");
    for (name, role) in [("node-11", "control-plane"), ("node-12", "<none>"), ("node-13", "<none>")]
    {
        let line = nodes.lines().find(|line| line.starts_with(name)).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[1], words[2], words[4]), ("Ready", role, "v1.34.1"), "{nodes}");
        assert!(line.contains("Talos (v1.13.6)"), "{line}");
    }
    let pods = kubectl.run("get pods -n kube-system");
    for pod in ["kube-apiserver-node-11", "kube-scheduler-node-11", "kube-flannel", "coredns"] {
        assert!(pods.contains(pod), "{pod}: {pods}");
    }
    assert!(kubectl.run("auth whoami").contains("system:masters"));

    let web = kubectl.file("web.json", &[deployment("web", 4, "web:1")]);
    let applied = kubectl.run(&format!("apply --server-side -f {web}"));
    assert!(applied.contains("serverside-applied"), "{applied}");
    kubectl.run("wait --for=condition=Available deployment/web --timeout=90s");
    kubectl.run("cordon node-12");
    assert!(kubectl.run("get node node-12").contains("Ready,SchedulingDisabled"));
    let drained =
        kubectl.run("drain node-12 --ignore-daemonsets --delete-emptydir-data --timeout=90s");
    assert!(drained.contains("drained"), "{drained}");
    let elsewhere = "--field-selector spec.nodeName=node-12 -o name";
    assert_eq!(kubectl.run(&format!("get pods {elsewhere}")), "");
    kubectl.run("wait --for=condition=Available deployment/web --timeout=90s");
    kubectl.run("delete deployment web --timeout=90s");
    kubectl.run("wait --for=delete pods -l app=web --timeout=90s");

    // A running kubelet registers its node again. A stopped kubelet does not.
    bed.stop(12);
    kubectl.run("delete node node-12");
    assert!(!kubectl.run("get nodes").contains("node-12"));
    bed.lab.stop();
}

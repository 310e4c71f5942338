use serde_json::{Value, json};
use talmox_lab_kube::object::{annotation, has_condition, label, list, text};
use talmox_talos_config::generate::Role;

use super::{apply, control_planes};
use crate::test_bench::new_bundle;

#[tokio::test(flavor = "multi_thread")]
async fn a_bootstrapped_cluster_becomes_ready() {
    let bench = control_planes(3, |_| {}).await;
    bench.start_worker(21);
    let store = bench.store_of(11);
    for name in ["node-11", "node-12", "node-13", "node-21"] {
        bench.until_object(&store, ("nodes", "", name), |node| has_condition(node, "Ready")).await;
    }
    let node = store.get("nodes", "", "node-12").unwrap();
    assert_eq!(label(&node, "node-role.kubernetes.io/control-plane"), Some(""));
    assert_eq!(list(&node, "/spec/taints").len(), 1);
    assert_eq!(text(&node, "/status/nodeInfo/osImage"), "Talos (v1.11.3)");
    assert_eq!(text(&node, "/status/nodeInfo/kubeletVersion"), "v1.34.1");
    assert_eq!(text(&node, "/status/addresses/0/address"), "10.0.0.12");
    let worker = store.get("nodes", "", "node-21").unwrap();
    assert_eq!(label(&worker, "node-role.kubernetes.io/control-plane"), None);
    for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        let name = format!("{name}-node-13");
        let key = ("pods", "kube-system", name.as_str());
        let pod = bench.until_object(&store, key, |pod| has_condition(pod, "Ready")).await;
        assert_eq!(annotation(&pod, "talos.dev/config-version"), Some("1"));
        assert!(text(&pod, "/spec/containers/0/image").ends_with(":v1.34.1"));
    }
    let dns = ("deployments.apps", "kube-system", "coredns");
    bench.until_object(&store, dns, |dns| has_condition(dns, "Available")).await;
    let proxy = store.get("daemonsets.apps", "kube-system", "kube-proxy").unwrap();
    assert_eq!(
        text(&proxy, "/spec/template/spec/containers/0/image"),
        "registry.k8s.io/kube-proxy:v1.34.1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_not_ready_without_a_cni() {
    let bench = control_planes(1, |facts| {
        facts.cni = "none".to_owned();
        facts.has_proxy = false;
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: inline, namespace: x}\n";
        let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n";
        facts.inline_manifests = vec![("mine".to_owned(), format!("{map}---\n{namespace}"))];
    })
    .await;
    let store = bench.store_of(11);
    // The manifest contains the namespace after the ConfigMap, so the creation of the ConfigMap is retried.
    bench.until_object(&store, ("configmaps", "x", "inline"), |_| true).await;
    let pod = ("pods", "kube-system", "kube-apiserver-node-11");
    bench.until_object(&store, pod, |pod| has_condition(pod, "Ready")).await;
    let node = store.get("nodes", "", "node-11").unwrap();
    assert!(!has_condition(&node, "Ready"));
    assert!(store.get("daemonsets.apps", "kube-system", "kube-flannel").is_none());
    assert!(store.get("daemonsets.apps", "kube-system", "kube-proxy").is_none());
    // A DaemonSet with a read-only mount does not install a CNI config.
    store.create("daemonsets.apps", host_daemon("reader", true)).unwrap();
    let is_ready = |set: &Value| set["status"]["numberReady"] == 1;
    bench.until_object(&store, ("daemonsets.apps", "kube-system", "reader"), is_ready).await;
    assert!(!has_condition(&store.get("nodes", "", "node-11").unwrap(), "Ready"));
    store.create("daemonsets.apps", host_daemon("mynet", false)).unwrap();
    bench.until_object(&store, ("nodes", "", "node-11"), |node| has_condition(node, "Ready")).await;
}

/// DaemonSet whose init container mounts the CNI config folder of the host.
fn host_daemon(name: &str, is_reader: bool) -> Value {
    let mount = json!({"name": "settings", "mountPath": "/host", "readOnly": is_reader});
    json!({
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "hostNetwork": true,
                    "tolerations": [{"operator": "Exists"}],
                    "initContainers": [{"name": "install", "image": "x:1", "volumeMounts": [mount]}],
                    "containers": [{"name": "main", "image": "x:1"}],
                    "volumes": [{"name": "settings", "hostPath": {"path": "/etc/cni/net.d/"}}],
                },
            },
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_wrong_secrets_do_not_join() {
    let bench = control_planes(1, |_| {}).await;
    let other = new_bundle();
    let wrong_token = bench.config(&bench.bundle, Role::Worker, |facts| {
        facts.bootstrap_token = "abcdef.0123456789abcdef".to_owned();
    });
    bench.start(21, wrong_token);
    let wrong_authority = bench.config(&bench.bundle, Role::Worker, |facts| {
        facts.kube_ca = other.certs.k8s.authority().unwrap().certificate.to_pem();
    });
    bench.start(22, wrong_authority);
    for (vmid, reason) in [(21, "Unauthorized"), (22, "signed by unknown authority")] {
        bench
            .until(reason, |talos| {
                let last = talos.nodes.get(&vmid)?.services.get("kubelet")?.log.back()?;
                last.contains(reason).then_some(())
            })
            .await;
    }
    let store = bench.store_of(11);
    assert!(store.get("nodes", "", "node-21").is_none());
    assert!(store.get("nodes", "", "node-22").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_node_becomes_unreachable_and_ready_again_after_a_restart() {
    let bench = control_planes(1, |_| {}).await;
    bench.start_worker(21);
    let store = bench.store_of(11);
    let worker = ("nodes", "", "node-21");
    bench.until_object(&store, worker, |node| has_condition(node, "Ready")).await;
    bench.kill(21);
    let missed = |node: &Value| text(node, "/spec/taints/0/key").contains("unreachable");
    bench.until_object(&store, worker, missed).await;
    bench.start_worker(21);
    bench.until_object(&store, worker, |node| has_condition(node, "Ready")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_used_the_name_of_another_returns_it_unchanged() {
    let bench = control_planes(1, |_| {}).await;
    let boot = bench.start_worker(22);
    bench.start_worker(21);
    let store = bench.store_of(11);
    let (owner, other) = (("nodes", "", "node-21"), ("nodes", "", "node-22"));
    let is_at = |address: &'static str| {
        move |node: &Value| text(node, "/status/addresses/0/address") == address
    };
    let rename = |name: &str| {
        bench.simulation.change_node(22, boot, |node| node.network.hostname = name.to_owned());
    };
    for node in [owner, other] {
        bench.until_object(&store, node, |node| has_condition(node, "Ready")).await;
    }
    rename("node-21");
    bench.until_object(&store, owner, is_at("10.0.0.22")).await;
    bench.until_object(&store, other, |node| !has_condition(node, "Ready")).await;
    rename("node-22");
    bench.until_object(&store, other, |node| has_condition(node, "Ready")).await;
    bench.until_object(&store, owner, is_at("10.0.0.21")).await;
    // The heartbeats of node-21 must continue. If they had stopped before those of node-22, node-21 would become not ready
    // before node-22.
    bench.kill(22);
    bench.until_object(&store, other, |node| !has_condition(node, "Ready")).await;
    assert!(has_condition(&store.get("nodes", "", "node-21").unwrap(), "Ready"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partitioned_node_is_not_ready_until_the_partition_ends() {
    let bench = control_planes(1, |_| {}).await;
    bench.start_worker(21);
    let store = bench.store_of(11);
    let worker = ("nodes", "", "node-21");
    bench.until_object(&store, worker, |node| has_condition(node, "Ready")).await;
    bench.simulation.change(|talos| talos.add_partition(vec![vec!["10.0.0.21".to_owned()]]));
    bench.until_object(&store, worker, |node| !has_condition(node, "Ready")).await;
    // A node that starts during the partition does not join.
    bench.simulation.change(|talos| talos.add_partition(vec![vec!["22".to_owned()]]));
    bench.start_worker(22);
    bench.until_healthy(22, "kubelet").await;
    bench
        .until("the kubelet to log the reason", |talos| {
            let kubelet = talos.nodes.get(&22)?.services.get("kubelet")?;
            let last = kubelet.log.back()?;
            let healthy = "Health check successful";
            assert_eq!(kubelet.events.back().map(|event| event.message.as_str()), Some(healthy));
            assert!(kubelet.is_healthy());
            last.contains("Unable to register").then_some(())
        })
        .await;
    bench.simulation.change(|talos| talos.partitions.clear());
    bench.until_object(&store, worker, |node| has_condition(node, "Ready")).await;
    let other = ("nodes", "", "node-22");
    bench.until_object(&store, other, |node| has_condition(node, "Ready")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_images_are_rolled_out() {
    let bench = control_planes(1, |_| {}).await;
    let store = bench.store_of(11);
    bench.until_object(&store, ("nodes", "", "node-11"), |n| has_condition(n, "Ready")).await;
    let newer = bench.config(&bench.bundle, Role::ControlPlane, |facts| {
        facts.scheduler_image = "registry.k8s.io/kube-scheduler:v1.34.2".to_owned();
        facts.kubelet_version = "v1.34.2".to_owned();
        facts.node_labels.insert("shelf".to_owned(), "7".to_owned());
        facts.schedules_on_control_planes = true;
    });
    apply(&bench, 11, newer);
    let pod = ("pods", "kube-system", "kube-scheduler-node-11");
    let is_newer = |pod: &Value| {
        annotation(pod, "talos.dev/config-version") == Some("2")
            && text(pod, "/spec/containers/0/image").ends_with("v1.34.2")
            && has_condition(pod, "Ready")
    };
    bench.until_object(&store, pod, is_newer).await;
    let is_newer = |node: &Value| {
        text(node, "/status/nodeInfo/kubeletVersion") == "v1.34.2"
            && label(node, "shelf") == Some("7")
            && list(node, "/spec/taints").is_empty()
            && has_condition(node, "Ready")
    };
    bench.until_object(&store, ("nodes", "", "node-11"), is_newer).await;
    let server = store.get("pods", "kube-system", "kube-apiserver-node-11").unwrap();
    assert_eq!(annotation(&server, "talos.dev/config-version"), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_admitted_by_the_configured_policy() {
    let bench = control_planes(1, |_| {}).await;
    let store = bench.store_of(11);
    let server = ("pods", "kube-system", "kube-apiserver-node-11");
    bench.until_object(&store, server, |pod| has_condition(pod, "Ready")).await;
    let pod = serde_json::json!({
        "metadata": {"name": "tool", "namespace": "default"},
        "spec": {"hostPID": true, "containers": [{"name": "tool", "image": "tool:1"}]},
    });
    let rejected = store.create("pods", pod.clone()).unwrap_err();
    let cause = "violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    assert_eq!(rejected.message, format!("pods \"tool\" is forbidden: {cause}"));
    let lax = bench.config(&bench.bundle, Role::ControlPlane, |facts| {
        facts.admission_control.clear();
    });
    apply(&bench, 11, lax);
    // The API server restarts.
    let is_newer = |pod: &Value| {
        annotation(pod, "talos.dev/config-version") == Some("2") && has_condition(pod, "Ready")
    };
    bench.until_object(&store, server, is_newer).await;
    bench.until("the restarted API server", |_| store.create("pods", pod.clone()).ok()).await;
}

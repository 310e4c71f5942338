//! Tests with the real kubectl. They are skipped if kubectl is not installed.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::cluster::{Cluster, deployment};
use crate::real_kubectl::Kubectl;

impl Kubectl {
    /// Runs a command that must fail, and returns its error output.
    fn fail(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        assert!(!output.status.success(), "kubectl {line} succeeded");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

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
async fn kubectl_gets_applies_and_waits() {
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
    for kept in ["default", "kube-public", "kube-system"] {
        let rejected = kubectl.fail(&format!("delete namespace {kept} --timeout=60s"));
        let words =
            format!("namespaces \"{kept}\" is forbidden: this namespace may not be deleted");
        assert_eq!(rejected.trim(), format!("Error from server (Forbidden): {words}"));
    }
    kubectl.run("delete deployment web --timeout=60s");
    kubectl.run("delete node w-2");
    assert!(!kubectl.run("get nodes").contains("w-2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_describes_nodes_and_reports_missing_objects() {
    let cluster = Cluster::start_ready(&["cp-1", "w-1"]).await;
    let Some(kubectl) = find(&cluster) else { return };
    let description = kubectl.run("describe node w-1");
    assert!(
        description.contains("RenewTime:") && !description.contains("Failed to get lease"),
        "{description}"
    );
    assert!(!description.contains("0001 00:00:00"), "a zero heartbeat time: {description}");
    let lease = kubectl.run("get lease w-1 -n kube-node-lease -o jsonpath={.spec.renewTime}");
    assert_eq!(lease.len(), "2026-01-01T00:00:00.000000Z".len(), "{lease}");

    assert_eq!(kubectl.fail("top nodes"), "error: Metrics API not available\n");
    assert!(kubectl.fail("explain pods").contains("not found in OpenAPI schema"));
    kubectl.run("create deployment web --image=web:1");
    kubectl.run("wait --for=condition=Available deployment/web --timeout=60s");
    let pod = kubectl.run("get pods -o name");
    let said = kubectl.fail(&format!("logs {pod}"));
    let rejected = "dial tcp 10.0.0.12:10250: connect: connection refused";
    assert!(said.contains("/containerLogs/default/web-") && said.contains(rejected), "{said}");
    let said = kubectl.fail(&format!("exec {} -- ls", pod.trim()));
    assert!(said.contains("error dialing backend") && said.contains(rejected), "{said}");

    // The tables must have the same columns as those of a real API server.
    for (kind, columns) in [
        (
            "nodes -o wide",
            "NAME STATUS ROLES AGE VERSION INTERNAL-IP EXTERNAL-IP OS-IMAGE KERNEL-VERSION CONTAINER-RUNTIME",
        ),
        ("pods -A", "NAMESPACE NAME READY STATUS RESTARTS AGE"),
        ("priorityclasses", "NAME VALUE GLOBAL-DEFAULT AGE"),
        ("svc", "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE"),
    ] {
        let table = kubectl.run(&format!("get {kind}"));
        let first: Vec<&str> =
            table.lines().next().unwrap_or_default().split_whitespace().collect();
        assert_eq!(first.join(" "), columns, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_respects_budgets_owners_finalizers_and_grace_periods() {
    let cluster = Cluster::start_ready(&["w-1", "w-2"]).await;
    let Some(kubectl) = find(&cluster) else { return };
    kubectl.run("create deployment web --image=web:1 --replicas=2");
    kubectl.run("wait --for=condition=Available deployment/web --timeout=60s");
    kubectl.run("rollout status daemonset/kube-flannel -n kube-system --timeout=60s");
    let kept = kubectl.fail("drain w-1 --timeout=20s");
    assert!(kept.contains("cannot delete DaemonSet-managed Pods"), "{kept}");
    kubectl.run("create pdb web --selector=app=web --min-available=2");
    kubectl.run("wait --for=jsonpath={.status.currentHealthy}=2 pdb/web --timeout=60s");
    let kept = kubectl.fail("drain w-1 --ignore-daemonsets --timeout=8s");
    assert!(kept.contains("would violate the pod's disruption budget"), "{kept}");
    kubectl.run("patch pdb web --type=merge -p {\"spec\":{\"minAvailable\":1}}");
    kubectl.run("drain w-1 --ignore-daemonsets --timeout=60s");

    let map = |value: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "held", "namespace": "default", "finalizers": ["lab.example/hold"]},
            "data": {"a": value},
        })
    };
    let (one, two) = (kubectl.file("one.json", &[map("1")]), kubectl.file("two.json", &[map("2")]));
    let apply = "apply --server-side --field-manager";
    kubectl.run(&format!("{apply} one -f {one}"));
    let clash = kubectl.fail(&format!("{apply} two -f {two}"));
    assert!(
        clash.contains("Apply failed with 1 conflict: conflict with \"one\": .data.a"),
        "{clash}"
    );
    kubectl.run(&format!("{apply} two -f {two} --force-conflicts"));
    let clash = kubectl.fail(&format!("{apply} one -f {one}"));
    assert!(clash.contains("conflict with \"two\""), "{clash}");

    kubectl.run("delete configmap held --wait=false");
    let stamp = kubectl.run("get configmap held -o jsonpath={.metadata.deletionTimestamp}");
    assert!(stamp.ends_with('Z'), "{stamp}");
    let stuck = kubectl.fail("delete configmap held --timeout=2s");
    assert!(stuck.contains("timed out waiting"), "{stuck}");
    kubectl.run("patch configmap held --type=merge -p {\"metadata\":{\"finalizers\":null}}");
    kubectl.run("wait --for=delete configmap/held --timeout=60s");

    kubectl.run("run solo --image=web:1");
    kubectl.run("wait --for=jsonpath={.status.phase}=Running pod/solo --timeout=60s");
    kubectl.run("delete pod solo --grace-period=5 --timeout=60s");
    kubectl.run("run solo --image=web:1");
    kubectl.run("delete pod solo --grace-period=0 --force");
    assert!(kubectl.fail("get pod solo").contains("not found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_reports_unknown_fields_rejected_pods_and_taints() {
    let cluster = Cluster::start_ready(&["w-1"]).await;
    let Some(kubectl) = find(&cluster) else { return };
    cluster.store.admit_pods_by(&super::admission::talos(), "v1.32.4");
    let typo = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "typo", "namespace": "default"},
        "dat": {"a": "b"},
    });
    let typo = kubectl.file("typo.json", &[typo]);
    let said = kubectl.fail(&format!("apply -f {typo}"));
    assert!(said.contains("strict decoding error: unknown field \"dat\""), "{said}");
    let said = kubectl.fail(&format!("apply --server-side -f {typo}"));
    assert!(
        said.contains("(default/typo; /v1, Kind=ConfigMap): .dat: field not declared in schema"),
        "{said}"
    );

    let web = kubectl.file("web.json", &[deployment("web", 1, "web:1")]);
    let output = kubectl.command(&format!("apply -f {web}")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.starts_with("Warning: would violate PodSecurity \"restricted:latest\": "),
        "{said}"
    );
    let said = kubectl.fail("run solo --image=web:1 --overrides={\"spec\":{\"hostNetwork\":true}}");
    assert!(said.contains("violates PodSecurity \"baseline:latest\": host namespaces"), "{said}");
    let mut agent = deployment("agent", 1, "agent:1");
    agent["kind"] = "DaemonSet".into();
    agent["spec"].as_object_mut().unwrap().remove("replicas");
    agent["spec"]["template"]["spec"]["hostPID"] = true.into();
    let agent = kubectl.file("agent.json", &[agent]);
    kubectl.run(&format!("apply -f {agent}"));
    let is_seen = |set: &Value| set["status"]["desiredNumberScheduled"] == 1;
    cluster.until("daemonsets.apps", "default", "agent", is_seen).await;
    let events = kubectl.run("get events");
    assert!(events.contains("FailedCreate") && events.contains("daemonset/agent"), "{events}");
    assert!(kubectl.run("describe daemonset agent").contains("host namespaces (hostPID=true)"));

    kubectl.run("rollout status deployment/web --timeout=60s");
    let pod = kubectl.run("get pods -o name");
    kubectl.run("taint nodes w-1 repair=now:NoExecute");
    kubectl.run(&format!("wait --for=delete {} --timeout=60s", pod.trim()));
    kubectl.run("taint nodes w-1 repair-");
    kubectl.run("rollout status deployment/web --timeout=60s");

    kubectl.run("create serviceaccount robot");
    let token = kubectl.run("create token robot --duration=1h").trim().to_owned();
    assert!(kubectl.fail("create token robot --duration=1m").contains("less than 10 minutes"));
    let mut robot = cluster.connect(None).await;
    robot.token = Some(token);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let known = robot.post(reviews, &review).await.body;
    assert_eq!(known["status"]["userInfo"]["username"], "system:serviceaccount:default:robot");
    kubectl.run("delete serviceaccount robot");
    assert_eq!(robot.post(reviews, &review).await.status, 401);
}

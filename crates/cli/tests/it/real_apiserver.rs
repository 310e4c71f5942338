//! `up` in a lab with a real kube-apiserver.

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, Kubectl, Run, skip_test};

/// Lab options for the real kube-apiserver and etcd. Prints a note and returns `None` if the programs are missing.
fn flags() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let programs = variable("TALMOX_KUBE_APISERVER").zip(variable("TALMOX_ETCD"));
    let Some((apiserver, etcd)) = programs else {
        skip_test("TALMOX_KUBE_APISERVER and TALMOX_ETCD are not set");
        return None;
    };
    Some(format!("--kube-apiserver {apiserver} --etcd {etcd}"))
}

/// Add-on with its own namespace, a custom resource definition, a custom resource and a workload.
const ADDON: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shelves.shop.example}
spec:
  group: shop.example
  scope: Namespaced
  names: {plural: shelves, singular: shelf, kind: Shelf}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties: {size: {type: integer, minimum: 1}}
---
apiVersion: shop.example/v1
kind: Shelf
metadata: {name: books, namespace: shop}
spec: {size: 3}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: till, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: till}}
  template:
    metadata: {labels: {app: till}}
    spec: {containers: [{name: till, image: till:1}]}
";

fn fine(run: &Run) {
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
}

#[test]
fn addons_are_applied_to_a_real_api_server_and_owned() {
    let Some(flags) = flags() else { return };
    let cluster = Cluster::with_secrets();
    let file = "inventory/dev/cluster.yaml";
    let inventory = cluster.folder.read(file);
    cluster.folder.write(file, &format!("{inventory}addons:\n  - {{name: shop, files: [shop]}}\n"));
    cluster.folder.write("inventory/dev/shop/all.yaml", ADDON);
    let lab = ServedLab::in_file(&cluster, &format!("--inventory inventory/dev {flags}"));
    fine(&cluster.run(&format!("up --yes {IN_FILE}")));
    // A second run changes nothing.
    fine(&cluster.run(&format!("up --yes {IN_FILE}")));
    let status = cluster.run(&format!("status {IN_FILE}"));
    assert!(status.stdout.contains("Ready v1."), "{}", status.stdout);
    see_by_kubectl(&cluster);
    assert_eq!(lab.signal("TERM"), Some(0));
}

/// Asserts the state of the cluster with kubectl.
fn see_by_kubectl(cluster: &Cluster) {
    let Some(kubectl) = Kubectl::of(cluster, "inventory/dev/kubeconfig") else { return };
    let must = |line: &str| kubectl.must(line);
    assert!(must("get shelf books -n shop -o jsonpath={.spec.size}").contains('3'));
    let owners = must("get shelf books -n shop --show-managed-fields -o yaml");
    assert!(owners.contains("manager: talmox") && owners.contains("operation: Apply"), "{owners}");
    assert!(must("get pods -n shop").contains("Running"));
    must("wait --for=condition=Ready nodes --all --timeout=60s");
    // If kubectl changes a field that talmox owns, kubectl gets a conflict.
    cluster.folder.write("other.yaml", &ADDON.replace("size: 3", "size: 4"));
    let file = cluster.folder.path().join("other.yaml");
    let apply = format!("apply --server-side -f {}", file.display());
    let (went_well, text) = kubectl.run(&apply);
    assert!(!went_well && text.contains("conflict with \"talmox\""), "{text}");
    must(&format!("{apply} --force-conflicts"));
    // If talmox changes a field that kubectl owns, talmox gets a conflict.
    let run = cluster.run(&format!("up --yes {IN_FILE}"));
    assert_ne!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("conflict with \"kubectl\""), "{}", run.stderr);
}

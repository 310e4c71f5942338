//! Add-ons in a running cluster: applied once, applied again after a change, and reported after their removal.

use talmox_engine::access::PROVISIONAL;
use talmox_plan::desired::ManifestFile;
use talmox_plan::plan::{Class, show};

use super::inventory::{HEAD, PAIR, pair, with_short_timeouts};
use super::rig::Rig;

const GREETING: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: greeting, namespace: shop}
data: {text: hello, colour: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: till, namespace: shop}
stringData: {password: hunter2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: till, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: till}}
  template:
    metadata: {labels: {app: till}}
    spec:
      containers:
        - {name: main, image: 'till:1', resources: {requests: {cpu: 1000m, memory: 64Mi}}}
";

/// A pod network like the one that Talos installs. With it, nodes become ready.
const NETWORK: &str = "\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-flannel, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: flannel}}
  template:
    metadata: {labels: {k8s-app: flannel}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      containers: [{name: kube-flannel, image: 'flannel:v0.26'}]
";

/// A DaemonSet like that of kube-vip, configured with the shared address.
const HOLDER: &str = "\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-vip, namespace: kube-system}
spec:
  selector: {matchLabels: {name: kube-vip}}
  template:
    metadata: {labels: {name: kube-vip}}
    spec:
      hostNetwork: true
      nodeSelector: {node-role.kubernetes.io/control-plane: ''}
      tolerations: [{operator: Exists}]
      containers:
        - name: kube-vip
          image: ghcr.io/kube-vip/kube-vip:v1.0.0
          env: [{name: address, value: 10.0.0.20}]
";

/// Objects without a namespace. The second one was a hook of a chart that comes after the other objects.
const BARE: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: bare}
data: {a: b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: last, annotations: {talmox.dev/phase: after, talmox.dev/weight: '1'}}
data: {a: b}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bare}
rules: []
";

/// The manifest files that the inventories of these tests name.
pub(crate) fn manifest(name: &str) -> ManifestFile {
    let text = match name {
        "shop.yaml" => GREETING.to_owned(),
        "shop-changed.yaml" => GREETING
            .replace("text: hello, colour: blue", "text: goodbye")
            .replace("hunter2", "s3cret"),
        "shop-smaller.yaml" => GREETING.split("---\n").take(3).collect::<Vec<_>>().join("---\n"),
        "shop-typo.yaml" => GREETING.replace("replicas: 1", "replicsa: 1"),
        "network.yaml" => NETWORK.to_owned(),
        "bare.yaml" => BARE.to_owned(),
        "shop-flux.yaml" => GREETING.replace(
            "name: greeting, namespace: shop",
            "name: greeting, namespace: shop, labels: {kustomize.toolkit.fluxcd.io/name: shop}",
        ),
        "other.yaml" => {
            BARE.replace("name: bare", "name: other").replace("name: last", "name: end")
        }
        "vip.yaml" => HOLDER.to_owned(),
        "vip-elsewhere.yaml" => HOLDER.replace("10.0.0.20", "10.0.0.29"),
        other => panic!("there is no file {other}"),
    };
    ManifestFile { origin: name.to_owned(), text: text.into() }
}

fn with_shop(file: &str) -> String {
    format!("{HEAD}addons: [{{name: shop, files: [{file}]}}]\n{PAIR}")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_add_on_is_applied_once_and_again_when_it_changed() {
    let rig = Rig::start();
    let text = with_shop("shop.yaml");
    rig.up(&text).await.assert_done();
    let again = rig.plan(&text).await;
    assert!(again.is_empty(), "{}", show::text(&again));

    let changed = with_shop("shop-changed.yaml");
    let plan = rig.plan(&changed).await;
    let shown = show::text(&plan);
    assert_eq!(plan.open_changes().count(), 0, "{shown}");
    assert!(shown.contains("~ add-on shop  (live)"), "{shown}");
    assert!(shown.contains("ConfigMap shop/greeting"), "{shown}");
    assert!(shown.contains("changes data.colour, data.text"), "{shown}");
    assert!(shown.contains("Secret shop/till"), "{shown}");
    assert!(
        !shown.contains("goodbye") && !shown.contains("s3cret"),
        "values may be secrets: {shown}"
    );
    let ran = rig.up(&changed).await;
    ran.assert_done();
    assert_eq!(ran.plan.steps.len(), 1);
    let again = rig.plan(&changed).await;
    assert!(again.is_empty(), "{}", show::text(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn add_ons_share_a_namespace_and_are_applied_in_order() {
    let rig = Rig::start();
    let text = format!(
        "{HEAD}addons: [{{name: one, files: [bare.yaml], namespace: shop, needs: [two]}}, \
         {{name: two, files: [other.yaml], namespace: shop, wait: false}}]\n{PAIR}"
    );
    let ran = rig.up(&text).await;
    ran.assert_done();
    let one = ran.plan.steps.iter().find(|step| step.id.as_str() == "addon/one").unwrap();
    assert!(one.after.iter().any(|id| id.as_str() == "addon/two"), "{:?}", one.after);
    let kube = rig.kube_of(&rig.desired(&text));
    let desired = ["shop", "other"].map(str::to_owned).into_iter().collect();
    let found: Vec<String> = kube.existing_namespaces(desired).await.unwrap().into_iter().collect();
    assert_eq!(found, ["shop"]);
    let noted = kube.noted().await.unwrap();
    let objects: Vec<String> = noted["one"].iter().map(ToString::to_string).collect();
    let expected =
        ["Namespace shop", "ConfigMap shop/bare", "ConfigMap shop/last", "ClusterRole bare"];
    assert_eq!(objects, expected);
    // Both add-ons contain the namespace, and neither changes it again.
    let again = rig.plan(&text).await;
    assert!(again.is_empty(), "{}", show::text(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_add_on_that_flux_manages_is_left_to_it_on_request() {
    let rig = Rig::start();
    rig.up(&with_shop("shop-flux.yaml")).await.assert_done();
    let changed = with_shop("shop-changed.yaml");
    assert!(!rig.plan(&changed).await.is_empty());
    let handed = changed.replace("name: shop,", "name: shop, handover: gitops,");
    let plan = rig.plan(&handed).await;
    assert!(plan.is_empty(), "{}", show::text(&plan));
    // talmox manages an add-on that no GitOps tool manages yet.
    let rig = Rig::start();
    rig.up(&with_shop("shop.yaml")).await.assert_done();
    assert!(!rig.plan(&handed).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_field_is_never_waited_for() {
    let rig = Rig::start();
    let typo = with_shop("shop-typo.yaml");
    // Before the cluster exists, the plan cannot detect the mistake.
    let ran = rig.up(&typo).await;
    let failures = ran.failures();
    assert!(failures.contains("addon/shop: add-on shop"), "{failures}");
    let why = ".spec.replicsa: field not declared in schema";
    assert!(failures.contains(why) && failures.contains("correct the manifest"), "{failures}");
    assert!(!failures.contains("timed out after"), "{failures}");
    assert!(ran.waits().iter().all(|wait| !wait.contains("replicsa")), "{:?}", ran.waits());

    let rejected =
        |plan: &talmox_plan::plan::Plan| {
            let errors: Vec<String> = plan.errors().map(|error| error.message.clone()).collect();
            assert_eq!(errors.len(), 1, "{}", show::text(plan));
            assert!(errors[0].starts_with(
                "Kubernetes rejects Deployment shop/till (shop-typo.yaml, document 4)"
            ));
            assert!(errors[0].ends_with(why), "{errors:?}");
        };
    rejected(&rig.plan(&typo).await);
    rig.up(&with_shop("shop.yaml")).await.assert_done();
    rejected(&rig.plan(&typo).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_removed_from_an_add_on_are_reported_and_kept() {
    let rig = Rig::start();
    rig.up(&with_shop("shop.yaml")).await.assert_done();
    let smaller = rig.plan(&with_shop("shop-smaller.yaml")).await;
    let shown = show::text(&smaller);
    assert_eq!(smaller.open_changes().count(), 1, "{shown}");
    assert!(shown.contains("- add-on shop  (destroy, not done: impossible)"), "{shown}");
    assert!(shown.contains("Deployment shop/till"), "{shown}");
    assert!(shown.contains("its manifests no longer have these objects"), "{shown}");

    // If the objects move to an add-on with another name, nothing is left over.
    let renamed = with_shop("shop.yaml").replace("name: shop", "name: store");
    let plan = rig.plan(&renamed).await;
    assert_eq!(plan.open_changes().count(), 0, "{}", show::text(&plan));
    rig.up(&renamed).await.assert_done();
    let again = rig.plan(&renamed).await;
    assert!(again.is_empty(), "{}", show::text(&again));

    let gone = rig.plan(&pair()).await;
    let open: Vec<_> = gone.open_changes().collect();
    let shown = show::text(&gone);
    assert_eq!(open.len(), 1, "{shown}");
    assert_eq!((open[0].class, open[0].fields.len()), (Class::Destroy, 4), "{shown}");
    assert!(gone.steps.is_empty(), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_a_network_is_not_healthy_until_an_add_on_installs_one() {
    let rig = Rig::start();
    let bare = format!("{}{PAIR}", HEAD.replace("vip:", "cni: none, vip:"));
    rig.up(&bare).await.assert_done();
    let again = rig.plan(&bare).await;
    assert!(again.is_empty(), "registered and NotReady is the end: {}", show::text(&again));

    let text = format!("{bare}addons: [{{name: net, files: [network.yaml]}}]\n");
    let plan = rig.plan(&text).await;
    let ids: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["addon/net", "cluster/health"], "{}", show::text(&plan));
    assert!(show::text(&plan).contains("is not ready → healthy"), "{}", show::text(&plan));
    rig.up(&text).await.assert_done();
    rig.lab_state(&text).await.assert_complete(&["cp-1"], &["wk-1"]);
    let again = rig.plan(&text).await;
    assert!(again.is_empty(), "{}", show::text(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_address_held_by_an_add_on_is_not_used_until_it_answers() {
    let rig = Rig::start();
    let bare = format!("{}{PAIR}", HEAD.replace("vip:", "vip_by: kube-vip, vip:"));
    let leads_around = || -> Vec<bool> {
        let files = rig.files.lock().unwrap();
        files.iter().map(|made| made.kubeconfig.expose().starts_with(PROVISIONAL)).collect()
    };
    let ran = rig.up(&bare).await;
    ran.assert_done();
    let is_missing = |note: &&str| note.starts_with("no add-on provides 10.0.0.20 yet");
    assert_eq!(ran.notes().into_iter().filter(is_missing).count(), 1, "{:?}", ran.notes());
    assert_eq!(leads_around(), [true]);
    let again = rig.plan(&bare).await;
    assert!(again.is_empty(), "{}", show::text(&again));
    assert!(show::text(&again).contains("no component holds 10.0.0.20"), "{}", show::text(&again));

    // The run waits for an add-on that provides another address, and reports it.
    let with = |file: &str| format!("{bare}addons: [{{name: edge, files: [{file}]}}]\n");
    let ran = rig.up(&with_short_timeouts(&with("vip-elsewhere.yaml"))).await;
    let failures = ran.failures();
    let start =
        "vip: the add-on edge does not provide the Kubernetes API at 10.0.0.20:6443 in time";
    assert!(failures.starts_with(start), "{failures}");
    assert!(
        failures.contains("hint: check that the add-on is configured with this address"),
        "{failures}"
    );
    assert_eq!(leads_around(), [true]);

    let text = with("vip.yaml");
    let ran = rig.up(&text).await;
    ran.assert_done();
    let ids: Vec<&str> = ran.plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["addon/edge", "vip", "vip/kubeconfig"], "{}", show::text(&ran.plan));
    assert_eq!(leads_around(), [true, false]);
    let again = rig.plan(&text).await;
    assert!(again.is_empty() && again.findings.is_empty(), "{}", show::text(&again));
}

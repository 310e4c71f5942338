//! `talmox addons`, and charts in plans. A script takes the place of Helm.

use serde_json::Value as Json;

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, Run};

const INVENTORY: &str = "inventory/dev/cluster.yaml";
const LOCK: &str = "inventory/dev/addons.lock.yaml";

/// A script that downloads the text in `chart.txt`, and prints a ConfigMap with its values in place of the rendered chart. It
/// writes its arguments to `calls.txt`.
const HELM: &str = r#"
folder=FOLDER
echo "$@" >> $folder/calls.txt
case "$1" in
pull)
    for argument; do
        case "$argument" in
        --destination=*) cp $folder/chart.txt "${argument#--destination=}/till-1.2.3.tgz" ;;
        esac
    done
    ;;
template)
    printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: till}\ndata:\n  values: |\n'
    for argument; do
        case "$argument" in
        --values=*) sed 's/^/    /' "${argument#--values=}" ;;
        esac
    done
    echo '---'
    printf 'apiVersion: v1\nkind: Pod\n'
    printf 'metadata: {name: tested, annotations: {helm.sh/hook: test}}\n'
    ;;
esac
"#;

const CHART: &str = "chart: till, repo: 'https://charts.example', version: 1.2.3, namespace: shop";

fn cluster(addons: &str) -> Cluster {
    let mut cluster = Cluster::of_one_node();
    let inventory = cluster.folder.read(INVENTORY);
    cluster.folder.write(INVENTORY, &format!("{inventory}addons: [{addons}]\n"));
    cluster.folder.write("chart.txt", "first chart");
    let folder = cluster.folder.path().display().to_string();
    let helm = cluster.script("bin/fake-helm", &HELM.replace("FOLDER", &folder));
    cluster.set("TALMOX_HELM", helm);
    cluster
}

fn done(run: Run) -> Run {
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    run
}

/// Text in one line, because long lines are wrapped.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn calls(cluster: &Cluster) -> String {
    cluster.folder.read("calls.txt")
}

#[test]
fn add_ons_are_listed_with_their_sources_and_states() {
    let sum = "a".repeat(64);
    let cluster = cluster(&format!(
        "{{name: shop, {CHART}, needs: [files]}}, {{name: files, manifests: [files]}}, \
         {{name: web, manifests: [{{url: 'https://example.org/a.yaml?token=x', sha256: {sum}}}]}}"
    ));
    cluster.folder.write("inventory/dev/files/a.yaml", "");
    let listed = done(cluster.run("addons list")).stdout;
    let shop = listed.lines().find(|line| line.starts_with("shop")).unwrap();
    for word in ["chart till", "1.2.3", "files", "not locked"] {
        assert!(shop.contains(word), "{listed}");
    }
    assert!(listed.contains("https://example.org/a.yaml") && !listed.contains("token"), "{listed}");
    done(cluster.run("addons update"));
    let listed: Json =
        serde_json::from_str(&done(cluster.run("addons list --format json")).stdout).unwrap();
    assert_eq!(listed["cluster"], "dev");
    assert_eq!(listed["addons"][0]["namespace"], "shop");
    assert_eq!(listed["addons"][0]["needs"][0], "files");
    assert_eq!(listed["addons"][0]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(listed["addons"][1]["sha256"], Json::Null);
}

#[test]
fn a_chart_is_stored_and_then_needs_no_helm() {
    let mut cluster = cluster(&format!("{{name: shop, {CHART}, values: {{colour: blue}}}}"));
    let stored = "inventory/dev/addons/shop.yaml";
    done(cluster.run("addons vendor"));
    let text = cluster.folder.read(stored);
    assert!(text.contains("kind: ConfigMap") && text.contains("colour: blue"), "{text}");
    assert!(!text.contains("kind: Pod"), "a test of the chart is not stored: {text}");
    let lock = cluster.folder.read(LOCK);
    assert!(lock.contains("chart: https://charts.example till 1.2.3"), "{lock}");
    let called = calls(&cluster);
    for argument in ["--repo=https://charts.example", "--version=1.2.3", "--namespace=shop"] {
        assert!(called.contains(argument), "{called}");
    }
    assert!(called.contains("--kube-version=v1.") && called.contains("--include-crds"), "{called}");

    // Without Helm, the plan contains the stored objects.
    cluster.set("TALMOX_HELM", "/no/such/program");
    let plan = done(cluster.run("plan --lab --lab-speed 20"));
    assert!(plan.stdout.contains("add-on shop"), "{}", plan.stdout);
    assert_eq!(calls(&cluster), called);

    // `check` warns if there is neither Helm nor the stored objects.
    cluster.set("TALMOX_HELM", "");
    cluster.set("PATH", cluster.folder.path().join("none"));
    assert!(!done(cluster.run("check")).stderr.contains("helm"));
    std::fs::remove_file(cluster.folder.path().join(stored)).unwrap();
    let checked = done(cluster.run("check"));
    assert!(
        flat(&checked.stderr).contains("add-on shop: helm is not on PATH"),
        "{}",
        checked.stderr
    );

    cluster.folder.write(stored, &text.replace("blue", "red"));
    let changed = cluster.run("plan --lab --lab-speed 20");
    assert_eq!(changed.code, 1);
    assert!(
        flat(&changed.stdout).contains("was changed after it was written"),
        "{}",
        changed.stdout
    );
    cluster.folder.write(stored, &text);
    let inventory = cluster.folder.read(INVENTORY);
    cluster.folder.write(INVENTORY, &inventory.replace("colour: blue", "colour: green"));
    let stale = cluster.run("plan --lab --lab-speed 20");
    assert_eq!(stale.code, 1);
    assert!(flat(&stale.stdout).contains("talmox addons vendor shop"), "{}", stale.stdout);
}

#[test]
fn a_chart_that_was_published_again_is_an_error_until_it_is_updated() {
    let mut cluster = cluster(&format!("{{name: shop, {CHART}}}"));
    done(cluster.run("addons update"));
    let lock = cluster.folder.read(LOCK);
    // The cache still has the recorded chart.
    cluster.folder.write("chart.txt", "second chart");
    done(cluster.run("plan --lab --lab-speed 20"));
    cluster.set("XDG_CACHE_HOME", cluster.folder.path().join("empty"));
    let rejected = cluster.run("plan --lab --lab-speed 20");
    assert_eq!(rejected.code, 1);
    assert!(flat(&rejected.stdout).contains("and addons.lock.yaml has"), "{}", rejected.stdout);
    let updated = done(cluster.run("addons update shop"));
    assert!(updated.stderr.contains("shop: changed from"), "{}", updated.stderr);
    assert_ne!(cluster.folder.read(LOCK), lock);
    done(cluster.run("plan --lab --lab-speed 20"));
}

#[test]
fn a_chart_with_secret_values_is_rendered_and_not_stored() {
    let values = "values: {token: {env: SHOP_TOKEN}}";
    let mut cluster = cluster(&format!("{{name: shop, {CHART}, {values}}}"));
    cluster.set("SHOP_TOKEN", "hunter2");
    let rejected = cluster.run("addons vendor");
    assert_eq!(rejected.code, 1);
    assert!(
        flat(&rejected.stderr).contains("environment variable SHOP_TOKEN"),
        "{}",
        rejected.stderr
    );
    assert!(!cluster.folder.path().join("inventory/dev/addons").exists());
    let plan = done(cluster.run("plan --lab --lab-speed 20 --format json"));
    assert!(!plan.stdout.contains("hunter2") && !plan.stderr.contains("hunter2"));
    assert!(!calls(&cluster).contains("hunter2"), "a secret is not an argument");
    // Helm may show values in its errors. The recorded chart is in the cache, so Helm only renders it.
    done(cluster.run("addons update"));
    let failing = cluster.script("bin/failing", "echo hunter2 >&2; exit 1");
    cluster.set("TALMOX_HELM", failing);
    let failed = cluster.run("plan --lab --lab-speed 20");
    assert_eq!(failed.code, 1);
    assert!(!failed.stdout.contains("hunter2") && !failed.stderr.contains("hunter2"));
    assert!(flat(&failed.stdout).contains("its output may contain secrets"), "{}", failed.stdout);
}

#[test]
fn a_missing_or_failing_program_is_a_finding_of_the_plan() {
    let mut cluster = cluster(&format!("{{name: shop, {CHART}}}"));
    let failing = cluster.script("bin/failing", "echo 'no chart version found' >&2; exit 1");
    cluster.set("TALMOX_HELM", failing);
    let failed = cluster.run("plan --lab --lab-speed 20");
    assert_eq!(failed.code, 1);
    assert!(flat(&failed.stdout).contains("no chart version found"), "{}", failed.stdout);
    let unknown = cluster.run("addons update none");
    assert_eq!(unknown.code, 64);
    assert!(flat(&unknown.stderr).contains("use one of these names: shop"), "{}", unknown.stderr);
    cluster.folder.write(LOCK, "version: 7\naddons: {}\n");
    let invalid = cluster.run("addons list");
    assert_eq!(invalid.code, 1);
    assert!(
        flat(&invalid.stderr).contains("addons.lock.yaml is not a lock file"),
        "{}",
        invalid.stderr
    );
}

#[test]
fn a_kustomize_folder_is_built_with_kustomize() {
    let mut cluster = cluster("{name: extras, manifests: [{kustomize: overlay}], namespace: shop}");
    cluster.folder.write("inventory/dev/overlay/kustomization.yaml", "resources: [a.yaml]\n");
    cluster.script(
        "bin/kustomize",
        "test \"$1\" = build || exit 2\n\
         printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: built}\\n'",
    );
    let bin = cluster.folder.path().join("bin").display().to_string();
    cluster.set("PATH", format!("{bin}:/usr/bin:/bin"));
    let plan = done(cluster.run("plan --lab --lab-speed 20"));
    assert!(plan.stdout.contains("add-on extras"), "{}", plan.stdout);
    cluster.set("PATH", cluster.folder.path().join("none"));
    let missing = cluster.run("plan --lab --lab-speed 20");
    assert_eq!(missing.code, 1);
    let expected = "neither kustomize nor kubectl is on PATH";
    assert!(flat(&missing.stdout).contains(expected), "{}", missing.stdout);
}

#[test]
fn up_applies_a_chart_once_and_records_its_digest() {
    let cluster = cluster(&format!("{{name: shop, {CHART}, values: {{colour: blue}}}}"));
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let up = format!("up --yes {IN_FILE}");
    done(cluster.run(&up));
    assert!(cluster.folder.read(LOCK).contains("chart: https://charts.example till 1.2.3"));
    let again = done(cluster.run(&up));
    assert_eq!(again.stdout, "Nothing to do: the cluster matches the inventory.\n");
    // Other commands do not run Helm.
    let before = calls(&cluster);
    let status = done(cluster.run(&format!("status --format json {IN_FILE}")));
    assert_eq!(calls(&cluster), before);
    assert!(!status.stdout.contains("shop"), "{}", status.stdout);
    let inventory = cluster.folder.read(INVENTORY);
    cluster.folder.write(INVENTORY, &inventory.replace("colour: blue", "colour: green"));
    let plan = done(cluster.run(&format!("plan {IN_FILE}")));
    assert!(plan.stdout.contains("ConfigMap shop/till"), "{}", plan.stdout);
}

#[test]
fn up_succeeds_without_ready_nodes_if_another_tool_manages_the_pod_network() {
    let cluster = Cluster::of_one_node();
    let inventory = cluster.folder.read(INVENTORY);
    let managed = inventory.replace("network: {", "network: {cni: {managed_by: Flux}, ");
    cluster.folder.write(INVENTORY, &managed);
    let up = done(cluster.run("up --lab --lab-speed 20 --yes"));
    assert!(flat(&up.stdout).contains("the CNI is managed by Flux"), "{}", up.stdout);
}

/// A script that prints a DaemonSet with the name of Cilium in place of the rendered chart.
const CILIUM_HELM: &str = "\
case \"$1\" in
pull)
    for argument; do
        case \"$argument\" in
        --destination=*) echo chart > \"${argument#--destination=}/cilium.tgz\" ;;
        esac
    done
    ;;
template)
    cat <<'END'
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: cilium}
spec:
  selector: {matchLabels: {k8s-app: cilium}}
  template:
    metadata: {labels: {k8s-app: cilium}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      containers: [{name: cilium-agent, image: 'cilium:v1.16.5'}]
END
    ;;
esac
";

#[test]
fn the_built_in_cilium_replaces_the_network_of_talos() {
    let mut cluster = cluster("{name: net, builtin: cilium}");
    let helm = cluster.script("bin/cilium-helm", CILIUM_HELM);
    cluster.set("TALMOX_HELM", helm);
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let up = done(cluster.run(&format!("up --yes {IN_FILE}")));
    assert!(up.stdout.contains("Ready: Kubernetes v1."), "{}", up.stdout);
    assert!(!up.stdout.contains("NotReady"), "{}", up.stdout);
    let get = format!("node get cp-1 machineconfig --admin --yaml {IN_FILE}");
    let config = done(cluster.run(&get)).stdout;
    for line in ["name: none", "disabled: true"] {
        assert!(config.contains(line), "{line}: {config}");
    }
}

//! Planning of add-ons, and findings about their manifests.

use insta::assert_snapshot;
use talmox_plan::desired::{Addon, AddonSource, Desired, ManifestFile};
use talmox_plan::manifest::read_manifests;
use talmox_plan::observed::{
    AddonRead, AddonSeen, KubernetesSeen, ObjectChange, Observed, Registered, RejectedObject,
};
use talmox_plan::plan::{Action, Class, HealthGoal, Plan, SavedPlan, SavedPlanError, Severity};

use crate::observed_state::{empty, settled};
use crate::support::{HEAD, HOME, desired, home, home_with, ids, plan, text};

fn with_addon() -> Desired {
    let mut desired = home();
    let text = ManifestFile { origin: "shop.yaml".to_owned(), text: String::new().into() };
    let source = AddonSource::Texts(vec![text]);
    desired.addons = vec![Addon::new("shop", source)];
    desired
}

/// A running cluster in which the observed state of the add-on is `seen`.
fn found(desired: &Desired, seen: AddonSeen) -> Observed {
    let mut observed = settled(&home());
    let nodes = desired.nodes.iter().map(|node| node.name.clone()).collect();
    observed.kubernetes = KubernetesSeen::Answers(Registered { nodes, ..Registered::default() });
    observed.addons.known.insert("shop".to_owned(), seen);
    observed
}

fn seen(changes: Vec<ObjectChange>) -> AddonSeen {
    AddonSeen { is_noted: true, changes, refusals: vec![] }
}

fn change(object: &str, what: &str) -> ObjectChange {
    ObjectChange { object: object.to_owned(), what: what.to_owned() }
}

#[test]
fn an_unchanged_add_on_is_not_applied() {
    let desired = with_addon();
    let observed = found(&desired, seen(vec![]));
    assert!(plan(&desired, &observed).is_empty(), "{}", text(&desired, &observed));
}

#[test]
fn a_changed_add_on_is_applied_live() {
    let desired = with_addon();
    let changes = vec![
        change("ConfigMap shop/prices", "changes data.apple"),
        change("Deployment shop/till", "is new"),
    ];
    let observed = found(&desired, seen(changes));
    let plan = plan(&desired, &observed);
    assert_eq!(plan.open_changes().count(), 0);
    assert_eq!(ids(&plan), ["addon/shop"]);
    assert_snapshot!(text(&desired, &observed));
}

#[test]
fn an_add_on_without_a_record_is_created() {
    let desired = with_addon();
    let observed = found(&desired, AddonSeen::default());
    assert_eq!(plan(&desired, &observed).changes[0].class, Class::Create);
    let fresh = plan(&desired, &empty());
    assert!(ids(&fresh).contains(&"addon/shop"), "{:?}", ids(&fresh));
}

#[test]
fn an_add_on_that_cannot_be_observed_is_applied_again() {
    let desired = with_addon();
    let mut observed = found(&desired, AddonSeen::default());
    observed.addons.known.clear();
    let plan = plan(&desired, &observed);
    assert_eq!((plan.changes[0].class, ids(&plan)), (Class::Live, vec!["addon/shop"]));
}

#[test]
fn objects_of_removed_add_ons_are_reported_and_kept() {
    let desired = home();
    let mut observed = found(&desired, AddonSeen::default());
    let objects = vec!["Namespace shop".to_owned(), "Deployment shop/till".to_owned()];
    observed.addons.left.insert("shop".to_owned(), objects);
    let plan = plan(&desired, &observed);
    assert!(plan.steps.is_empty() && plan.open_changes().count() == 1);
    assert_snapshot!(text(&desired, &observed));
}

#[test]
fn a_saved_plan_depends_on_the_state_of_add_ons() {
    let desired = with_addon();
    let observed = found(&desired, seen(vec![]));
    let saved = SavedPlan::of(&plan(&desired, &observed), &observed);
    let changes = vec![change("ConfigMap shop/prices", "changes data.apple")];
    let moved = found(&desired, seen(changes));
    assert_eq!(saved.check(&plan(&desired, &moved), &moved), Err(SavedPlanError::ObservedChanged));
}

/// The observed state with these manifests for these add-ons.
fn reading(mut observed: Observed, texts: &[(&str, &str)]) -> (Desired, Observed) {
    let mut desired = home();
    for (name, text) in texts {
        let name = (*name).to_owned();
        let manifests = read_manifests(&format!("{name}.yaml"), text).unwrap();
        observed.addons.read.insert(name.clone(), AddonRead::Objects(manifests));
        desired.addons.push(Addon::new(name, AddonSource::Texts(vec![])));
    }
    (desired, observed)
}

/// The findings about add-ons: severity, subject and message.
fn findings(desired: &Desired, observed: &Observed) -> Vec<(Severity, String, String)> {
    let plan = plan(desired, observed);
    let about = plan.findings.iter().filter(|one| one.subject.starts_with("add-on "));
    about
        .map(|one| {
            assert!(one.hint.is_some(), "{one:?}");
            (one.severity, one.subject.clone(), one.message.clone())
        })
        .collect()
}

fn error(about: &str, message: &str) -> (Severity, String, String) {
    (Severity::Error, about.to_owned(), message.to_owned())
}

#[test]
fn an_object_in_two_manifests_is_reported_with_both_places() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let twice = format!("{map}---\n{}", map.replace("name: a", "name: a, namespace: default"));
    let (desired, observed) = reading(empty(), &[("one", &twice), ("two", map)]);
    assert_eq!(
        findings(&desired, &observed),
        [
            error(
                "add-on one",
                "ConfigMap default/a is in one.yaml, document 1 and in one.yaml, document 2 as well"
            ),
            error(
                "add-on two",
                "ConfigMap a is in one.yaml, document 1 (add-on one) and in two.yaml, document 1 as well"
            ),
        ]
    );
    let other = map.replace("ConfigMap", "Secret");
    let (desired, observed) = reading(empty(), &[("one", map), ("two", &other)]);
    assert_eq!(findings(&desired, &observed), []);
}

#[test]
fn a_missing_namespace_is_reported_before_anything_is_applied() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n";
    let system = map.replace("shop", "kube-system");
    let expected = [error(
        "add-on one",
        "ConfigMap shop/a (one.yaml, document 1) needs the namespace shop, which neither the cluster nor an add-on has",
    )];
    let (desired, mut observed) = reading(empty(), &[("one", map), ("two", &system)]);
    assert_eq!(findings(&desired, &observed), expected);

    // If the cluster answers, its namespaces are known. If it does not answer, no namespace is reported as missing.
    observed.kubernetes = KubernetesSeen::Silent("no route".to_owned());
    assert_eq!(findings(&desired, &observed), []);
    observed.addons.namespaces = Some(std::iter::empty().collect());
    assert_eq!(findings(&desired, &observed), expected);
    observed.addons.namespaces = Some(std::iter::once("shop".to_owned()).collect());
    assert_eq!(findings(&desired, &observed), []);

    // Another add-on creates the namespace, or may create it if its manifests cannot be read.
    let brings = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let (desired, mut observed) = reading(empty(), &[("one", map), ("two", brings)]);
    assert_eq!(findings(&desired, &observed), []);
    observed.addons.read.insert("two".to_owned(), AddonRead::Unreachable("no route".to_owned()));
    let reported = "its manifests cannot be downloaded now: no route".to_owned();
    assert_eq!(
        findings(&desired, &observed),
        [(Severity::Warning, "add-on two".to_owned(), reported)]
    );
    let wrong = "two.yaml, document 1: it has no `kind`";
    observed.addons.read.insert("two".to_owned(), AddonRead::Wrong(wrong.to_owned()));
    assert_eq!(findings(&desired, &observed), [error("add-on two", wrong)]);
}

#[test]
fn a_rejected_object_is_an_error_unless_the_run_may_fix_it() {
    let desired = with_addon();
    let rejected = |why: &str, is_final: bool| {
        let (object, place) =
            ("Deployment shop/till".to_owned(), "shop.yaml, document 4".to_owned());
        let changes = vec![change(&object, "is rejected")];
        let refusals = vec![RejectedObject { object, place, why: why.to_owned(), is_final }];
        AddonSeen { is_noted: true, changes, refusals }
    };
    let reported = |observed: &Observed| {
        let found = findings(&desired, observed);
        let [(severity, about, message)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(about, "add-on shop");
        assert!(
            message
                .starts_with("Kubernetes rejects Deployment shop/till (shop.yaml, document 4): ")
        );
        *severity
    };
    let typo = ".spec.replicsa: field not declared in schema";
    let observed = found(&desired, rejected(typo, true));
    assert_eq!(reported(&observed), Severity::Error);
    assert_snapshot!(text(&desired, &observed));

    // No other change is planned that could fix the rejection.
    let mut quota = rejected("it is forbidden: exceeded quota", false);
    assert_eq!(reported(&found(&desired, quota.clone())), Severity::Error);
    // The change of the quota may fix the rejection.
    quota.changes.push(change("ResourceQuota shop/all", "changes spec.hard.pods"));
    assert_eq!(reported(&found(&desired, quota)), Severity::Warning);
    // The cluster is not healthy, so the rejection may be temporary.
    let mut unhealthy = found(&desired, rejected("admission webhook denied the request", false));
    let KubernetesSeen::Answers(registered) = &mut unhealthy.kubernetes else { panic!() };
    registered.problem = Some("wk-1 is not ready".to_owned());
    assert_eq!(reported(&unhealthy), Severity::Warning);
    // A change of another object does not fix an unknown field.
    let mut typo = rejected(typo, true);
    typo.changes.push(change("ResourceQuota shop/all", "is new"));
    assert_eq!(reported(&found(&desired, typo)), Severity::Error);
}

#[test]
fn nodes_must_become_ready_if_an_add_on_installs_a_network() {
    let goal = |desired: &Desired, observed: &Observed| {
        let plan = plan(desired, observed);
        plan.steps.iter().find_map(|step| match &step.action {
            Action::AwaitHealth(health) => Some(health.goal),
            _ => None,
        })
    };
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let set = "apiVersion: apps/v1\nkind: DaemonSet\n\
        metadata: {name: cilium, namespace: kube-system}\n";
    for (texts, expected) in [
        (&[][..], HealthGoal::Registered),
        (&[("one", map)][..], HealthGoal::Settled),
        (&[("one", map), ("two", set)][..], HealthGoal::Ready),
    ] {
        let (mut desired, observed) = reading(empty(), texts);
        assert_eq!(goal(&desired, &observed), Some(HealthGoal::Ready), "by Talos");
        desired.has_cni = false;
        assert_eq!(goal(&desired, &observed), Some(expected), "{texts:?}");
        // A run does not wait for a pod network that another tool installs.
        desired.cni_managed_by = Some("Flux".to_owned());
        let expected =
            if expected == HealthGoal::Ready { expected } else { HealthGoal::Registered };
        assert_eq!(goal(&desired, &observed), Some(expected), "{texts:?}");
    }
}

#[test]
fn an_add_on_that_the_command_did_not_render_is_left_alone() {
    let mut desired = with_addon();
    desired.addons[0].source = AddonSource::Skipped;
    let mut observed = found(&desired, AddonSeen::default());
    observed.addons.known.clear();
    let planned = plan(&desired, &observed);
    assert!(planned.is_empty(), "{:?}", ids(&planned));
    assert_eq!(findings(&desired, &observed), []);
}

/// The steps before the step that applies an add-on.
fn before(plan: &Plan, addon: &str) -> Vec<String> {
    let id = format!("addon/{addon}");
    let step = plan.steps.iter().find(|step| step.id.to_string() == id).unwrap();
    step.after.iter().map(ToString::to_string).filter(|id| id.starts_with("addon/")).collect()
}

#[test]
fn add_ons_are_applied_after_those_that_they_need() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let other = map.replace("name: a", "name: b");
    let third = map.replace("name: a", "name: c");
    let texts = [("one", map), ("two", &*other), ("three", &*third)];
    let (mut desired, mut observed) = reading(empty(), &texts);
    desired.addons[0].needs = vec!["three".to_owned()];
    desired.addons[2].needs = vec!["two".to_owned()];
    let planned = plan(&desired, &observed);
    assert_eq!(before(&planned, "one"), ["addon/three"]);
    assert_eq!(before(&planned, "three"), ["addon/two"]);
    assert_eq!(before(&planned, "two"), [""; 0]);
    // An add-on that is as desired has no step, and the others keep their order.
    observed.addons.known.insert("three".to_owned(), seen(vec![]));
    assert_eq!(before(&plan(&desired, &observed), "one"), ["addon/two"]);
}

#[test]
fn add_ons_are_applied_after_those_whose_objects_they_use() {
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
        metadata: {name: tills.shop.example}\n\
        spec: {group: shop.example, scope: Namespaced, names: {kind: Till}}\n";
    let till = "apiVersion: shop.example/v1\nkind: Till\nmetadata: {name: a}\n";
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let inside = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n";
    let pods = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: till}\n";
    let network = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: cilium}\n\
        spec: {template: {spec: {hostNetwork: true}}}\n";
    for (user, source) in [(till, definition), (inside, namespace), (pods, network)] {
        let (mut desired, observed) = reading(empty(), &[("user", user), ("source", source)]);
        assert_eq!(before(&plan(&desired, &observed), "user"), ["addon/source"], "{user}");
        // `needs:` decides if it contradicts the objects.
        desired.addons[1].needs = vec!["user".to_owned()];
        let planned = plan(&desired, &observed);
        assert_eq!(before(&planned, "user"), [""; 0], "{user}");
        assert_eq!(before(&planned, "source"), ["addon/user"], "{user}");
    }
    // Two add-ons that use objects of each other are both applied.
    let both = [format!("{definition}---\n{inside}"), format!("{namespace}---\n{till}")];
    let (desired, observed) = reading(empty(), &[("one", &both[0]), ("two", &both[1])]);
    let planned = plan(&desired, &observed);
    let all = [before(&planned, "one"), before(&planned, "two")].concat();
    assert_eq!(all.len(), 1, "{all:?}");
}

#[test]
fn pods_without_a_network_are_reported() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: till}\n";
    let twice = format!("{deployment}---\n{}", deployment.replace("till", "shop"));
    let network = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: cilium}\n\
        spec: {template: {spec: {hostNetwork: true}}}\n";
    let none: [(Severity, String, String); 0] = [];
    let reported = [(
        Severity::Warning,
        "add-on one".to_owned(),
        "Deployment till (one.yaml, document 1) needs a pod network: \
         Talos brings none in this cluster, and no add-on is known to"
            .to_owned(),
    )];
    let (mut desired, mut observed) = reading(empty(), &[("one", &twice)]);
    assert_eq!(findings(&desired, &observed), none, "Talos brings one");
    desired.has_cni = false;
    assert_eq!(findings(&desired, &observed), reported);
    desired.cni_managed_by = Some("Flux".to_owned());
    assert_eq!(findings(&desired, &observed), none, "another tool brings one");
    desired.cni_managed_by = None;
    // A pod network was installed by hand, or is still missing.
    for (lacks_pod_network, expected) in [(true, &reported[..]), (false, &none)] {
        let registered = Registered { lacks_pod_network, ..Registered::default() };
        observed.kubernetes = KubernetesSeen::Answers(registered);
        assert_eq!(findings(&desired, &observed), expected, "{lacks_pod_network}");
    }
    let (mut desired, mut observed) = reading(empty(), &[("one", deployment), ("two", network)]);
    desired.has_cni = false;
    assert_eq!(findings(&desired, &observed), none);
    let unread = AddonRead::Unreachable("no route".to_owned());
    observed.addons.read.insert("two".to_owned(), unread);
    let about = |one: &(Severity, String, String)| one.1 == "add-on one";
    assert!(!findings(&desired, &observed).iter().any(about), "it may bring one");
}

#[test]
fn the_patched_configs_decide_whether_talos_installs_a_network() {
    let patched = |cni: &str, patch: &str| {
        let patches = format!("patches: {{all: [{{cluster: {{network: {{cni: {patch}}}}}}}]}}\n");
        let head = HEAD.replace("network: {", &format!("network: {{cni: {cni}, "));
        desired(&format!("{head}{patches}{HOME}")).has_cni
    };
    assert!(!patched("flannel", "{name: none}"));
    assert!(patched("none", "{name: custom, urls: ['https://example.com/cni.yaml']}"));
    assert!(home().has_cni && !home_with("network: {", "network: {cni: none, ").has_cni);
    let managed = home_with("network: {", "network: {cni: {managed_by: Flux}, ");
    assert_eq!((managed.has_cni, managed.cni_managed_by.as_deref()), (false, Some("Flux")));
}

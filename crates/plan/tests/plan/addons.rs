//! Planning of add-ons, and findings about their manifests.

use insta::assert_snapshot;
use talmox_plan::desired::{Addon, AddonSource, Desired, ManifestFile};
use talmox_plan::manifest::read_manifests;
use talmox_plan::observed::{
    AddonRead, AddonSeen, KubernetesSeen, ObjectChange, Observed, Registered, RejectedObject,
};
use talmox_plan::plan::{Action, Class, HealthGoal, SavedPlan, SavedPlanError, Severity};

use crate::support::{HEAD, HOME, desired, home, home_with, ids, plan, text};
use crate::world::{empty, settled};

fn with_addon() -> Desired {
    let mut desired = home();
    let text = ManifestFile { origin: "shop.yaml".to_owned(), text: String::new().into() };
    let source = AddonSource::Texts(vec![text]);
    desired.addons = vec![Addon { name: "shop".to_owned(), source }];
    desired
}

/// A running cluster in which the observed state of the add-on is `seen`.
fn found(desired: &Desired, seen: AddonSeen) -> Observed {
    let mut world = settled(&home());
    let nodes = desired.nodes.iter().map(|node| node.name.clone()).collect();
    world.kubernetes = KubernetesSeen::Answers(Registered { nodes, ..Registered::default() });
    world.addons.known.insert("shop".to_owned(), seen);
    world
}

fn seen(changes: Vec<ObjectChange>) -> AddonSeen {
    AddonSeen { is_noted: true, changes, refusals: vec![] }
}

fn change(object: &str, what: &str) -> ObjectChange {
    ObjectChange { object: object.to_owned(), what: what.to_owned() }
}

#[test]
fn one_that_is_there_is_left_alone() {
    let desired = with_addon();
    let world = found(&desired, seen(vec![]));
    assert!(plan(&desired, &world).is_empty(), "{}", text(&desired, &world));
}

#[test]
fn a_changed_one_is_applied_live() {
    let desired = with_addon();
    let changes = vec![
        change("ConfigMap shop/prices", "changes data.apple"),
        change("Deployment shop/till", "is new"),
    ];
    let world = found(&desired, seen(changes));
    let plan = plan(&desired, &world);
    assert_eq!(plan.open_changes().count(), 0);
    assert_eq!(ids(&plan), ["addon/shop"]);
    assert_snapshot!(text(&desired, &world));
}

#[test]
fn one_that_nobody_noted_down_is_new() {
    let desired = with_addon();
    let world = found(&desired, AddonSeen::default());
    assert_eq!(plan(&desired, &world).changes[0].class, Class::Create);
    let fresh = plan(&desired, &empty());
    assert!(ids(&fresh).contains(&"addon/shop"), "{:?}", ids(&fresh));
}

#[test]
fn one_that_cannot_be_looked_for_is_applied_again() {
    let desired = with_addon();
    let mut world = found(&desired, AddonSeen::default());
    world.addons.known.clear();
    let plan = plan(&desired, &world);
    assert_eq!((plan.changes[0].class, ids(&plan)), (Class::Live, vec!["addon/shop"]));
}

#[test]
fn what_is_left_of_others_is_seen_and_not_touched() {
    let desired = home();
    let mut world = found(&desired, AddonSeen::default());
    let objects = vec!["Namespace shop".to_owned(), "Deployment shop/till".to_owned()];
    world.addons.left.insert("shop".to_owned(), objects);
    let plan = plan(&desired, &world);
    assert!(plan.steps.is_empty() && plan.open_changes().count() == 1);
    assert_snapshot!(text(&desired, &world));
}

#[test]
fn a_saved_plan_knows_what_add_ons_looked_like() {
    let desired = with_addon();
    let world = found(&desired, seen(vec![]));
    let saved = SavedPlan::of(&plan(&desired, &world), &world);
    let changes = vec![change("ConfigMap shop/prices", "changes data.apple")];
    let moved = found(&desired, seen(changes));
    assert_eq!(saved.check(&plan(&desired, &moved), &moved), Err(SavedPlanError::ObservedChanged));
}

/// The observed state with these manifests for these add-ons.
fn reading(mut world: Observed, texts: &[(&str, &str)]) -> (Desired, Observed) {
    let mut desired = home();
    for (name, text) in texts {
        let name = (*name).to_owned();
        let manifests = read_manifests(&format!("{name}.yaml"), text).unwrap();
        world.addons.read.insert(name.clone(), AddonRead::Objects(manifests));
        desired.addons.push(Addon { name, source: AddonSource::Texts(vec![]) });
    }
    (desired, world)
}

/// The findings about add-ons: severity, subject and message.
fn findings(desired: &Desired, world: &Observed) -> Vec<(Severity, String, String)> {
    let plan = plan(desired, world);
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
fn an_object_that_two_manifests_are_about_is_named_with_both_places() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let twice = format!("{map}---\n{}", map.replace("name: a", "name: a, namespace: default"));
    let (desired, world) = reading(empty(), &[("one", &twice), ("two", map)]);
    assert_eq!(
        findings(&desired, &world),
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
    let (desired, world) = reading(empty(), &[("one", map), ("two", &other)]);
    assert_eq!(findings(&desired, &world), []);
}

#[test]
fn a_namespace_that_nobody_brings_is_found_before_anything_is_applied() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n";
    let system = map.replace("shop", "kube-system");
    let expected = [error(
        "add-on one",
        "ConfigMap shop/a (one.yaml, document 1) needs the namespace shop, which neither the cluster nor an add-on has",
    )];
    let (desired, mut world) = reading(empty(), &[("one", map), ("two", &system)]);
    assert_eq!(findings(&desired, &world), expected);

    // If the cluster answers, its namespaces are known. If it does not answer, no namespace is reported as missing.
    world.kubernetes = KubernetesSeen::Silent("no route".to_owned());
    assert_eq!(findings(&desired, &world), []);
    world.addons.namespaces = Some(std::iter::empty().collect());
    assert_eq!(findings(&desired, &world), expected);
    world.addons.namespaces = Some(std::iter::once("shop".to_owned()).collect());
    assert_eq!(findings(&desired, &world), []);

    // Another add-on creates the namespace, or may create it if its manifests cannot be read.
    let brings = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let (desired, mut world) = reading(empty(), &[("one", map), ("two", brings)]);
    assert_eq!(findings(&desired, &world), []);
    world.addons.read.insert("two".to_owned(), AddonRead::Unreachable("no route".to_owned()));
    let told = "its manifests cannot be downloaded now: no route".to_owned();
    assert_eq!(findings(&desired, &world), [(Severity::Warning, "add-on two".to_owned(), told)]);
    let wrong = "two.yaml, document 1: it has no `kind`";
    world.addons.read.insert("two".to_owned(), AddonRead::Wrong(wrong.to_owned()));
    assert_eq!(findings(&desired, &world), [error("add-on two", wrong)]);
}

#[test]
fn what_kubernetes_refuses_is_an_error_unless_something_else_may_cure_it() {
    let desired = with_addon();
    let refused = |why: &str, is_final: bool| {
        let (object, place) =
            ("Deployment shop/till".to_owned(), "shop.yaml, document 4".to_owned());
        let changes = vec![change(&object, "is refused")];
        let refusals = vec![RejectedObject { object, place, why: why.to_owned(), is_final }];
        AddonSeen { is_noted: true, changes, refusals }
    };
    let told = |world: &Observed| {
        let found = findings(&desired, world);
        let [(severity, about, message)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(about, "add-on shop");
        assert!(
            message
                .starts_with("Kubernetes rejects Deployment shop/till (shop.yaml, document 4): ")
        );
        *severity
    };
    let typo = ".spec.replicsa: field not declared in schema";
    let world = found(&desired, refused(typo, true));
    assert_eq!(told(&world), Severity::Error);
    assert_snapshot!(text(&desired, &world));

    // No other change is planned that could fix the rejection.
    let mut quota = refused("it is forbidden: exceeded quota", false);
    assert_eq!(told(&found(&desired, quota.clone())), Severity::Error);
    // The change of the quota may fix the rejection.
    quota.changes.push(change("ResourceQuota shop/all", "changes spec.hard.pods"));
    assert_eq!(told(&found(&desired, quota)), Severity::Warning);
    // The cluster is not healthy, so the rejection may be temporary.
    let mut ill = found(&desired, refused("admission webhook denied the request", false));
    let KubernetesSeen::Answers(registered) = &mut ill.kubernetes else { panic!() };
    registered.trouble = Some("wk-1 is not ready".to_owned());
    assert_eq!(told(&ill), Severity::Warning);
    // A change of another object does not fix an unknown field.
    let mut typo = refused(typo, true);
    typo.changes.push(change("ResourceQuota shop/all", "is new"));
    assert_eq!(told(&found(&desired, typo)), Severity::Error);
}

#[test]
fn nodes_are_waited_for_until_they_are_ready_where_something_brings_a_network() {
    let goal = |desired: &Desired, world: &Observed| {
        let plan = plan(desired, world);
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
        let (mut desired, world) = reading(empty(), texts);
        assert_eq!(goal(&desired, &world), Some(HealthGoal::Ready), "by Talos");
        desired.has_cni = false;
        assert_eq!(goal(&desired, &world), Some(expected), "{texts:?}");
    }
}

#[test]
fn pods_that_wait_for_a_network_in_vain_are_told_of() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: till}\n";
    let twice = format!("{deployment}---\n{}", deployment.replace("till", "shop"));
    let network = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: cilium}\n\
        spec: {template: {spec: {hostNetwork: true}}}\n";
    let none: [(Severity, String, String); 0] = [];
    let told = [(
        Severity::Warning,
        "add-on one".to_owned(),
        "Deployment till (one.yaml, document 1) needs a pod network: \
         Talos brings none in this cluster, and no add-on is known to"
            .to_owned(),
    )];
    let (mut desired, mut world) = reading(empty(), &[("one", &twice)]);
    assert_eq!(findings(&desired, &world), none, "Talos brings one");
    desired.has_cni = false;
    assert_eq!(findings(&desired, &world), told);
    // A pod network was installed by hand, or is still missing.
    for (lacks_pod_network, expected) in [(true, &told[..]), (false, &none)] {
        let registered = Registered { lacks_pod_network, ..Registered::default() };
        world.kubernetes = KubernetesSeen::Answers(registered);
        assert_eq!(findings(&desired, &world), expected, "{lacks_pod_network}");
    }
    let (mut desired, mut world) = reading(empty(), &[("one", deployment), ("two", network)]);
    desired.has_cni = false;
    assert_eq!(findings(&desired, &world), none);
    let unread = AddonRead::Unreachable("no route".to_owned());
    world.addons.read.insert("two".to_owned(), unread);
    let about = |one: &(Severity, String, String)| one.1 == "add-on one";
    assert!(!findings(&desired, &world).iter().any(about), "it may bring one");
}

#[test]
fn whether_talos_brings_a_network_is_told_by_the_configs_with_their_patches() {
    let patched = |cni: &str, patch: &str| {
        let patches = format!("patches: {{all: [{{cluster: {{network: {{cni: {patch}}}}}}}]}}\n");
        let head = HEAD.replace("network: {", &format!("network: {{cni: {cni}, "));
        desired(&format!("{head}{patches}{HOME}")).has_cni
    };
    assert!(!patched("flannel", "{name: none}"));
    assert!(patched("none", "{name: custom, urls: ['https://example.com/cni.yaml']}"));
    assert!(home().has_cni && !home_with("network: {", "network: {cni: none, ").has_cni);
}

//! Add-ons, as they are found in a cluster.

use insta::assert_snapshot;
use talmox_engine::desired::{Addon, Desired};
use talmox_engine::kube::ObjectChange;
use talmox_engine::observe::{AddonSeen, KubernetesSeen, Registered, World};
use talmox_engine::plan::{AddonSource, Class, Manifest, SavedPlan, SavedPlanError};

use crate::support::{home, ids, plan, text};
use crate::world::{empty, settled};

fn with_addon() -> Desired {
    let mut desired = home();
    let text = Manifest { origin: "shop.yaml".to_owned(), text: String::new() };
    let source = AddonSource::Texts(vec![text]);
    desired.addons = vec![Addon { name: "shop".to_owned(), source }];
    desired
}

/// A cluster in which the add-on is found like this.
fn found(desired: &Desired, seen: AddonSeen) -> World {
    let mut world = settled(&home());
    let nodes = desired.nodes.iter().map(|node| node.name.clone()).collect();
    world.kubernetes = KubernetesSeen::Answers(Registered { nodes, trouble: None });
    world.addons.known.insert("shop".to_owned(), seen);
    world
}

fn change(object: &str, what: &str) -> ObjectChange {
    ObjectChange { object: object.to_owned(), what: what.to_owned() }
}

#[test]
fn one_that_is_there_is_left_alone() {
    let desired = with_addon();
    let world = found(&desired, AddonSeen { is_noted: true, changes: vec![] });
    assert!(plan(&desired, &world).is_empty(), "{}", text(&desired, &world));
}

#[test]
fn a_changed_one_is_applied_live() {
    let desired = with_addon();
    let changes = vec![
        change("ConfigMap shop/prices", "changes data.apple"),
        change("Deployment shop/till", "is new"),
    ];
    let world = found(&desired, AddonSeen { is_noted: true, changes });
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
    let world = found(&desired, AddonSeen { is_noted: true, changes: vec![] });
    let saved = SavedPlan::of(&plan(&desired, &world), &world);
    let changes = vec![change("ConfigMap shop/prices", "changes data.apple")];
    let moved = found(&desired, AddonSeen { is_noted: true, changes });
    assert_eq!(saved.check(&plan(&desired, &moved), &moved), Err(SavedPlanError::WorldMoved));
}

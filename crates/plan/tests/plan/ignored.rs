//! Differences that the inventory accepts (`ignore:`).

use talmox_plan::plan::{Change, Left, Plan, show};

use crate::observed_state::settled;
use crate::support::{HEAD, HOME, desired, home, home_with, plan};

/// Object and path of each accepted difference.
fn ignored(plan: &Plan) -> Vec<(String, String)> {
    let is_ignored = |change: &&Change| change.left == Some(Left::Ignored);
    let paths = plan.changes.iter().filter(is_ignored).flat_map(|change| {
        change.fields.iter().map(|field| (change.object.to_string(), field.path.clone()))
    });
    paths.collect()
}

#[test]
fn an_ignored_option_of_a_vm_is_not_a_change() {
    let observed = settled(&home());
    let settings = "ip: 10.0.0.21, memory: 8G, ignore: [{path: memory, reason: measured}]}";
    let plan = plan(&home_with("ip: 10.0.0.21}", settings), &observed);
    let text = show::text(&plan);
    assert_eq!(ignored(&plan), [("vm wk-1".to_owned(), "memory".to_owned())], "{text}");
    assert!(plan.is_empty() && !plan.is_partial(), "{text}");
    assert!(text.contains("# measured"), "{text}");
    assert!(text.ends_with("home: nothing to do; 1 difference is ignored\n"), "{text}");
}

#[test]
fn other_differences_of_the_same_vm_are_changes() {
    let observed = settled(&home());
    let settings =
        "ip: 10.0.0.21, memory: 8G, cores: 6, ignore: [{path: memory, reason: measured}]}";
    let plan = plan(&home_with("ip: 10.0.0.21}", settings), &observed);
    let text = show::text(&plan);
    assert_eq!(ignored(&plan), [("vm wk-1".to_owned(), "memory".to_owned())], "{text}");
    let others = plan.changes.iter().filter(|change| change.left != Some(Left::Ignored));
    let paths: Vec<&str> =
        others.flat_map(|change| &change.fields).map(|field| field.path.as_str()).collect();
    assert_eq!(paths, ["cores"], "{text}");
}

#[test]
fn ignored_paths_of_machine_configs_are_not_changes() {
    let observed = settled(&home());
    let settings = "machine: {sysctls: {vm.swappiness: '1'}, ignore: [{path: machine.sysctls, reason: later}]}";
    let plan = plan(&desired(&format!("{HEAD}{settings}\n{HOME}")), &observed);
    let text = show::text(&plan);
    assert_eq!(ignored(&plan).len(), 5, "{text}");
    assert!(ignored(&plan).iter().all(|(_, path)| path.starts_with("machine.sysctls")), "{text}");
    assert!(plan.is_empty(), "{text}");
}

/// Talos replaces a config as a whole, so another change would undo the accepted difference.
#[test]
fn other_paths_of_the_same_config_are_left() {
    let observed = settled(&home());
    let settings = "machine: {sysctls: {vm.swappiness: '1'}, labels: {tier: gold}, ignore: [{path: machine.sysctls, reason: later}]}";
    let plan = plan(&desired(&format!("{HEAD}{settings}\n{HOME}")), &observed);
    let text = show::text(&plan);
    assert_eq!(ignored(&plan).len(), 5, "{text}");
    assert!(plan.steps.is_empty() && plan.is_partial(), "{text}");
    let mut others = plan.changes.iter().filter(|change| change.left != Some(Left::Ignored));
    let is_explained = |change: &Change| {
        change.note.as_ref().is_some_and(|note| note.contains("Talos takes a config as a whole"))
    };
    assert!(others.clone().count() == 5 && others.all(is_explained), "{text}");
}

//! vmids are derived from the names of nodes. The position of a node in the inventory does not change its vmid.

use std::collections::BTreeMap;

use talmox_plan::desired::Desired;
use talmox_plan::observed::Observed;
use talmox_plan::planning::{self, DestroyOptions, future_locations};

use crate::observed_state::{carry_out, empty, foreign, settled};
use crate::support::{HEAD, desired, plan};

const PLANES: &str = "controlplane:\n  - {name: cp-1, ip: 10.0.0.11}\n";
const WORKERS: &str =
    "workers:\n  - {name: wk-1, ip: 10.0.0.21}\n  - {name: wk-2, ip: 10.0.0.22}\n";

fn numbers(desired: &Desired, observed: &Observed) -> BTreeMap<String, u32> {
    let all = future_locations(desired, &observed.pve).into_iter();
    all.map(|(node, vm)| (node.name.clone(), vm.unwrap().vmid.get())).collect()
}

fn with(planes: &str, workers: &str) -> Desired {
    desired(&format!("{HEAD}{planes}{workers}"))
}

/// Asserts that nodes in both inventories have the same vmids, MAC addresses and IP addresses.
fn assert_same(before: &Desired, after: &Desired) {
    let (old, new) = (numbers(before, &empty()), numbers(after, &empty()));
    for node in &before.nodes {
        let Some(same) = after.node(&node.name) else { continue };
        assert_eq!(old[&node.name], new[&node.name], "{}", node.name);
        assert_eq!(node.identity, same.identity, "{}", node.name);
        assert_eq!(node.addresses, same.addresses, "{}", node.name);
    }
}

#[test]
fn numbered_names_get_the_start_of_the_range() {
    let planes: String =
        (1..=5).map(|n| format!("  - {{name: cp-{n}, ip: 10.0.0.1{n}}}\n")).collect();
    let workers: String =
        (1..=7).map(|n| format!("  - {{name: wk-0{n}, ip: 10.0.0.2{n}}}\n")).collect();
    let whole = with(&format!("controlplane:\n{planes}"), &format!("workers:\n{workers}"));
    let found = numbers(&whole, &empty());
    let found: Vec<u32> = whole.nodes.iter().map(|node| found[&node.name]).collect();
    assert_eq!(found, [300, 301, 302, 308, 309, 303, 304, 305, 306, 307, 310, 311]);
}

#[test]
fn inserting_and_removing_nodes_keeps_other_vmids() {
    let before = with(PLANES, WORKERS);
    for name in ["wk-3", "wk-0", "extra", "atlas"] {
        let first = format!("workers:\n  - {{name: {name}, ip: 10.0.0.29}}");
        assert_same(&before, &with(PLANES, &WORKERS.replace("workers:", &first)));
    }
    assert_same(&before, &with(PLANES, &WORKERS.replace("  - {name: wk-1, ip: 10.0.0.21}\n", "")));
    let more = "  - {name: cp-3, ip: 10.0.0.13}\n  - {name: cp-2, ip: 10.0.0.12}\n";
    let planes = PLANES.replace("controlplane:\n", &format!("controlplane:\n{more}"));
    assert_same(&before, &with(&planes, WORKERS));
}

#[test]
fn destroy_and_up_give_each_node_its_vmid_again() {
    let before = with(PLANES, WORKERS);
    let mut observed = settled(&before);
    let first = "workers:\n  - {name: storage, ip: 10.0.0.29}";
    let grown = with(PLANES, &WORKERS.replace("workers:", first));
    let added = plan(&grown, &observed);
    carry_out(&grown, &added, &mut observed, usize::MAX);
    let running = numbers(&grown, &observed);
    let end = planning::destroy(&grown, &observed, DestroyOptions::default());
    carry_out(&grown, &end, &mut observed, usize::MAX);
    assert!(observed.pve.vms.is_empty());
    assert_eq!(numbers(&grown, &observed), running);
    assert_eq!(running["wk-1"], 303);
}

/// Regardless of the VMs that a killed run created, the other nodes get the vmids of the first plan.
#[test]
fn vmids_do_not_depend_on_which_vms_exist() {
    let text = WORKERS.replace("workers:", "workers:\n  - {name: gpu-1, ip: 10.0.0.28}");
    let whole = with(PLANES, &text);
    let expected = numbers(&whole, &empty());
    let all = settled(&whole);
    for made in 0..16_u32 {
        let mut observed = empty();
        for (nth, (vmid, seen)) in all.pve.vms.iter().enumerate() {
            if made & (1 << nth) != 0 {
                observed.pve.vms.insert(*vmid, seen.clone());
            }
        }
        assert_eq!(numbers(&whole, &observed), expected, "{made:04b}");
    }
}

/// Two nodes have the same role and number. The vmid of one never becomes the vmid of the other: not by their order, not by the
/// order in which they were added, and not after `destroy` and `up`.
#[test]
fn nodes_with_the_same_role_and_number_never_swap_their_vmids() {
    let workers = |names: &[&str]| -> String {
        let entry = |name: &&str| {
            let last = if name.starts_with("wk") { 21 } else { 22 };
            format!("  - {{name: {name}, ip: 10.0.0.{last}}}\n")
        };
        let entries: String = names.iter().map(entry).collect();
        format!("workers:\n{entries}")
    };
    let (one, other) = ("wk-1", "gpu-1");
    let both = with(PLANES, &workers(&[one, other]));
    let found = numbers(&both, &empty());
    assert_eq!(numbers(&with(PLANES, &workers(&[other, one])), &empty()), found);
    // Both are derived from the full names, in the second half of the range.
    for name in [one, other] {
        assert!((350..=399).contains(&found[name]), "{found:?}");
    }
    for (first, second) in [(one, other), (other, one)] {
        let single = with(PLANES, &workers(&[first]));
        let mut observed = settled(&single);
        assert_eq!(numbers(&single, &observed)[first], 303);
        let added = plan(&both, &observed);
        carry_out(&both, &added, &mut observed, usize::MAX);
        let grown = numbers(&both, &observed);
        assert_eq!((grown[first], grown[second]), (303, found[second]), "existing VMs keep theirs");
        let end = planning::destroy(&both, &observed, DestroyOptions::default());
        carry_out(&both, &end, &mut observed, usize::MAX);
        assert_eq!(numbers(&both, &observed), found);
    }
}

#[test]
fn a_foreign_vm_changes_only_the_vmid_of_one_node() {
    let desired = with(PLANES, WORKERS);
    let mut observed = empty();
    foreign(&mut observed, 303, "mail", "");
    let found = numbers(&desired, &observed);
    assert_eq!((found["cp-1"], found["wk-2"]), (300, 304));
    assert_eq!(found["wk-1"], 366, "derived from the name and the id of the cluster");
}

#[test]
fn a_range_without_spare_vmids_is_enough() {
    let head = HEAD.replace("vmid_range: 300-399", "vmid_range: 300-302");
    let small = desired(&format!("{head}{PLANES}{WORKERS}"));
    let found = numbers(&small, &empty());
    let mut found: Vec<u32> = found.into_values().collect();
    found.sort_unstable();
    assert_eq!(found, [300, 301, 302]);
}

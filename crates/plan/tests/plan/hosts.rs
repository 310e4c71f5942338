//! Hosts of nodes without `host:` in the inventory.

use std::collections::BTreeMap;

use talmox_plan::desired::Desired;
use talmox_plan::observed::Observed;
use talmox_plan::planning::future_locations;

use crate::support::{HEAD, desired};
use crate::world::{empty, host, settled, vmid};

/// Control planes with these settings, in an inventory with two hosts.
fn control_planes(settings: &[&str]) -> Desired {
    let head = HEAD.replace("node: pve1", "hosts: [pve1, pve2]");
    let nodes = settings.iter().zip(1..).map(|(settings, number)| {
        format!("  - {{name: cp-{number}, ip: 10.0.0.1{number}, vmid: 30{number}{settings}}}\n")
    });
    desired(&format!("{head}controlplane:\n{}", nodes.collect::<String>()))
}

fn hosts(desired: &Desired, world: &Observed) -> Vec<String> {
    let all = future_locations(desired, &world.pve).into_iter();
    all.map(|(_, vm)| vm.unwrap().node.to_string()).collect()
}

#[test]
fn control_planes_keep_away_from_those_that_name_a_host() {
    let desired = control_planes(&["", ", host: pve1", ""]);
    assert_eq!(hosts(&desired, &empty()), ["pve2", "pve1", "pve1"]);
    let desired = control_planes(&[", host: pve1", ", host: pve1", "", ""]);
    assert_eq!(hosts(&desired, &empty()), ["pve1", "pve1", "pve2", "pve2"]);
}

#[test]
fn a_new_control_plane_keeps_away_from_those_that_are_there() {
    let mut world = settled(&control_planes(&["", ""]));
    let grown = control_planes(&["", "", ""]);
    assert_eq!(hosts(&grown, &world), ["pve1", "pve2", "pve1"]);
    // A user moved the VM of a control plane.
    world.pve.vms.get_mut(&vmid(302)).unwrap().host = host("pve1");
    assert_eq!(hosts(&grown, &world), ["pve1", "pve1", "pve2"]);
}

/// The state of a vmid in use is requested on the host where the creation of its VM started.
#[test]
fn places_do_not_depend_on_which_vms_are_made_already() {
    let desired = control_planes(&["", "", ""]);
    let whole = settled(&desired);
    let expected = hosts(&desired, &empty());
    for made in 0..8 {
        let is_made = |number: u32| made & (1 << (number - 301)) != 0;
        let mut world = empty();
        let vms = whole.pve.vms.iter().filter(|(vmid, _)| is_made(vmid.get()));
        world.pve.vms = vms.map(|(vmid, seen)| (*vmid, seen.clone())).collect::<BTreeMap<_, _>>();
        assert_eq!(hosts(&desired, &world), expected, "{made:03b}");
    }
}

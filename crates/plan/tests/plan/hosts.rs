//! Hosts of nodes without `host:` in the inventory.

use std::collections::BTreeMap;

use talmox_plan::desired::Desired;
use talmox_plan::observed::Observed;
use talmox_plan::planning::future_locations;

use crate::observed_state::{empty, host, settled, vmid};
use crate::support::{HEAD, desired};

/// Control planes with these settings, in an inventory with two hosts.
fn control_planes(settings: &[&str]) -> Desired {
    let head = HEAD.replace("node: pve1", "hosts: [pve1, pve2]");
    let nodes = settings.iter().zip(1..).map(|(settings, number)| {
        format!("  - {{name: cp-{number}, ip: 10.0.0.1{number}, vmid: 30{number}{settings}}}\n")
    });
    desired(&format!("{head}controlplane:\n{}", nodes.collect::<String>()))
}

fn hosts(desired: &Desired, observed: &Observed) -> Vec<String> {
    let all = future_locations(desired, &observed.pve).into_iter();
    all.map(|(_, vm)| vm.unwrap().node.to_string()).collect()
}

#[test]
fn control_planes_avoid_the_hosts_of_those_that_name_one() {
    let desired = control_planes(&["", ", host: pve1", ""]);
    assert_eq!(hosts(&desired, &empty()), ["pve2", "pve1", "pve1"]);
    let desired = control_planes(&[", host: pve1", ", host: pve1", "", ""]);
    assert_eq!(hosts(&desired, &empty()), ["pve1", "pve1", "pve2", "pve2"]);
}

#[test]
fn a_new_control_plane_avoids_the_hosts_of_existing_ones() {
    let mut observed = settled(&control_planes(&["", ""]));
    let grown = control_planes(&["", "", ""]);
    assert_eq!(hosts(&grown, &observed), ["pve1", "pve2", "pve1"]);
    // A user moved the VM of a control plane.
    observed.pve.vms.get_mut(&vmid(302)).unwrap().host = host("pve1");
    assert_eq!(hosts(&grown, &observed), ["pve1", "pve1", "pve2"]);
}

/// The state of a vmid in use is requested on the host where the creation of its VM started.
#[test]
fn hosts_do_not_depend_on_which_vms_exist() {
    let desired = control_planes(&["", "", ""]);
    let whole = settled(&desired);
    let expected = hosts(&desired, &empty());
    for made in 0..8 {
        let is_made = |number: u32| made & (1 << (number - 301)) != 0;
        let mut observed = empty();
        let vms = whole.pve.vms.iter().filter(|(vmid, _)| is_made(vmid.get()));
        observed.pve.vms =
            vms.map(|(vmid, seen)| (*vmid, seen.clone())).collect::<BTreeMap<_, _>>();
        assert_eq!(hosts(&desired, &observed), expected, "{made:03b}");
    }
}

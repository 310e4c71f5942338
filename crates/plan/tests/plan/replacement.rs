//! Replacement of nodes.

use talmox_plan::observed::TalosSeen;
use talmox_plan::plan::{Class, Left, Object, Plan, show};
use talmox_plan::planning::Scope;

use crate::observed_state::{carry_out, settled};
use crate::removal::{after, all, left, member, plan_within, running};
use crate::support::{HEAD, desired, errors, home, home_with, ids, single};

/// A scope in which the user requested the replacement of these nodes, and consented to it.
fn replacing(names: &[&str]) -> Scope {
    Scope { replace: names.iter().map(|name| (*name).to_owned()).collect(), ..all() }
}

/// The steps that a step depends on, without the steps that fetch images.
fn waits<'a>(plan: &'a Plan, id: &str) -> Vec<&'a str> {
    after(plan, id).into_iter().filter(|step| !step.starts_with("image/")).collect()
}

fn vm(name: &str) -> Object {
    Object::Vm(name.to_owned())
}

#[test]
fn a_worker_is_destroyed_and_created_again() {
    let desired = home();
    let mut observed = running(&desired);
    let plan = plan_within(&desired, &observed, &replacing(&["wk-1"]));
    assert_eq!(plan.errors().count(), 0, "{:?}", plan.findings);
    assert_eq!(after(&plan, "vm/wk-1/stop"), ["node/wk-1/drain"]);
    // The image is fetched before the VM is destroyed.
    let first = after(&plan, "node/wk-1/drain");
    assert!(first.len() == 1 && first[0].starts_with("image/pve1/local/"), "{first:?}");
    assert_eq!(after(&plan, "vm/wk-1/destroy"), ["node/wk-1/delete"]);
    assert!(after(&plan, "vm/wk-1/create").contains(&"vm/wk-1/destroy"));
    assert!(ids(&plan).contains(&"talos/wk-1/join"), "{:?}", ids(&plan));
    // The node is not reset. If the run ends before the VM is destroyed, the node must be able to start again.
    assert!(!ids(&plan).contains(&"talos/wk-1/reset"), "{:?}", ids(&plan));
    assert_eq!(left(&plan, &vm("wk-1")), (Class::Replace, None));
    let before = observed.pve.vms.clone();
    carry_out(&desired, &plan, &mut observed, usize::MAX);
    let configs = |vms: &std::collections::BTreeMap<_, talmox_plan::observed::VmSeen>| {
        vms.values().map(|seen| seen.config.clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(configs(&observed.pve.vms), configs(&before), "vmid, MAC and UUID are the same");
    let rest = plan_within(&desired, &observed, &Scope::default());
    assert!(rest.is_empty(), "{}", show::text(&rest));
}

#[test]
fn a_control_plane_leaves_etcd_first_and_nothing_is_bootstrapped() {
    let desired = home();
    let mut observed = settled(&desired);
    let plan = plan_within(&desired, &observed, &replacing(&["cp-1"]));
    assert_eq!(plan.errors().count(), 0, "{:?}", plan.findings);
    assert_eq!(after(&plan, "vm/cp-1/stop"), ["etcd/cp-1/leave"]);
    let remove = member(&plan, "cp-1");
    assert!(remove.node.is_some());
    let others: Vec<&str> = remove.others.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(others, ["cp-2", "cp-3"]);
    assert!(!ids(&plan).contains(&"etcd/bootstrap"), "{:?}", ids(&plan));
    carry_out(&desired, &plan, &mut observed, usize::MAX);
    let rest = plan_within(&desired, &observed, &Scope::default());
    assert!(rest.is_empty(), "{}", show::text(&rest));
}

#[test]
fn control_planes_are_replaced_one_by_one_after_the_workers() {
    let desired = home();
    let mut observed = settled(&desired);
    let Some(TalosSeen::OwnNode(first)) = observed.nodes.get_mut("cp-1") else { panic!() };
    first.is_leader = true;
    let scope = replacing(&["cp-1", "cp-2", "wk-1", "wk-2"]);
    let plan = plan_within(&desired, &observed, &scope);
    assert_eq!(waits(&plan, "vm/wk-1/stop"), [""; 0]);
    assert_eq!(waits(&plan, "vm/wk-2/stop"), ["talos/wk-1/join"]);
    let workers = ["talos/wk-1/join", "talos/wk-2/join"];
    assert_eq!(waits(&plan, "etcd/cp-2/leave"), workers);
    // The etcd leader comes last.
    let before = ["talos/cp-2/join", "talos/wk-1/join", "talos/wk-2/join"];
    assert_eq!(waits(&plan, "etcd/cp-1/leave"), before);
}

#[test]
fn no_replacement_starts_before_other_nodes_are_back() {
    let desired = home();
    let mut observed = settled(&desired);
    observed.nodes.insert("cp-3".to_owned(), TalosSeen::Nothing("connection refused".to_owned()));
    let plan = plan_within(&desired, &observed, &replacing(&["wk-1"]));
    assert_eq!(waits(&plan, "vm/wk-1/stop"), ["talos/cp-3/join"]);
    // Two of three etcd members must stay healthy.
    let plan = plan_within(&desired, &observed, &replacing(&["cp-2"]));
    assert_eq!(left(&plan, &vm("cp-2")), (Class::Replace, Some(Left::Blocked)));
    assert!(!ids(&plan).contains(&"vm/cp-2/destroy"), "{:?}", ids(&plan));
}

#[test]
fn a_replacement_needs_consent() {
    let desired = home();
    let observed = running(&desired);
    let scope = Scope { replace: ["wk-1".to_owned()].into(), ..Scope::default() };
    let plan = plan_within(&desired, &observed, &scope);
    assert_eq!(left(&plan, &vm("wk-1")), (Class::Replace, Some(Left::NeedsConsent)));
    assert_eq!(ids(&plan), [""; 0]);
}

#[test]
fn the_only_control_plane_is_not_replaced() {
    let desired = single("cores: 2");
    let observed = settled(&desired);
    let plan = plan_within(&desired, &observed, &replacing(&["cp-1"]));
    assert_eq!(left(&plan, &vm("cp-1")), (Class::Replace, Some(Left::Impossible)));
    assert_eq!(ids(&plan), [""; 0]);
    let text = show::text(&plan);
    assert!(text.contains("add two control planes first"), "{text}");
}

#[test]
fn another_system_disk_needs_a_replacement() {
    let mut observed = settled(&home());
    let changed = home_with("ip: 10.0.0.21}", "ip: 10.0.0.21, disk_bus: virtio}");
    let kept = plan_within(&changed, &observed, &Scope::default());
    assert_eq!(left(&kept, &vm("wk-1")), (Class::Replace, Some(Left::NeedsConsent)));
    assert!(!ids(&kept).contains(&"vm/wk-1/destroy"), "{:?}", ids(&kept));
    let plan = plan_within(&changed, &observed, &all());
    assert_eq!(left(&plan, &vm("wk-1")), (Class::Replace, None));
    carry_out(&changed, &plan, &mut observed, usize::MAX);
    let rest = plan_within(&changed, &observed, &Scope::default());
    assert!(rest.is_empty(), "{}", show::text(&rest));
}

#[test]
fn another_vmid_needs_a_replacement_and_must_be_free() {
    let mut observed = settled(&home());
    let changed = home_with("ip: 10.0.0.21}", "ip: 10.0.0.21, vmid: 333}");
    let plan = plan_within(&changed, &observed, &all());
    assert_eq!(left(&plan, &vm("wk-1")), (Class::Replace, None));
    let mut taken = observed.clone();
    crate::observed_state::foreign(&mut taken, 333, "mail", "another VM");
    let kept = plan_within(&changed, &taken, &all());
    assert_eq!(left(&kept, &vm("wk-1")), (Class::Replace, Some(Left::Impossible)));
    carry_out(&changed, &plan, &mut observed, usize::MAX);
    let rest = plan_within(&changed, &observed, &Scope::default());
    assert!(rest.is_empty(), "{}", show::text(&rest));
}

#[test]
fn a_node_with_another_role_is_replaced() {
    let observed = settled(&home());
    // A worker becomes a control plane.
    let more = home_with(
        "workers:\n  - {name: wk-1, ip: 10.0.0.21}\n",
        "  - {name: wk-1, ip: 10.0.0.21}\nworkers:\n",
    );
    let plan = plan_within(&more, &observed, &all());
    assert!(after(&plan, "vm/wk-1/create").contains(&"vm/wk-1/destroy"));
    assert!(!ids(&plan).contains(&"etcd/wk-1/leave"), "{:?}", ids(&plan));
    // A control plane becomes a worker.
    let fewer = home_with(
        "  - {name: cp-3, ip: 10.0.0.13, vmid: 302}\nworkers:",
        "workers:\n  - {name: cp-3, ip: 10.0.0.13, vmid: 302}",
    );
    let plan = plan_within(&fewer, &observed, &all());
    assert!(after(&plan, "vm/cp-3/create").contains(&"vm/cp-3/destroy"));
    let others: Vec<&str> =
        member(&plan, "cp-3").others.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(others, ["cp-1", "cp-2"]);
    let kept = plan_within(&fewer, &observed, &Scope::default());
    assert_eq!(left(&kept, &vm("cp-3")), (Class::Replace, Some(Left::NeedsConsent)));
    assert_eq!(ids(&kept), [""; 0]);
}

#[test]
fn a_former_control_plane_keeps_etcd_from_being_bootstrapped() {
    let mut observed = settled(&home());
    for seen in observed.nodes.values_mut() {
        *seen = TalosSeen::Nothing("no route".to_owned());
    }
    let moved = desired(&format!(
        "{HEAD}controlplane:\n  - {{name: new-1, ip: 10.0.0.31}}\nworkers:\n  \
         - {{name: cp-1, ip: 10.0.0.11, vmid: 300}}\n"
    ));
    let plan = plan_within(&moved, &observed, &all());
    let start = "cp-1: etcd is not bootstrapped: VM 300 was created as a control plane";
    let errors = errors(&plan);
    assert!(errors.iter().any(|error| error.starts_with(start)), "{errors:?}");
    assert!(!ids(&plan).contains(&"etcd/bootstrap"), "{:?}", ids(&plan));
}

#[test]
fn a_vm_that_cannot_be_read_is_not_replaced() {
    let desired = home();
    let mut observed = settled(&desired);
    let unreachable = || talmox_plan::observed::Unobserved::Unreachable("pve1 is down".to_owned());
    observed.pve.vms.get_mut(&crate::observed_state::vmid(303)).unwrap().config =
        Err(unreachable());
    let plan = plan_within(&desired, &observed, &replacing(&["wk-1"]));
    assert_eq!(left(&plan, &vm("wk-1")), (Class::Replace, Some(Left::Blocked)));
    assert!(!ids(&plan).iter().any(|id| id.starts_with("vm/wk-1/")), "{:?}", ids(&plan));
}

//! Removal of nodes that are no longer in the inventory, and of etcd members without a node.

use std::num::NonZeroUsize;

use talmox_plan::desired::{Contact, Desired};
use talmox_plan::observed::{EtcdSeen, KubernetesSeen, Observed, Registered, TalosSeen};
use talmox_plan::plan::{Action, Class, Left, Object, Plan, RemoveMember, StepId, show};
use talmox_plan::planning::{self, PlanOptions, RemovalConsent, Scope};
use talmox_pve_types::config::VmOptions;

use crate::observed_state::{carry_out, put, settled, vmid};
use crate::support::{HEAD, HOME, desired, home, home_with, ids, warnings};

const CP_4_AND_5: &str =
    "  - {name: cp-4, ip: 10.0.0.14}\n  - {name: cp-5, ip: 10.0.0.15}\nworkers:";

pub(crate) fn plan_within(desired: &Desired, observed: &Observed, scope: &Scope) -> Plan {
    let options = PlanOptions { has_client_files: true, was_up: true, was_bootstrapped: false };
    planning::plan_within(desired, observed, options, scope)
}

/// A scope with consent to remove all nodes.
pub(crate) fn all() -> Scope {
    Scope { removal: RemovalConsent::All, ..Scope::default() }
}

/// A settled cluster in which Kubernetes answers and lists all nodes.
pub(crate) fn running(desired: &Desired) -> Observed {
    let mut observed = settled(desired);
    let nodes = desired.nodes.iter().map(|node| node.name.clone()).collect();
    observed.kubernetes = KubernetesSeen::Answers(Registered { nodes, ..Registered::default() });
    observed
}

pub(crate) fn after<'a>(plan: &'a Plan, id: &str) -> Vec<&'a str> {
    let step = plan.steps.iter().find(|step| step.id.as_str() == id);
    let step = step.unwrap_or_else(|| panic!("{id}\n{}", show::graph(plan)));
    step.after.iter().map(StepId::as_str).collect()
}

/// The class of the most expensive change of an object, and the reason why the change is left.
pub(crate) fn left(plan: &Plan, object: &Object) -> (Class, Option<Left>) {
    let changes = plan.changes.iter().filter(|change| change.object == *object);
    let change = changes.max_by_key(|change| change.class);
    let change = change.unwrap_or_else(|| panic!("{object}\n{}", show::text(plan)));
    assert_eq!(change.is_planned, change.left.is_none());
    (change.class, change.left)
}

pub(crate) fn member<'a>(plan: &'a Plan, name: &str) -> &'a RemoveMember {
    let mut removals = plan.steps.iter().filter_map(|step| match &step.action {
        Action::RemoveMember(remove) => Some(remove),
        _ => None,
    });
    removals.find(|remove| remove.member == name).unwrap()
}

fn vm(name: &str) -> Object {
    Object::Vm(name.to_owned())
}

fn without_wk_2() -> Desired {
    home_with("  - {name: wk-2, ip: 10.0.0.22}\n", "")
}

#[test]
fn a_worker_is_drained_reset_and_destroyed() {
    let mut observed = running(&home());
    let shrunk = without_wk_2();
    let plan = plan_within(&shrunk, &observed, &all());
    let chain = [
        "node/wk-2/drain",
        "talos/wk-2/reset",
        "vm/wk-2/stop",
        "node/wk-2/delete",
        "vm/wk-2/destroy",
    ];
    assert_eq!(ids(&plan)[..5], chain);
    assert_eq!(ids(&plan)[5..], ["cluster/health"]);
    for pair in chain.windows(2) {
        assert_eq!(after(&plan, pair[1]), [pair[0]]);
    }
    assert_eq!(left(&plan, &vm("wk-2")), (Class::Destroy, None));
    assert_eq!(left(&plan, &Object::Node("wk-2".to_owned())), (Class::Destroy, None));
    carry_out(&shrunk, &plan, &mut observed, usize::MAX);
    let rest = plan_within(&shrunk, &observed, &Scope::default());
    assert!(rest.is_empty(), "{}", show::text(&rest));
}

#[test]
fn a_node_is_kept_without_consent_to_its_removal() {
    let observed = running(&home());
    let of_another = RemovalConsent::Nodes(["wk-1".to_owned()].into());
    for removal in [RemovalConsent::None, of_another] {
        let scope = Scope { removal, ..Scope::default() };
        let plan = plan_within(&without_wk_2(), &observed, &scope);
        assert_eq!(ids(&plan), [""; 0]);
        assert_eq!(left(&plan, &vm("wk-2")), (Class::Destroy, Some(Left::NeedsConsent)));
    }
    let others = Some(["wk-1".to_owned()].into());
    let plan = plan_within(&without_wk_2(), &observed, &Scope { nodes: others, ..all() });
    assert_eq!(ids(&plan), [""; 0]);
    assert_eq!(left(&plan, &vm("wk-2")), (Class::Destroy, Some(Left::NotSelected)));
}

#[test]
fn five_control_planes_become_three_one_after_the_other() {
    let five = home_with("workers:", CP_4_AND_5);
    let mut observed = running(&five);
    let plan = plan_within(&home(), &observed, &all());
    assert_eq!(plan.errors().count(), 0, "{:?}", plan.findings);
    assert_eq!(after(&plan, "etcd/cp-4/leave"), ["node/cp-4/drain"]);
    assert_eq!(after(&plan, "talos/cp-4/reset"), ["etcd/cp-4/leave"]);
    assert_eq!(after(&plan, "node/cp-5/drain"), ["vm/cp-4/destroy"]);
    for name in ["cp-4", "cp-5"] {
        let remove = member(&plan, name);
        assert!(remove.node.is_some());
        let others: Vec<&str> = remove.others.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(others, ["cp-1", "cp-2", "cp-3"]);
    }
    carry_out(&home(), &plan, &mut observed, usize::MAX);
    let rest = plan_within(&home(), &observed, &Scope::default());
    assert!(rest.is_empty(), "{}", show::text(&rest));
}

#[test]
fn a_stopped_control_plane_is_removed_by_its_name() {
    let five = home_with("workers:", CP_4_AND_5);
    let mut observed = running(&five);
    let stopped = observed.pve.vms.values_mut();
    let stopped = stopped.filter(|seen| {
        let config = seen.config.as_ref().unwrap();
        matches!(config.name(), Some("cp-4" | "cp-5"))
    });
    stopped.for_each(|seen| seen.is_running = false);
    let plan = plan_within(&home(), &observed, &all());
    // Three of five members are healthy. After each removal, more than half of the remaining members are healthy.
    assert!(member(&plan, "cp-4").node.is_none());
    let ids = ids(&plan);
    assert!(ids.contains(&"vm/cp-5/destroy"), "{ids:?}");
    assert!(!ids.contains(&"node/cp-4/drain") && !ids.contains(&"talos/cp-4/reset"), "{ids:?}");
}

#[test]
fn nothing_is_removed_while_etcd_does_not_answer() {
    let mut observed = running(&home());
    for seen in observed.nodes.values_mut() {
        *seen = TalosSeen::Nothing("no route".to_owned());
    }
    observed.kubernetes = KubernetesSeen::NotAsked;
    let plan = plan_within(&without_wk_2(), &observed, &all());
    assert_eq!(left(&plan, &vm("wk-2")), (Class::Destroy, Some(Left::Blocked)));
    assert!(!ids(&plan).iter().any(|id| id.contains("wk-2")), "{:?}", ids(&plan));
}

#[test]
fn removals_come_last() {
    let observed = running(&home());
    let changed = desired(&format!(
        "{HEAD}{}",
        HOME.replace("{name: wk-2, ip: 10.0.0.22}", "{name: wk-3, ip: 10.0.0.23}")
    ));
    let plan = plan_within(&changed, &observed, &all());
    assert_eq!(after(&plan, "node/wk-2/drain"), ["talos/wk-3/join"]);
    assert_eq!(ids(&plan)[ids(&plan).len() - 2..], ["vm/wk-2/destroy", "cluster/health"]);
}

#[test]
fn workers_are_removed_within_the_limit_of_unavailable_ones() {
    let more = "  - {name: wk-3, ip: 10.0.0.23}\n  - {name: wk-4, ip: 10.0.0.24}\n";
    let observed = running(&desired(&format!("{HEAD}{HOME}{more}")));
    let one = home_with("  - {name: wk-2, ip: 10.0.0.22}\n", "");
    let scope = Scope { max_unavailable: NonZeroUsize::new(2).unwrap(), ..all() };
    let plan = plan_within(&one, &observed, &scope);
    for (name, before) in [("wk-2", None), ("wk-3", None), ("wk-4", Some("vm/wk-2/destroy"))] {
        let first = after(&plan, &format!("node/{name}/drain"));
        assert_eq!(first, before.into_iter().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn a_protected_vm_is_kept() {
    let mut observed = running(&home());
    put(&mut observed.pve, vmid(304), &VmOptions::new().protection(true), &[]);
    let plan = plan_within(&without_wk_2(), &observed, &all());
    assert_eq!(ids(&plan), [""; 0]);
    assert_eq!(left(&plan, &vm("wk-2")), (Class::Destroy, Some(Left::Blocked)));
    assert_eq!(warnings(&plan), ["wk-2: its VM 304 is protected from deletion"]);
}

fn with_member(observed: &mut Observed, name: &str) {
    for seen in observed.nodes.values_mut() {
        let TalosSeen::OwnNode(found) = seen else { continue };
        if let EtcdSeen::Member { names } = &mut found.etcd {
            names.push(name.to_owned());
        }
    }
}

#[test]
fn a_member_without_a_node_is_removed_with_consent() {
    let desired = home();
    let mut observed = running(&desired);
    with_member(&mut observed, "cp-9");
    let object = Object::Node("cp-9".to_owned());
    let kept = plan_within(&desired, &observed, &Scope::default());
    assert_eq!(left(&kept, &object), (Class::Destroy, Some(Left::NeedsConsent)));
    assert_eq!(ids(&kept), [""; 0]);
    let plan = plan_within(&desired, &observed, &all());
    assert_eq!(ids(&plan), ["etcd/cp-9/leave", "cluster/health"]);
    assert!(member(&plan, "cp-9").node.is_none());
    carry_out(&desired, &plan, &mut observed, usize::MAX);
    assert!(plan_within(&desired, &observed, &Scope::default()).is_empty());
}

#[test]
fn a_member_that_may_be_alive_is_kept() {
    let desired = home();
    let mut observed = running(&desired);
    with_member(&mut observed, "cp-9");
    // Kubernetes lists the node of the member as ready, so a machine joined by hand.
    let mut joined = observed.clone();
    let KubernetesSeen::Answers(registered) = &mut joined.kubernetes else { panic!() };
    registered.nodes.insert("cp-9".to_owned());
    assert!(!ids(&plan_within(&desired, &joined, &all())).contains(&"etcd/cp-9/leave"));
    // A patch gave a control plane this hostname.
    let mut renamed = observed.clone();
    let Some(TalosSeen::OwnNode(found)) = renamed.nodes.get_mut("cp-3") else { panic!() };
    let names = ["cp-1", "cp-2", "cp-9"].map(str::to_owned).to_vec();
    found.etcd = EtcdSeen::Member { names };
    assert!(!ids(&plan_within(&desired, &renamed, &all())).contains(&"etcd/cp-9/leave"));
    // Kubernetes does not answer.
    observed.kubernetes = KubernetesSeen::Silent("no answer".to_owned());
    assert!(!ids(&plan_within(&desired, &observed, &all())).contains(&"etcd/cp-9/leave"));
}

#[test]
fn a_dead_member_is_removed_before_its_vm_is_created_again() {
    let desired = home();
    let mut observed = settled(&desired);
    observed.pve.vms.remove(&vmid(301)).unwrap();
    observed.pve.resources.guests.retain(|guest| guest.vmid != vmid(301));
    observed.nodes.insert("cp-2".to_owned(), TalosSeen::Nothing("no route".to_owned()));
    let plan = plan_within(&desired, &observed, &Scope::default());
    assert_eq!(plan.errors().count(), 0, "{:?}", plan.findings);
    assert!(after(&plan, "vm/cp-2/create").contains(&"etcd/cp-2/leave"));
    assert!(after(&plan, "vm/cp-2/start").contains(&"etcd/cp-2/leave"));
    let remove = member(&plan, "cp-2");
    assert!(remove.node.is_none());
    let others: Vec<&str> = remove.others.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(others, ["cp-1", "cp-3"]);
    assert!(!ids(&plan).contains(&"etcd/bootstrap"));
    carry_out(&desired, &plan, &mut observed, usize::MAX);
    assert!(plan_within(&desired, &observed, &Scope::default()).is_empty());
}

#[test]
fn a_dead_member_is_kept_while_too_few_others_are_healthy() {
    let desired = home();
    let mut observed = settled(&desired);
    observed.pve.vms.remove(&vmid(301)).unwrap();
    observed.pve.resources.guests.retain(|guest| guest.vmid != vmid(301));
    for name in ["cp-2", "cp-3"] {
        observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("no route".to_owned()));
    }
    let plan = plan_within(&desired, &observed, &all());
    let errors: Vec<&str> = plan.errors().map(|error| error.code.as_str()).collect();
    assert_eq!(errors, ["etcd-member-stale"]);
    assert!(!ids(&plan).contains(&"etcd/cp-2/leave"));
}

/// A member under another name may be the control plane that is removed.
#[test]
fn no_control_plane_is_removed_beside_an_unknown_member() {
    let mut observed = running(&home());
    with_member(&mut observed, "ip-10-0-0-13");
    let shrunk = home_with("  - {name: cp-3, ip: 10.0.0.13, vmid: 302}\n", "");
    let plan = plan_within(&shrunk, &observed, &all());
    let object = Object::Vm("cp-3".to_owned());
    assert_eq!(left(&plan, &object), (Class::Destroy, Some(Left::Blocked)));
    assert!(ids(&plan).iter().all(|id| !id.starts_with("vm/cp-3/")), "{:?}", ids(&plan));
}

/// The VM of an orphan has neither an address in its config nor a guest agent.
#[test]
fn the_address_of_an_orphan_comes_from_kubernetes() {
    let by_volume =
        |text: String| desired(&text.replace("controlplane:", "boot: cidata\ncontrolplane:"));
    let whole = by_volume(format!("{HEAD}{HOME}"));
    let shrunk =
        by_volume(format!("{HEAD}{HOME}").replace("  - {name: wk-2, ip: 10.0.0.22}\n", ""));
    let mut observed = running(&whole);
    let note = |plan: &Plan| {
        let own = plan.changes.iter().find(|change| change.object == vm("wk-2"));
        own.and_then(|change| change.note.clone()).unwrap_or_default()
    };
    let plan = plan_within(&shrunk, &observed, &all());
    assert!(!ids(&plan).contains(&"talos/wk-2/reset"), "{:?}", ids(&plan));
    assert!(note(&plan).contains("it is not reset: its disks are deleted"), "{}", note(&plan));
    let mut register = |address: &str| {
        let KubernetesSeen::Answers(registered) = &mut observed.kubernetes else { panic!() };
        registered.addresses.insert("wk-2".to_owned(), vec![address.parse().unwrap()]);
        plan_within(&shrunk, &observed, &all())
    };
    // Another node of the inventory has the address now.
    assert!(!ids(&register("10.0.0.21")).contains(&"talos/wk-2/reset"));
    let plan = register("10.0.0.22");
    let reset = plan.steps.iter().find(|step| step.id.as_str() == "talos/wk-2/reset").unwrap();
    let Action::ResetNode(reset) = &reset.action else { panic!("{reset:?}") };
    assert_eq!(reset.node.contact, Contact::At("10.0.0.22".parse().unwrap()));
    assert!(!note(&plan).contains("not reset"), "{}", note(&plan));
    // Kubernetes does not answer, and other nodes discovered the orphan.
    observed.kubernetes = KubernetesSeen::Silent("no answer".to_owned());
    let discovered = ["10.0.0.20", "10.0.0.22"].map(|address| address.parse().unwrap()).to_vec();
    observed.orphan_addresses.insert("wk-2".to_owned(), discovered);
    assert!(ids(&plan_within(&shrunk, &observed, &all())).contains(&"talos/wk-2/reset"));
}

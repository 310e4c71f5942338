//! Limits of a run: `--node` and `--only`.

use std::collections::BTreeSet;

use talmox_plan::desired::Desired;
use talmox_plan::observed::{CordonedBy, KubernetesSeen, Observed, Registered, TalosSeen};
use talmox_plan::plan::{Left, Plan, show};
use talmox_plan::planning::{self, Part, PlanOptions, Scope};

use crate::observed_state::{empty, settled, vmid};
use crate::support::{HEAD, HOME, desired, home, ids};

fn limited(desired: &Desired, observed: &Observed, scope: &Scope) -> Plan {
    let options = PlanOptions { has_client_files: true, was_up: true, was_bootstrapped: false };
    planning::plan_within(desired, observed, options, scope)
}

fn to_nodes(names: &[&str]) -> Scope {
    let nodes: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    Scope { nodes: Some(nodes), ..Scope::default() }
}

fn to_part(part: Part) -> Scope {
    Scope { only: Some(part), ..Scope::default() }
}

/// The home cluster with two additional workers.
fn grown() -> Desired {
    let workers = "  - {name: wk-3, ip: 10.0.0.23}\n  - {name: wk-4, ip: 10.0.0.24}\n";
    desired(&format!("{HEAD}{HOME}{workers}"))
}

#[test]
fn only_the_selected_node_is_created() {
    let plan = limited(&grown(), &settled(&home()), &to_nodes(&["wk-4"]));
    let text = show::text(&plan);
    let nodes: BTreeSet<&str> = plan.steps.iter().filter_map(|step| step.node.as_deref()).collect();
    assert_eq!(nodes, BTreeSet::from(["wk-4"]), "{text}");
    for change in plan.changes.iter().filter(|change| change.object.node() == Some("wk-3")) {
        assert_eq!(change.left, Some(Left::NotSelected), "{text}");
    }
    assert!(ids(&plan).contains(&"cluster/health"), "{text}");
    assert!(!plan.is_partial(), "it is not a reason for another exit code: {text}");
}

#[test]
fn a_run_can_be_limited_to_a_part() {
    let mut observed = settled(&home());
    observed.pve.vms.get_mut(&vmid(303)).unwrap().is_running = false;
    let plan = limited(&grown(), &observed, &to_part(Part::Vms));
    let text = show::text(&plan);
    let ids = ids(&plan);
    for id in ["vm/wk-1/start", "vm/wk-3/create", "vm/wk-3/start"] {
        assert!(ids.contains(&id), "{id}: {text}");
    }
    assert!(
        ids.iter().all(|id| !id.starts_with("talos/") && !id.starts_with("cluster/")),
        "{text}"
    );
    // A cidata volume is not detached before the node has read it.
    assert!(ids.iter().all(|id| !id.ends_with("/detach-config")), "{text}");

    let plan = limited(&grown(), &observed, &to_part(Part::Addons));
    assert!(plan.steps.is_empty(), "{}", show::text(&plan));
    let plan = limited(&grown(), &observed, &to_part(Part::Configs));
    let text = show::text(&plan);
    assert!(plan.steps.iter().all(|step| step.node.as_deref() != Some("wk-3")), "{text}");
}

#[test]
fn a_limited_run_never_bootstraps() {
    for scope in [to_nodes(&["cp-1", "cp-2", "cp-3"]), to_part(Part::Configs), to_part(Part::Vms)] {
        let plan = limited(&home(), &empty(), &scope);
        let text = show::text(&plan);
        assert!(!ids(&plan).contains(&"etcd/bootstrap"), "{text}");
        let waits = ["talos/cp-1/join", "cluster/health", "kubeconfig", "vip"];
        assert!(ids(&plan).iter().all(|id| !waits.contains(id)), "{text}");
    }
}

#[test]
fn nothing_is_selected_by_an_empty_plan() {
    let plan = limited(&home(), &settled(&home()), &to_nodes(&["wk-1"]));
    assert!(plan.is_empty(), "{}", show::text(&plan));
}

/// The VM of a control plane is gone, and etcd still lists the member. Kubernetes lists the node as cordoned by talmox.
#[test]
fn a_run_for_configs_creates_no_vm_for_a_dead_member() {
    let desired = home();
    let mut observed = settled(&desired);
    observed.pve.vms.remove(&vmid(301)).unwrap();
    observed.pve.resources.guests.retain(|guest| guest.vmid != vmid(301));
    observed.nodes.insert("cp-2".to_owned(), TalosSeen::Nothing("no route".to_owned()));
    let nodes = desired.nodes.iter().map(|node| node.name.clone()).collect();
    let cordoned = [("cp-2".to_owned(), CordonedBy::Talmox)].into();
    let unready = ["cp-2".to_owned()].into();
    let registered = Registered { nodes, cordoned, unready, ..Registered::default() };
    observed.kubernetes = KubernetesSeen::Answers(registered);
    for part in [Part::Configs, Part::Addons, Part::Images] {
        let plan = limited(&desired, &observed, &to_part(part));
        let text = show::text(&plan);
        assert!(plan.steps.iter().all(|step| step.node.as_deref() != Some("cp-2")), "{text}");
        for change in plan.changes.iter().filter(|change| change.object.node() == Some("cp-2")) {
            assert_eq!(change.left, Some(Left::NotSelected), "{text}");
        }
    }
    // A run for VMs removes the member and creates the VM, but sends no config.
    let plan = limited(&desired, &observed, &to_part(Part::Vms));
    let text = show::text(&plan);
    for id in ["etcd/cp-2/leave", "vm/cp-2/create", "vm/cp-2/start"] {
        assert!(ids(&plan).contains(&id), "{id}: {text}");
    }
    assert!(ids(&plan).iter().all(|id| !id.starts_with("talos/")), "{text}");
}

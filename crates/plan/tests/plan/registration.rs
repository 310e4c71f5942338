//! Running nodes that Kubernetes does not list, and new nodes that must become ready.

use talmox_plan::observed::{Observed, TalosSeen};
use talmox_plan::plan::{Action, Class};

use crate::changes::{class_of, running};
use crate::observed_state::{carry_out, empty, registered};
use crate::support::{HEAD, HOME, desired, home, ids, plan, warnings};

#[test]
fn a_node_whose_object_was_deleted_registers_again() {
    let mut observed = running(&home());
    for name in ["cp-3", "wk-2"] {
        assert!(registered(&mut observed).unwrap().nodes.remove(name));
    }
    let first = plan(&home(), &observed);
    let steps = ["node/wk-2/register", "node/cp-3/register", "cluster/health"];
    assert_eq!(ids(&first), steps);
    assert_eq!(class_of(&first, "node wk-2"), Class::Live);
    // Talos may reject the restart of a kubelet, and then the node is rebooted. So only one node is restarted at a time.
    assert_eq!(first.steps[1].after, [first.steps[0].id.clone()]);
    let Action::RestartKubelet(restart) = &first.steps[1].action else { panic!() };
    assert_eq!((restart.control_planes.len(), restart.awaits_ready), (3, true));
    assert_eq!(
        warnings(&first),
        ["cp-3", "wk-2"].map(|name| format!(
            "{name}: the node runs, but Kubernetes does not list it: its Node object was deleted, or its kubelet has \
             not registered it yet"
        ))
    );
    carry_out(&home(), &first, &mut observed, usize::MAX);
    assert!(plan(&home(), &observed).is_empty());
}

#[test]
fn a_node_that_never_registers_is_left_alone() {
    let patch = "patches: {all: [{machine: {kubelet: {skipNodeRegistration: true}}}]}\n";
    let closed = desired(&format!("{HEAD}{patch}{HOME}"));
    let mut observed = running(&closed);
    registered(&mut observed).unwrap().nodes.remove("wk-2");
    assert_eq!(ids(&plan(&closed, &observed)), Vec::<&str>::new());
}

#[test]
fn a_node_that_is_listed_under_its_full_name_is_left_alone() {
    let mut observed = running(&home());
    let known = registered(&mut observed).unwrap();
    known.nodes.remove("wk-2");
    known.nodes.insert("wk-2.example.com".to_owned());
    assert_eq!(ids(&plan(&home(), &observed)), Vec::<&str>::new());
}

#[test]
fn a_node_that_joins_a_cluster_with_a_pod_network_must_become_ready() {
    let awaits_ready = |observed: &Observed| {
        let plan = plan(&home(), observed);
        let join = plan.steps.iter().find(|step| step.id.as_str() == "talos/wk-2/join").unwrap();
        let Action::AwaitMember(member) = &join.action else { panic!() };
        member.awaits_ready
    };
    // The health check of a new cluster waits for its nodes, after add-ons were applied.
    assert!(!awaits_ready(&empty()));
    let mut observed = running(&home());
    let guests = &mut observed.pve.resources.guests;
    let gone = guests.iter().find(|guest| guest.name.as_deref() == Some("wk-2")).unwrap().vmid;
    guests.retain(|guest| guest.vmid != gone);
    observed.pve.vms.remove(&gone).unwrap();
    observed.nodes.insert("wk-2".to_owned(), TalosSeen::Nothing("no route".to_owned()));
    assert!(awaits_ready(&observed));
    let known = registered(&mut observed).unwrap();
    known.unready = known.nodes.clone();
    assert!(!awaits_ready(&observed), "no node is ready, so there may be no pod network");
}

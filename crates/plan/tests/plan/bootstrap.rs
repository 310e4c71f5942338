//! etcd is bootstrapped once, and never if a control plane may have etcd data.

use talmox_plan::desired::Desired;
use talmox_plan::observed::{
    EtcdSeen, KubernetesSeen, Observed, Registered, TalosSeen, Unobserved,
};
use talmox_plan::plan::{
    self, Action, BootstrapEtcd, Class, Evidence, Finding, FindingCode, Object, Plan, show,
};
use talmox_plan::planning::{self, PlanOptions};
use talmox_pve_types::config::VmConfig;

use crate::observed_state::{carry_out, empty, settled, vmid};
use crate::support::{HEAD, HOME, desired, errors, home, plan, plan_with, warnings};

fn bootstrap(plan: &Plan) -> Option<&BootstrapEtcd> {
    plan.steps.iter().find_map(|step| match &step.action {
        Action::BootstrapEtcd(bootstrap) => Some(bootstrap),
        _ => None,
    })
}

fn unhealthy(voters: &[&str], is_leaderless: bool) -> EtcdSeen {
    let voters = voters.iter().map(|name| (*name).to_owned()).collect();
    EtcdSeen::Unhealthy { reason: "no leader".to_owned(), voters, is_leaderless }
}

/// A cluster whose VMs all run, and in which no node has etcd data.
fn before_bootstrap() -> Observed {
    let desired = home();
    let mut observed = empty();
    let plan = plan(&desired, &observed);
    let at = plan.steps.iter().position(|step| step.id.as_str() == "etcd/bootstrap").unwrap();
    carry_out(&desired, &plan, &mut observed, at);
    observed
}

#[test]
fn nodes_with_fresh_disks_are_not_queried() {
    let plan = plan(&home(), &empty());
    let step = bootstrap(&plan).unwrap();
    assert_eq!(step.node.name, "cp-1");
    assert!(step.witnesses.iter().all(|witness| witness.evidence == Evidence::FreshDisk));
    let step = plan.steps.iter().find(|step| step.id.as_str() == "etcd/bootstrap").unwrap();
    let after: Vec<&str> = step.after.iter().map(talmox_plan::plan::StepId::as_str).collect();
    assert_eq!(after, ["talos/cp-1/apply"], "a slow disk elsewhere delays no other node");
}

#[test]
fn existing_control_planes_must_answer() {
    let mut observed = before_bootstrap();
    observed.nodes.insert("cp-2".to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    let plan = plan(&home(), &observed);
    let step = bootstrap(&plan).unwrap();
    let evidence: Vec<_> = step.witnesses.iter().map(|one| one.evidence).collect();
    assert_eq!(evidence, [Evidence::Answer, Evidence::Answer]);
    let step = plan.steps.iter().find(|step| step.id.as_str() == "etcd/bootstrap").unwrap();
    assert!(step.after.iter().any(|id| id.as_str() == "talos/cp-2/apply"), "{:?}", step.after);
}

#[test]
fn any_member_prevents_a_bootstrap() {
    let mut observed = before_bootstrap();
    let Some(TalosSeen::OwnNode(found)) = observed.nodes.get_mut("cp-3") else { panic!() };
    found.etcd = EtcdSeen::Member { names: vec!["cp-3".to_owned()] };
    assert!(bootstrap(&plan(&home(), &observed)).is_none());
}

/// A user bootstrapped the second control plane although the first one had etcd data.
#[test]
fn two_etcd_clusters_are_an_error() {
    let mut observed = settled(&home());
    for (name, members) in [("cp-1", vec!["cp-1", "cp-3"]), ("cp-2", vec!["cp-2"])] {
        let Some(TalosSeen::OwnNode(found)) = observed.nodes.get_mut(name) else { panic!() };
        let names = members.into_iter().map(str::to_owned).collect();
        found.etcd = EtcdSeen::Member { names };
    }
    let both = "one of cp-1, cp-3, and one of cp-2";
    let reported = format!("home: there are two etcd clusters, each with data of its own: {both}");
    assert_eq!(errors(&plan(&home(), &observed)), [reported]);
}

#[test]
fn an_unhealthy_etcd_counts_as_data() {
    let mut observed = settled(&home());
    for name in ["cp-1", "cp-2", "cp-3"] {
        let Some(TalosSeen::OwnNode(found)) = observed.nodes.get_mut(name) else { panic!() };
        found.etcd = unhealthy(&["cp-1", "cp-2", "cp-3"], false);
    }
    let plan = plan(&home(), &observed);
    assert!(bootstrap(&plan).is_none());
    assert!(
        plan.findings.iter().any(|one| one.message.contains("no leader")),
        "{:?}",
        plan.findings
    );
}

#[test]
fn an_unreadable_control_plane_prevents_a_bootstrap() {
    let mut observed = before_bootstrap();
    observed.pve.vms.get_mut(&vmid(301)).unwrap().config =
        Err(Unobserved::Unreachable("the node cannot be reached".to_owned()));
    let plan = plan(&home(), &observed);
    assert!(bootstrap(&plan).is_none());
    assert!(plan.errors().any(|one| one.subject == "cp-2"), "{:?}", plan.findings);
}

/// The VM of the first control plane is gone, and the other control planes do not answer.
fn first_vm_lost() -> Observed {
    let mut observed = settled(&home());
    observed.pve.vms.remove(&vmid(300)).unwrap();
    observed.pve.resources.guests.retain(|guest| guest.vmid != vmid(300));
    for name in ["cp-1", "cp-2", "cp-3"] {
        observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    }
    observed
}

#[test]
fn a_rebuilt_first_node_never_starts_a_second_cluster() {
    let plan = plan(&home(), &first_vm_lost());
    let step = bootstrap(&plan).unwrap();
    let evidence: Vec<_> = step.witnesses.iter().map(|one| one.evidence).collect();
    assert_eq!(evidence, [Evidence::Answer, Evidence::Answer], "they must say that they have none");
}

/// The VMs of all control planes are gone, and the workers still run.
fn control_planes_lost() -> Observed {
    let mut observed = settled(&home());
    for (number, name) in [(300, "cp-1"), (301, "cp-2"), (302, "cp-3")] {
        observed.pve.vms.remove(&vmid(number)).unwrap();
        observed.pve.resources.guests.retain(|guest| guest.vmid != vmid(number));
        observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    }
    observed
}

fn reported(observed: &Observed, was_up: bool) -> (Vec<String>, Vec<String>) {
    let plan = plan_with(
        &home(),
        observed,
        PlanOptions { has_client_files: was_up, was_up, was_bootstrapped: false },
    );
    (errors(&plan), warnings(&plan))
}

#[test]
fn a_cluster_that_lost_all_control_planes_is_an_error() {
    let mut observed = control_planes_lost();
    let lost = "home: all control planes are gone, and with them everything that Kubernetes stored; wk-1 still runs its \
                pods, and would stop them in a new, empty cluster";
    assert_eq!(reported(&observed, true), (vec![lost.to_owned()], vec![]));
    let warned =
        vec!["home: all control planes are gone: new ones start an empty cluster".to_owned()];
    assert_eq!(
        reported(&observed, false),
        (vec![], warned.clone()),
        "nothing shows that it was up"
    );
    for name in ["wk-1", "wk-2"] {
        observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    }
    assert_eq!(reported(&observed, true), (vec![], warned), "they may never have been in it");
    assert_eq!(reported(&observed, false), (vec![], vec![]), "a first run was broken off");
    assert_eq!(reported(&empty(), true), (vec![], vec![]), "it was destroyed");
    let rebuilt = first_vm_lost();
    assert_eq!(reported(&rebuilt, true), (vec![], vec![]), "the others have what was in it");
}

/// Run logs and client files show that the cluster was up, even without any VM, and with workers that do not answer.
#[test]
fn a_cluster_that_was_up_is_not_replaced_by_an_empty_one() {
    let errors_of = |observed: &Observed, was_bootstrapped: bool| {
        let options = PlanOptions { has_client_files: true, was_up: true, was_bootstrapped };
        let plan = plan_with(&home(), observed, options);
        let hints: Vec<String> = plan.errors().filter_map(|one| one.hint.clone()).collect();
        let is_explained = hints.iter().all(|hint| hint.contains("run logs (.talmox) away"));
        assert!(is_explained, "{hints:?}");
        errors(&plan)
    };
    let found = "home: run logs or client files show that this cluster was up, and no VM of its control planes is found: new \
                 ones would start an empty cluster, beside the old one if that exists";
    assert_eq!(errors_of(&empty(), true), [found]);
    assert_eq!(
        errors_of(&empty(), false),
        Vec::<String>::new(),
        "a new cluster, or `destroy` ended it"
    );
    let mut observed = control_planes_lost();
    for name in ["wk-1", "wk-2"] {
        observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    }
    let lost = "home: all control planes are gone, and with them everything that Kubernetes stored: new ones would start an \
                empty cluster";
    assert_eq!(errors_of(&observed, true), [lost]);
    let rebuilt = first_vm_lost();
    assert_eq!(errors_of(&rebuilt, true), Vec::<String>::new(), "the others have what was in it");
}

/// A cluster whose VMs got another name and no notes in Proxmox, and whose nodes do not answer.
fn without_notes(are_tags_kept: bool) -> Observed {
    let mut observed = settled(&home());
    for seen in observed.pve.vms.values_mut() {
        let config = seen.config.as_ref().unwrap();
        let kept = config.iter().filter(|(key, _)| !["name", "description", "tags"].contains(key));
        let mut entries: Vec<(String, String)> =
            kept.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        entries.push(("name".to_owned(), "web".to_owned()));
        if are_tags_kept {
            entries.push(("tags".to_owned(), "talmox;home".to_owned()));
        }
        seen.config = Ok(VmConfig::new(entries));
    }
    observed.nodes.clear();
    observed.kubernetes = KubernetesSeen::NotAsked;
    observed
}

#[test]
fn unidentified_vms_prevent_a_bootstrap_before_any_change() {
    let nodes = HOME
        .replace("cp-", "new-")
        .replace("wk-", "other-")
        .replace("vmid: 30", "vmid: 35")
        .replace("10.0.0.1", "10.0.0.6")
        .replace("10.0.0.2", "10.0.0.7");
    let edited = desired(&format!("{HEAD}{nodes}"));
    for (are_tags_kept, sign) in [
        (true, "has the tags talmox and home, and no valid marker in its notes"),
        (false, "has a UUID such as talmox derives, is in a pool of home"),
    ] {
        let plan = plan(&edited, &without_notes(are_tags_kept));
        assert!(bootstrap(&plan).is_none());
        let found: Vec<&Finding> =
            plan.errors().filter(|one| one.code == FindingCode::VmUnidentified).collect();
        assert_eq!(found.len(), 5, "{:?}", plan.findings);
        for (number, finding) in (300..).zip(&found) {
            let start = format!("etcd is not bootstrapped: VM {number} (web) on pve1 {sign}");
            assert!(finding.message.starts_with(&start), "{}", finding.message);
            let hint = finding.hint.as_deref().unwrap();
            assert!(hint.contains("node=NAME stage=made"), "{hint}");
            let release = if are_tags_kept { "remove the tags" } else { "remove it from the pool" };
            assert!(hint.contains(release), "{hint}");
        }
    }
}

/// The VMs of these control planes are gone, and the remaining control planes report this etcd state.
fn lost(gone: &[&str], etcd: &EtcdSeen) -> Observed {
    let mut observed = settled(&home());
    for (number, name) in [(300, "cp-1"), (301, "cp-2"), (302, "cp-3")] {
        if gone.contains(&name) {
            observed.pve.vms.remove(&vmid(number)).unwrap();
            observed.pve.resources.guests.retain(|guest| guest.vmid != vmid(number));
            observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("timed out".to_owned()));
        } else {
            let Some(TalosSeen::OwnNode(found)) = observed.nodes.get_mut(name) else { panic!() };
            found.etcd = etcd.clone();
        }
    }
    observed
}

#[test]
fn an_etcd_that_lost_its_majority_is_not_waited_for() {
    const ALL: [&str; 3] = ["cp-1", "cp-2", "cp-3"];
    let (two, no_errors) = (["cp-1", "cp-3"], Vec::<String>::new());
    let named = vec![
        "home: etcd has lost its majority: the VMs of cp-1, cp-3 are gone, and the remaining members can neither work \
         without them nor accept new ones"
            .to_owned(),
    ];
    let errors = |observed: &Observed, was_up| reported(observed, was_up).0;
    assert_eq!(errors(&lost(&two, &unhealthy(&ALL, false)), false), named, "it says who votes");
    assert_eq!(
        errors(&lost(&two, &unhealthy(&[], true)), true),
        named,
        "it reports that there is no leader"
    );
    let growing = lost(&two, &unhealthy(&["cp-2"], false));
    assert_eq!(errors(&growing, true), no_errors, "they were never in it");
    assert_eq!(
        errors(&lost(&two, &unhealthy(&[], true)), false),
        no_errors,
        "they may never have been"
    );
    assert_eq!(errors(&lost(&two, &unhealthy(&[], false)), true), no_errors, "it says nothing");
    assert_eq!(errors(&lost(&["cp-1"], &unhealthy(&ALL, true)), true), no_errors, "two are left");
    assert_eq!(errors(&lost(&[], &unhealthy(&ALL, true)), true), no_errors, "all are left");
    // A stopped control plane is not lost: two of three members remain.
    let mut observed = lost(&["cp-1"], &unhealthy(&ALL, true));
    observed.pve.vms.get_mut(&vmid(302)).unwrap().is_running = false;
    observed.nodes.insert("cp-3".to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    assert_eq!(errors(&observed, true), no_errors);
}

/// The steps that a step depends on.
fn after<'a>(plan: &'a Plan, id: &str) -> Vec<&'a str> {
    let step = plan.steps.iter().find(|step| step.id.as_str() == id).unwrap();
    step.after.iter().map(talmox_plan::plan::StepId::as_str).collect()
}

#[test]
fn a_worker_that_may_have_its_config_is_waited_for_after_the_bootstrap() {
    let mut observed = before_bootstrap();
    let silent = || TalosSeen::Nothing("connection refused".to_owned());
    observed.nodes.insert("wk-1".to_owned(), silent());
    observed.nodes.insert("wk-2".to_owned(), TalosSeen::Maintenance { mismatch: None });
    observed.nodes.insert("cp-2".to_owned(), silent());
    let planned = plan(&home(), &observed);
    assert_eq!(after(&planned, "talos/wk-1/apply"), ["etcd/bootstrap"]);
    assert_eq!(
        after(&planned, "talos/wk-2/apply"),
        Vec::<&str>::new(),
        "it has none, and gets one"
    );
    assert_eq!(after(&planned, "talos/cp-2/apply"), Vec::<&str>::new(), "it needs no answer");
    assert!(after(&planned, "talos/cp-2/join").contains(&"etcd/bootstrap"));
    // If the cluster is already bootstrapped, the worker depends on no step.
    observed.nodes.insert("cp-1".to_owned(), settled(&home()).nodes["cp-1"].clone());
    assert_eq!(after(&plan(&home(), &observed), "talos/wk-1/apply"), Vec::<&str>::new());
}

#[test]
fn a_lost_first_control_plane_is_created_after_the_others_answered() {
    let plan = plan(&home(), &first_vm_lost());
    let after = after(&plan, "vm/cp-1/create");
    assert!(
        after.contains(&"talos/cp-2/apply") && after.contains(&"talos/cp-3/apply"),
        "{after:?}"
    );
}

#[test]
fn only_vms_that_this_run_creates_are_reset() {
    let resets = |observed: &Observed, was_up: bool| {
        let plan = planning::plan(
            &home(),
            observed,
            PlanOptions { has_client_files: false, was_up, was_bootstrapped: false },
        );
        let apply = plan.steps.iter().find_map(|step| match &step.action {
            Action::ApplyConfig(apply) if apply.node.name == "wk-1" => Some(apply.resets),
            _ => None,
        });
        apply.unwrap()
    };
    assert_eq!(resets(&empty(), true), 2, "it is made in this run");
    // An earlier run was killed after it created the VM. A user may have started the VM since.
    let first = plan(&home(), &empty());
    let created = first.steps.iter().position(|step| step.id.as_str() == "vm/wk-1/create").unwrap();
    let mut unfinished = empty();
    carry_out(&home(), &first, &mut unfinished, created + 1);
    assert_eq!(resets(&unfinished, false), 0, "an earlier run created it");
    let mut observed = settled(&home());
    for name in ["cp-1", "cp-2", "cp-3", "wk-1", "wk-2"] {
        observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    }
    // Without client files, it is not known whether these nodes ever ran Kubernetes.
    assert_eq!(resets(&observed, false), 0, "it was there before this run");
    assert_eq!(resets(&observed, true), 0, "the cluster was up");
    let known = |names: &[&str]| {
        let nodes = names.iter().map(|name| (*name).to_owned()).collect();
        KubernetesSeen::Answers(Registered { nodes, ..Registered::default() })
    };
    observed.kubernetes = known(&["cp-1", "wk-1"]);
    assert_eq!(resets(&observed, false), 0, "Kubernetes knows it");
    observed.kubernetes = known(&["cp-1"]);
    assert_eq!(resets(&observed, true), 0, "it was there before this run, and may have data");
}

#[test]
fn a_plan_shows_which_vms_it_may_reset() {
    let plan = plan(&home(), &empty());
    let shown = show::text(&plan);
    let reported = "may reset (new VMs only, at most 2 times, if Talos does not answer on the first boot): cp-1,";
    assert!(shown.contains(reported), "{shown}");
    let json = show::json(&plan);
    assert_eq!(json["may_reset"].as_array().unwrap().len(), 5);
    assert_eq!(json["may_reset"][0], serde_json::json!({ "node": "cp-1", "at_most": 2 }));
    let settled = plan_of_silent_cluster();
    assert_eq!(show::json(&settled)["may_reset"], serde_json::json!([]));
    assert!(!show::text(&settled).contains("may reset"));
}

/// The plan of a user without client files, for a cluster of which no node answers.
fn plan_of_silent_cluster() -> Plan {
    let mut observed = settled(&home());
    for name in ["cp-1", "cp-2", "cp-3", "wk-1", "wk-2"] {
        observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    }
    planning::plan(
        &home(),
        &observed,
        PlanOptions { has_client_files: false, was_up: false, was_bootstrapped: false },
    )
}

#[test]
fn existing_vms_are_not_created_again_without_client_files() {
    let plan = plan_of_silent_cluster();
    let is_made = |change: &&plan::Change| {
        matches!(change.object, Object::Vm(_) | Object::Node(_)) && change.class == Class::Create
    };
    let made: Vec<_> = plan.changes.iter().filter(is_made).collect();
    assert!(made.is_empty(), "{made:?}");
    let shown = show::text(&plan);
    assert!(shown.contains("does not answer → runs"), "{shown}");
    assert!(
        shown.contains("bootstrapped on cp-1, unless a control plane has etcd data"),
        "{shown}"
    );
}

/// A node that reads its config from a cidata volume can join a cluster without talmox.
#[test]
fn a_node_that_may_join_by_itself_is_not_reset() {
    let of = |text: &str| desired(&format!("{HEAD}machine: {{boot: cidata}}\n{text}"));
    let resets = |desired: &Desired, observed: &Observed| {
        let plan = plan(desired, observed);
        plan.may_reset().into_iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(resets(&of(HOME), &empty()).len(), 5, "there is no cluster that it could join");
    let observed = settled(&of(HOME));
    let grown = of(&format!("{HOME}  - {{name: wk-3, ip: 10.0.0.23}}\n"));
    assert_eq!(resets(&grown, &observed), Vec::<String>::new());
}

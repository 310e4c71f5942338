//! Snapshots of plan texts for typical situations.

use insta::assert_snapshot;
use talmox_plan::desired::Desired;
use talmox_plan::observed::{EtcdSeen, KubernetesSeen, Observed, Registered, TalosSeen};
use talmox_plan::plan::{Finding, FindingCode, Severity, show};
use talmox_plan::planning::{DestroyOptions, destroy};
use talmox_talos_config::secret::SecretText;

use crate::observed_state::{carry_out, empty, foreign, host, settled, taken, template, vmid};
use crate::support::{
    HEAD, HOME, desired, home, home_with, ids, plan, secret_values, single, text, warnings,
};

#[test]
fn a_new_cluster() {
    let (desired, observed) = (home(), empty());
    assert_snapshot!(text(&desired, &observed));
    assert_snapshot!("a_new_cluster_as_a_graph", show::graph(&plan(&desired, &observed)));
}

#[test]
fn nothing_to_do() {
    let desired = home();
    assert_snapshot!(text(&desired, &settled(&desired)), @"home: nothing to do");
}

/// The same problem of several nodes is shown as one finding. A plan with errors does not say that there is nothing to do.
#[test]
fn the_same_finding_of_several_nodes_is_shown_once() {
    let desired = home();
    let mut plan = plan(&desired, &settled(&desired));
    let finding = |subject: &str, hint: &str| Finding {
        severity: Severity::Error,
        code: FindingCode::HostOffline,
        subject: subject.to_owned(),
        message: "the host pve1 is down".to_owned(),
        hint: Some(hint.to_owned()),
        blocks_only_its_node: false,
    };
    plan.findings = vec![
        finding("cp-1", "start it"),
        finding("wk-1", "start it"),
        finding("wk-2", "replace it"),
    ];
    assert_snapshot!(show::text(&plan), @r"
    error[host-offline]: cp-1, wk-1: the host pve1 is down
      hint: start it
    error[host-offline]: wk-2: the host pve1 is down
      hint: replace it

    home: no plan because of 2 errors
    ");
    assert_eq!(show::count_findings(&plan), (2, 0));
    assert_eq!(show::json(&plan)["findings"].as_array().unwrap().len(), 3, "programs see all");
}

#[test]
fn one_more_worker() {
    let observed = settled(&home());
    let grown = desired(&format!("{HEAD}{HOME}  - {{name: wk-3, ip: 10.0.0.23}}\n"));
    assert_snapshot!(text(&grown, &observed));
    assert!(!ids(&plan(&grown, &observed)).contains(&"etcd/bootstrap"));
}

#[test]
fn one_more_control_plane() {
    let observed = settled(&home());
    let more = "workers:".to_owned();
    let grown = home_with(
        &more,
        "  - {name: cp-4, ip: 10.0.0.14}\n  - {name: cp-5, ip: 10.0.0.15}\nworkers:",
    );
    let plan = plan(&grown, &observed);
    assert_eq!(plan.errors().count(), 0, "{:?}", plan.findings);
    let ids = ids(&plan);
    assert!(ids.contains(&"talos/cp-4/join") && ids.contains(&"talos/cp-5/join"), "{ids:?}");
    assert!(!ids.contains(&"etcd/bootstrap"), "{ids:?}");
}

/// Without workers, control planes run all pods. The first worker can be added although the default setting for control
/// planes changes.
#[test]
fn the_first_worker() {
    let alone = format!("{HEAD}controlplane: [{{name: cp-1, ip: 10.0.0.11, vmid: 300}}]\n");
    let mut observed = settled(&desired(&alone));
    let worker = "workers: [{name: wk-1, ip: 10.0.0.21}]\n";
    let grown = desired(&format!("{alone}{worker}"));
    let first = plan(&grown, &observed);
    assert_eq!(first.open_changes().count(), 0, "{}", show::text(&first));
    let reported = "home: control planes still accept all pods, although there are workers";
    assert_eq!(warnings(&first), [reported]);
    carry_out(&grown, &first, &mut observed, usize::MAX);
    let second = plan(&grown, &observed);
    assert!(second.is_empty(), "{}", show::text(&second));
    let words = |says: bool| format!("{alone}{worker}allow_scheduling_on_controlplanes: {says}\n");
    let wanted = plan(&desired(&words(true)), &observed);
    assert!(wanted.is_empty() && wanted.findings.is_empty(), "{}", show::text(&wanted));
    let changed = plan(&desired(&words(false)), &observed);
    let steps: Vec<&str> = changed.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(
        steps,
        ["talos/cp-1/config", "talos/cp-1/return", "cluster/health"],
        "{}",
        show::text(&changed)
    );
}

#[test]
fn a_removed_node() {
    let observed = settled(&home());
    let shrunk = home_with("  - {name: wk-2, ip: 10.0.0.22}\n", "");
    assert_snapshot!(text(&shrunk, &observed));
}

/// A settled cluster in which etcd and Kubernetes list all nodes, and Kubernetes also lists `more`.
fn known_to_all(desired: &Desired, more: &[&str]) -> Observed {
    let mut observed = settled(desired);
    let members: Vec<String> = desired.control_planes().map(|node| node.name.clone()).collect();
    for name in &members {
        let Some(TalosSeen::OwnNode(found)) = observed.nodes.get_mut(name) else {
            panic!("{name}")
        };
        found.etcd = EtcdSeen::Member { names: members.clone() };
    }
    let nodes = desired.nodes.iter().map(|node| node.name.clone());
    let nodes = nodes.chain(more.iter().map(|name| (*name).to_owned())).collect();
    observed.kubernetes = KubernetesSeen::Answers(Registered { nodes, ..Registered::default() });
    observed
}

#[test]
fn a_removed_control_plane() {
    let mut observed = known_to_all(&home(), &[]);
    observed.nodes.remove("cp-3");
    let KubernetesSeen::Answers(registered) = &mut observed.kubernetes else { panic!() };
    let strange = "etcd has members that are not control planes: https://10.0.0.13:2380";
    registered.strange_members = Some(strange.to_owned());
    let shrunk = home_with("  - {name: cp-3, ip: 10.0.0.13, vmid: 302}\n", "");
    assert_snapshot!(text(&shrunk, &observed));
    // A member that was never in the inventory is reported as well.
    let Some(TalosSeen::OwnNode(first)) = observed.nodes.get_mut("cp-1") else { panic!() };
    let names = ["cp-1", "cp-2", "cp-3", "cp-9"].map(str::to_owned).to_vec();
    first.etcd = EtcdSeen::Member { names };
    let text = text(&shrunk, &observed);
    assert!(text.contains("- node cp-9") && !text.contains(strange), "{text}");
}

#[test]
fn a_node_that_only_kubernetes_still_lists() {
    let desired = home();
    let observed = known_to_all(&desired, &["wk-3"]);
    let plan = plan(&desired, &observed);
    assert!(plan.is_empty(), "it prevents nothing");
    assert_snapshot!(show::text(&plan));
    // A patch may have given a node of this cluster that name.
    let mut observed = observed;
    let KubernetesSeen::Answers(registered) = &mut observed.kubernetes else { panic!() };
    registered.nodes.remove("wk-2");
    let reported = warnings(&crate::support::plan(&desired, &observed));
    assert!(!reported.iter().any(|warning| warning.starts_with("wk-3")), "{reported:?}");
}

#[test]
fn a_resized_disk() {
    let observed = settled(&home());
    let changed = home_with("ip: 10.0.0.21}", "ip: 10.0.0.21, disk: 60G, disks: [{size: 10G}]}");
    assert_snapshot!(text(&changed, &observed));
}

#[test]
fn more_memory_and_another_bridge() {
    let observed = settled(&home());
    let changed = home_with("ip: 10.0.0.21}", "ip: 10.0.0.21, memory: 8192, vlan: 40, cores: 4}");
    assert_snapshot!(text(&changed, &observed));
}

#[test]
fn another_address() {
    let observed = settled(&home());
    let changed = home_with("ip: 10.0.0.21}", "ip: 10.0.0.29}");
    assert_snapshot!(text(&changed, &observed));
}

#[test]
fn a_changed_patch() {
    let observed = settled(&home());
    let patch = "
patches:
  all: [{machine: {sysctls: {vm.swappiness: '10'}}}]
  workers: [{machine: {files: [{path: /var/x, op: create, content: hunter2, permissions: 0o600}]}}]
";
    let changed = desired(&format!("{HEAD}{patch}{HOME}"));
    let text = text(&changed, &observed);
    assert!(!text.contains("hunter2"), "{text}");
    assert_snapshot!(text);
}

#[test]
fn changes_of_patches_are_shown_without_secrets() {
    let patch = "
patches:
  all:
    - machine:
        env: {A: hunter2}
        install: {extraKernelArgs: [console=ttyS0, a.password=hunter2]}
        kubelet: {nodeIP: {validSubnets: [10.0.0.0/16]}, extraArgs: {a-token: hunter2}}
        registries: {config: {r.example: {auth: {password: hunter2}}}}
      cluster: {discovery: {enabled: false}}
  controlplane:
    - cluster:
        apiServer: {extraArgs: {oidc-issuer-url: 'https://id.example'}}
        inlineManifests: [{name: a, contents: hunter2}]
";
    let changed = desired(&format!("{HEAD}{patch}{HOME}"));
    let mut observed = settled(&changed);
    for seen in observed.nodes.values_mut() {
        let TalosSeen::OwnNode(configured) = seen else { continue };
        configured.config = Some(SecretText::new("version: v1alpha1\nmachine: {}\ncluster: {}\n"));
    }
    let plan = plan(&changed, &observed);
    let text = show::text(&plan);
    let json = serde_json::to_string(&plan.changes).unwrap();
    let mut secrets = secret_values();
    secrets.push("hunter2".to_owned());
    for secret in secrets {
        assert!(!text.contains(&secret) && !json.contains(&secret), "{secret}\n{text}");
    }
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    for wanted in [
        ["cluster.apiServer.extraArgs.oidc-issuer-url", "https://id.example"],
        ["cluster.discovery.enabled", "false"],
        ["cluster.secret", "******"],
        ["machine.env.A", "******"],
        ["machine.features.apidCheckExtKeyUsage", "true"],
        ["machine.install.extraKernelArgs[0]", "console=ttyS0"],
        ["machine.install.extraKernelArgs[1]", "******"],
        ["machine.kubelet.nodeIP.validSubnets[0]", "10.0.0.0/16"],
        ["machine.token", "******"],
    ] {
        assert!(lines.iter().any(|line| line == &wanted), "{wanted:?}\n{text}");
    }
}

#[test]
fn another_version() {
    let observed = settled(&home());
    let changed = home_with("talos_version: v1.11.2", "talos_version: v1.11.5");
    assert_snapshot!(text(&changed, &observed));
}

#[test]
fn a_vmid_in_use() {
    let mut observed = empty();
    foreign(&mut observed, 301, "mail", "not yours");
    taken(&mut observed, 300);
    assert_snapshot!(text(&home(), &observed));
}

#[test]
fn a_moved_vm() {
    let desired = home();
    let mut observed = settled(&desired);
    observed.pve.vms.get_mut(&vmid(300)).unwrap().host = host("pve2");
    assert_snapshot!(text(&desired, &observed));
}

#[test]
fn a_stopped_vm() {
    let desired = home();
    let mut observed = settled(&desired);
    observed.pve.vms.get_mut(&vmid(301)).unwrap().is_running = false;
    observed.nodes.insert("cp-2".to_owned(), TalosSeen::Nothing("connection refused".to_owned()));
    assert_snapshot!(text(&desired, &observed));
}

#[test]
fn the_first_control_plane_is_gone() {
    let desired = home();
    let mut observed = settled(&desired);
    observed.pve.vms.remove(&vmid(300)).unwrap();
    observed.pve.resources.guests.retain(|guest| guest.vmid != vmid(300));
    observed.nodes.insert("cp-1".to_owned(), TalosSeen::Nothing("no route".to_owned()));
    let Some(TalosSeen::OwnNode(second)) = observed.nodes.get_mut("cp-2") else { panic!() };
    let names = ["cp-1", "cp-2", "cp-3"].map(str::to_owned).to_vec();
    second.etcd = EtcdSeen::Member { names };
    assert_snapshot!(text(&desired, &observed));
}

#[test]
fn most_control_planes_are_gone() {
    let desired = home();
    let mut observed = settled(&desired);
    for (number, name) in [(300, "cp-1"), (302, "cp-3")] {
        observed.pve.vms.remove(&vmid(number)).unwrap();
        observed.pve.resources.guests.retain(|guest| guest.vmid != vmid(number));
        observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("no route".to_owned()));
    }
    let Some(TalosSeen::OwnNode(second)) = observed.nodes.get_mut("cp-2") else { panic!() };
    let reason = "etcd is Running, but not healthy: no leader".to_owned();
    let voters = ["cp-1", "cp-2", "cp-3"].map(str::to_owned).to_vec();
    second.etcd = EtcdSeen::Unhealthy { reason, voters, is_leaderless: false };
    assert_snapshot!(text(&desired, &observed));
}

#[test]
fn another_machine_at_an_address() {
    let desired = home();
    let mut observed = empty();
    let other = "its SMBIOS UUID is 1, not 2".to_owned();
    observed.nodes.insert("cp-1".to_owned(), TalosSeen::Maintenance { mismatch: Some(other) });
    observed
        .nodes
        .insert("wk-1".to_owned(), TalosSeen::OtherMachine("a node of another cluster".to_owned()));
    assert_snapshot!(text(&desired, &observed));
}

#[test]
fn a_clone_of_a_template() {
    let mut observed = empty();
    template(&mut observed, 9000, "talos-v1.11.2-base");
    let desired = single("boot: template, template: talos-v1.11.2-base, disk: 20G");
    assert_snapshot!(text(&desired, &observed));
    assert_snapshot!("a_clone_of_a_template_as_a_graph", show::graph(&plan(&desired, &observed)));
}

#[test]
fn a_config_on_a_volume() {
    let desired = single("boot: cidata");
    assert_snapshot!(show::graph(&plan(&desired, &empty())));
}

#[test]
fn a_destroyed_cluster() {
    let desired = home();
    let mut observed = settled(&desired);
    observed.images.contents = observed.pve.contents.clone();
    let plan = destroy(&desired, &observed, DestroyOptions { images: true, secrets: false });
    assert_snapshot!(show::text(&plan));
    assert_snapshot!("a_destroyed_cluster_as_a_graph", show::graph(&plan));
}

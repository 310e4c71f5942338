//! Changes of machine configs: how they take effect, and which of them are left.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_plan::desired::{Contact, Desired};
use talmox_plan::observed::{
    Configured, DryRun, KubernetesSeen, Observed, PortSeen, Registered, TalosSeen, VipSeen,
};
use talmox_plan::plan::{
    Action, Change, ChangeConfig, Class, ConfigMode, FindingCode, Left, Plan, show,
};
use talmox_plan::planning::{self, PlanOptions, Scope, config_for_dry_run};
use talmox_talos_config::secret::SecretText;

use crate::observed_state::{carry_out, settled};
use crate::support::{HEAD, HOME, desired, home, home_with, ids, plan, single};

/// A settled cluster in which Kubernetes answers and lists all nodes.
fn running(desired: &Desired) -> Observed {
    let mut observed = settled(desired);
    let nodes = desired.nodes.iter().map(|node| node.name.clone()).collect();
    observed.kubernetes = KubernetesSeen::Answers(Registered { nodes, ..Registered::default() });
    observed.vip = VipSeen::Answers(PortSeen::ThisCluster);
    observed
}

fn node<'w>(observed: &'w mut Observed, name: &str) -> &'w mut Configured {
    let Some(TalosSeen::OwnNode(found)) = observed.nodes.get_mut(name) else { panic!("{name}") };
    found
}

/// The observed state in which all nodes return this result of a dry run.
fn answering(mut observed: Observed, answer: &DryRun) -> Observed {
    for seen in observed.nodes.values_mut() {
        let TalosSeen::OwnNode(found) = seen else { panic!() };
        found.dry_run = Some(answer.clone());
    }
    observed
}

/// The home cluster with a patch for all nodes.
fn patched(patch: &str) -> Desired {
    desired(&format!("{HEAD}patches: {{all: [{patch}]}}\n{HOME}"))
}

fn labelled() -> Desired {
    patched("{machine: {nodeLabels: {rack: a}}}")
}

fn config_steps(plan: &Plan) -> BTreeMap<&str, &ChangeConfig> {
    let steps = plan.steps.iter().filter_map(|step| match &step.action {
        Action::ChangeConfig(change) => Some((change.node.name.as_str(), change)),
        _ => None,
    });
    steps.collect()
}

fn modes(plan: &Plan) -> BTreeMap<&str, ConfigMode> {
    config_steps(plan).into_iter().map(|(name, change)| (name, change.mode)).collect()
}

fn all(mode: ConfigMode) -> BTreeMap<&'static str, ConfigMode> {
    ["cp-1", "cp-2", "cp-3", "wk-1", "wk-2"].map(|name| (name, mode)).into()
}

fn change<'p>(plan: &'p Plan, object: &str) -> &'p Change {
    let found = plan.changes.iter().find(|change| change.object.to_string() == object);
    found.unwrap_or_else(|| panic!("{object}\n{}", show::text(plan)))
}

fn at(address: &str) -> Contact {
    Contact::At(address.parse().unwrap())
}

#[test]
fn the_dry_run_decides_how_a_config_takes_effect() {
    for (answer, class, mode) in [
        (DryRun::Live, Class::Live, ConfigMode::Live),
        (DryRun::Reboot, Class::Drain, ConfigMode::Reboot),
    ] {
        let mut observed = answering(running(&home()), &answer);
        let plan = plan(&labelled(), &observed);
        assert_eq!(modes(&plan), all(mode), "{}", show::text(&plan));
        carry_out(&labelled(), &plan, &mut observed, usize::MAX);
        assert!(self::plan(&labelled(), &observed).is_empty());
        for name in ["cp-1", "wk-2"] {
            let found = change(&plan, &format!("node {name}"));
            assert_eq!((found.class, found.is_planned, found.left), (class, true, None), "{name}");
        }
        let is_drained = ids(&plan).contains(&"node/wk-1/drain");
        assert_eq!(is_drained, class == Class::Drain, "{:?}", ids(&plan));
    }
}

#[test]
fn without_a_dry_run_the_paths_decide() {
    for (patch, mode) in [
        ("{machine: {nodeLabels: {rack: a}}}", ConfigMode::Live),
        ("{machine: {env: {A: b}}}", ConfigMode::Reboot),
        ("{machine: {network: {kubespan: {enabled: true}}}}", ConfigMode::Try),
    ] {
        let plan = plan(&patched(patch), &running(&home()));
        assert_eq!(modes(&plan), all(mode), "{patch}\n{}", show::text(&plan));
    }
}

#[test]
fn network_settings_are_applied_with_a_trial() {
    let changed = home_with("nameservers: [1.1.1.1, 8.8.8.8]", "nameservers: [9.9.9.9]");
    let plan = plan(&changed, &answering(running(&home()), &DryRun::Live));
    assert_eq!(modes(&plan), all(ConfigMode::Try), "{}", show::text(&plan));
}

#[test]
fn a_rejected_config_is_an_error_of_its_node() {
    let mut observed = answering(running(&home()), &DryRun::Live);
    node(&mut observed, "wk-1").dry_run = Some(DryRun::Rejected("it is wrong".to_owned()));
    let plan = plan(&labelled(), &observed);
    assert!(!modes(&plan).contains_key("wk-1"), "{:?}", ids(&plan));
    assert_eq!(change(&plan, "node wk-1").left, Some(Left::Blocked));
    let is_it = |code| code == FindingCode::ConfigRejected;
    let found: Vec<_> = plan.findings.iter().filter(|finding| is_it(finding.code)).collect();
    assert_eq!(found.len(), 1, "{:#?}", plan.findings);
    assert_eq!(found[0].subject, "wk-1");
    assert_eq!(found[0].message, "Talos rejects its changed config: it is wrong");
}

#[test]
fn an_upgrade_is_left() {
    for (from, to) in [
        ("talos_version: v1.11.2", "talos_version: v1.11.5"),
        ("talos_version: v1.11.2", "talos_version: v1.12.4"),
        ("kubernetes_version: v1.34.1", "kubernetes_version: v1.34.2"),
    ] {
        let changed = home_with(from, to);
        let observed = running(&home());
        let plan = plan(&changed, &observed);
        assert!(modes(&plan).is_empty(), "{to}: {:?}", ids(&plan));
        let found = change(&plan, "node wk-1");
        assert_eq!(found.left, Some(Left::Impossible), "{to}");
        assert!(found.note.as_ref().is_some_and(|note| note.contains("an upgrade of ")), "{to}");
    }
}

#[test]
fn a_kubernetes_version_does_not_keep_the_rest_of_a_config_from_being_applied() {
    let head = HEAD.replace("kubernetes_version: v1.34.1", "kubernetes_version: v1.34.2");
    let patch = "patches: {all: [{machine: {nodeLabels: {rack: a}}}]}";
    let changed = desired(&format!("{head}{patch}\n{HOME}"));
    let observed = answering(running(&home()), &DryRun::Live);
    let plan = plan(&changed, &observed);
    let steps = config_steps(&plan);
    assert_eq!(steps.len(), changed.nodes.len(), "{:?}", ids(&plan));
    let config = steps["cp-1"].config.text().unwrap().expose();
    assert!(config.contains("rack: a") && !config.contains("v1.34.2"), "{config}");
    let of_node = plan.changes.iter().filter(|change| change.object.node() == Some("cp-1"));
    let (left, planned): (Vec<&Change>, Vec<_>) = of_node.partition(|change| !change.is_planned);
    assert!(left.iter().all(|change| change.left == Some(Left::Impossible)), "{left:#?}");
    let paths = |changes: &[&Change]| -> Vec<String> {
        changes.iter().flat_map(|change| &change.fields).map(|field| field.path.clone()).collect()
    };
    assert!(paths(&left).contains(&"machine.kubelet.image".to_owned()), "{left:#?}");
    assert!(paths(&left).iter().all(|path| path.strip_suffix(".image").is_some()), "{left:#?}");
    assert_eq!(paths(&planned), ["machine.nodeLabels.rack"]);
}

/// A run was interrupted after the node got its new address, and before it booted with its new volume.
#[test]
fn an_address_of_a_former_volume_is_removed() {
    let desired = single("boot: cidata");
    let mut observed = running(&desired);
    assert!(plan(&desired, &observed).steps.is_empty());
    let own: IpAddr = "10.0.0.11".parse().unwrap();
    node(&mut observed, "cp-1").first_addresses = vec![own];
    assert!(plan(&desired, &observed).steps.is_empty(), "the volume has the same address");
    node(&mut observed, "cp-1").first_addresses = vec!["10.0.0.99".parse().unwrap()];
    let plan = plan(&desired, &observed);
    let ids = ids(&plan);
    assert!(ids.contains(&"vm/cp-1/upload-config") && ids.contains(&"vm/cp-1/start"), "{ids:?}");
    assert!(modes(&plan).is_empty(), "the config has not changed: {ids:?}");
}

#[test]
fn configs_of_other_nodes_are_left_on_request() {
    let options = PlanOptions { has_client_files: true, was_up: true, was_bootstrapped: false };
    let scope = Scope { nodes: Some(["wk-1".to_owned()].into()), ..Scope::default() };
    let observed = answering(running(&home()), &DryRun::Live);
    let plan = planning::plan_within(&labelled(), &observed, options, &scope);
    assert_eq!(modes(&plan), BTreeMap::from([("wk-1", ConfigMode::Live)]));
    assert_eq!(change(&plan, "node wk-2").left, Some(Left::NotSelected));
}

/// A run was killed during the trial of a config, so the node would revert the config.
#[test]
fn a_config_that_is_only_tried_is_applied() {
    let changed = labelled();
    let mut observed = running(&changed);
    let former = home().node("wk-1").unwrap().config.clone();
    node(&mut observed, "wk-1").saved = Some(former);
    let plan = plan(&changed, &observed);
    assert_eq!(modes(&plan), BTreeMap::from([("wk-1", ConfigMode::Live)]));
    // A staged config does not change the plan.
    let mut observed = running(&home());
    let found = node(&mut observed, "wk-1");
    found.saved = Some(changed.node("wk-1").unwrap().config.clone());
    found.dry_run = Some(DryRun::Reboot);
    let plan = self::plan(&changed, &observed);
    assert_eq!(modes(&plan)["wk-1"], ConfigMode::Reboot);
}

#[test]
fn a_node_with_another_role_gets_no_config() {
    let swapped = |name: &str| home().node(name).unwrap().config.clone();
    let mut observed = running(&home());
    node(&mut observed, "wk-1").config = Some(swapped("cp-1"));
    let plan = plan(&home(), &observed);
    assert!(modes(&plan).is_empty(), "{:?}", ids(&plan));
    assert_eq!(change(&plan, "node wk-1").class, Class::Replace);
}

#[test]
fn only_nodes_that_get_a_config_are_queried() {
    let (before, after) = (home(), labelled());
    let mut observed = running(&before);
    let asks = |desired: &Desired, observed: &Observed| {
        let TalosSeen::OwnNode(found) = &observed.nodes["wk-1"] else { panic!() };
        config_for_dry_run(desired, desired.node("wk-1").unwrap(), found).is_some()
    };
    assert!(asks(&after, &observed));
    assert!(!asks(&before, &observed), "the configs are equal");
    let newer = home_with("talos_version: v1.11.2", "talos_version: v1.12.4");
    assert!(!asks(&newer, &observed), "the config is for another release");
    node(&mut observed, "wk-1").saved = Some(before.node("wk-2").unwrap().config.clone());
    assert!(!asks(&after, &observed), "the node may be trying a config");
    node(&mut observed, "wk-1").saved = None;
    node(&mut observed, "wk-1").config = Some(before.node("cp-1").unwrap().config.clone());
    assert!(!asks(&after, &observed), "the machine has another role");
    node(&mut observed, "wk-1").config = Some(SecretText::new("not a config"));
    assert!(!asks(&after, &observed), "the config cannot be read");
}

#[test]
fn a_node_is_contacted_at_its_current_address() {
    let mut observed = answering(running(&home()), &DryRun::Live);
    let former: IpAddr = "10.0.0.21".parse().unwrap();
    assert_eq!(node(&mut observed, "wk-1").address, Some(former));
    let plan = plan(&home_with("ip: 10.0.0.21", "ip: 10.0.0.29"), &observed);
    let steps = config_steps(&plan);
    let step = steps["wk-1"];
    assert_eq!((step.node.contact, step.contact), (at("10.0.0.21"), at("10.0.0.29")));
    assert_eq!(step.mode, ConfigMode::Try);
    let found = change(&plan, "node wk-1");
    assert_eq!((found.class, found.is_planned), (Class::Drain, true));
}

/// Talos updates the peer URL of its etcd member, so a control plane keeps its data.
#[test]
fn a_single_control_plane_gets_a_static_address() {
    let lease = "10.0.0.50";
    let before = single("boot: dhcp");
    let mut observed = answering(running(&before), &DryRun::Live);
    node(&mut observed, "cp-1").address = Some(lease.parse().unwrap());
    let plan = plan(&single("boot: cloudinit"), &observed);
    let steps = config_steps(&plan);
    let step = steps["cp-1"];
    assert_eq!((step.node.contact, step.contact), (at(lease), at("10.0.0.11")));
    assert_eq!(step.mode, ConfigMode::Try);
    let found = change(&plan, "node cp-1");
    assert_eq!((found.class, found.left), (Class::Drain, None), "{}", show::text(&plan));
}

#[test]
fn other_secrets_of_a_node_block_the_plan() {
    let desired = home();
    let mut observed = running(&desired);
    let found = node(&mut observed, "cp-1");
    let text = found.config.as_ref().unwrap().expose().to_owned();
    let key = "secretboxEncryptionSecret: ";
    let start = text.find(key).unwrap() + key.len();
    let end = start + text[start..].find('\n').unwrap();
    let other = format!("{}{}{}", &text[..start], "b3RoZXI=", &text[end..]);
    found.config = Some(SecretText::new(other));
    let plan = plan(&desired, &observed);
    let codes: Vec<_> = plan.blocking_errors().map(|error| error.code).collect();
    assert_eq!(codes, [FindingCode::SecretsDiffer], "{}", show::text(&plan));
    assert!(config_steps(&plan).is_empty(), "{:?}", ids(&plan));
}

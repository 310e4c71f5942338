//! Changes of the config of a running node.

use std::time::Duration;

use talmox_engine::execute::StepResult;
use talmox_engine::step::StepCode;
use talmox_plan::desired::Contact;
use talmox_plan::plan::{Action, ChangeConfig, ConfigMode};
use talmox_talos_api::proto::machine::apply_configuration_request::Mode;
use talmox_talos_config::secret::SecretText;

use super::node::{Etcd, Node};
use super::rig::{Rig, StepReport, shape, talos_node};

const ADDRESS: &str = "10.0.0.11";
const OTHER: &str = "10.0.0.12";

fn change(mode: ConfigMode) -> ChangeConfig {
    let node = talos_node(ADDRESS);
    ChangeConfig {
        contact: node.contact,
        node,
        config: SecretText::new("new").into(),
        mode,
        control_planes: vec![],
        shape: shape(ADDRESS, Some(ADDRESS)),
        deadline: Duration::from_mins(10),
    }
}

/// A node with these configs, in use and on its disk.
async fn node(rig: &mut Rig, in_use: &str, on_disk: &str) -> Node {
    rig.node(ADDRESS, |facts| {
        facts.is_configured = true;
        facts.etcd = Etcd::Member;
        facts.configs = Some([in_use.to_owned(), on_disk.to_owned()]);
    })
    .await
}

async fn run(rig: &Rig, step: &ChangeConfig) -> StepReport {
    rig.run(Action::ChangeConfig(step.clone())).await
}

#[track_caller]
fn assert_configs(node: &Node, in_use: &str, on_disk: &str) {
    assert_eq!(node.facts().configs, Some([in_use.to_owned(), on_disk.to_owned()]));
}

#[tokio::test]
async fn a_config_is_sent_once_in_the_planned_mode() {
    for (mode, modes, in_use) in [
        (ConfigMode::Live, vec![Mode::NoReboot], "new"),
        (ConfigMode::Try, vec![Mode::Try, Mode::NoReboot], "new"),
        (ConfigMode::Staged, vec![Mode::Staged], "old"),
    ] {
        let mut rig = Rig::new();
        let node = node(&mut rig, "old", "old").await;
        let step = change(mode);
        let outcome = run(&rig, &step).await;
        assert!(matches!(outcome.result, StepResult::Done), "{mode:?}: {:?}", outcome.result);
        assert_configs(&node, in_use, "new");
        assert_eq!(node.facts().modes, modes, "{mode:?}");
        let again = run(&rig, &step).await;
        assert!(matches!(again.result, StepResult::Already), "{mode:?}: {:?}", again.result);
        assert_eq!(node.facts().modes, modes, "{mode:?}");
    }
}

/// A second trial would revert to the config of the first trial.
#[tokio::test]
async fn a_trial_of_a_killed_run_is_finished_and_not_repeated() {
    for mode in [ConfigMode::Try, ConfigMode::Live] {
        let mut rig = Rig::new();
        let node = node(&mut rig, "new", "old").await;
        let outcome = run(&rig, &change(mode)).await;
        assert!(matches!(outcome.result, StepResult::Done), "{mode:?}: {:?}", outcome.result);
        assert_configs(&node, "new", "new");
        assert_eq!(node.facts().modes, [Mode::NoReboot], "{mode:?}");
    }
}

/// A node that booted with the config on its disk does not report that config separately.
#[tokio::test]
async fn the_former_config_is_recorded_before_a_trial() {
    let mut rig = Rig::new();
    let node = node(&mut rig, "old", "").await;
    let outcome = run(&rig, &change(ConfigMode::Try)).await;
    assert!(matches!(outcome.result, StepResult::Done), "{:?}", outcome.result);
    assert_configs(&node, "new", "new");
    assert_eq!(node.facts().modes, [Mode::Staged, Mode::Try, Mode::NoReboot]);
    assert_eq!(node.facts().applied, ["old", "new", "new"]);
}

#[tokio::test]
async fn a_node_is_found_at_its_later_address() {
    let mut rig = Rig::new();
    let _closed = rig.lead_nowhere(OTHER);
    let node = node(&mut rig, "new", "old").await;
    let mut step = change(ConfigMode::Try);
    step.contact = step.node.contact;
    step.node.contact = Contact::At(OTHER.parse().unwrap());
    let outcome = run(&rig, &step).await;
    assert!(matches!(outcome.result, StepResult::Done), "{:?}", outcome.result);
    assert_configs(&node, "new", "new");
}

#[tokio::test]
async fn a_node_that_is_not_reached_with_its_config_reverts_it() {
    let mut rig = Rig::new();
    let _closed = rig.lead_nowhere(OTHER);
    let node = node(&mut rig, "old", "old").await;
    let reverting = node.clone();
    tokio::spawn(async move {
        while !reverting.facts().modes.contains(&Mode::Try) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        reverting.facts().configs = Some(["old".to_owned(), "old".to_owned()]);
    });
    let step =
        ChangeConfig { contact: Contact::At(OTHER.parse().unwrap()), ..change(ConfigMode::Try) };
    let outcome = run(&rig, &step).await;
    let StepResult::Failed(error) = &outcome.result else { panic!("{:?}", outcome.result) };
    assert_eq!(error.code, StepCode::ConfigReverted);
    let text = error.to_string();
    assert!(text.starts_with("cp-11 was not reached with its changed config ("), "{text}");
    assert!(text.ends_with("it has reverted it by itself, and answers at 10.0.0.11"), "{text}");
    assert_configs(&node, "old", "old");
    assert_eq!(node.facts().modes, [Mode::Try]);
}

/// The node still answers at its address.
#[tokio::test]
async fn a_node_that_loses_its_default_route_reverts_its_config() {
    let mut rig = Rig::new();
    let node = node(&mut rig, "old", "old").await;
    let reverting = node.clone();
    tokio::spawn(async move {
        while !reverting.facts().modes.contains(&Mode::Try) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        reverting.facts().configs = Some(["old".to_owned(), "old".to_owned()]);
    });
    let mut step =
        ChangeConfig { config: SecretText::new("wrong").into(), ..change(ConfigMode::Try) };
    step.node.is_control_plane = false;
    let outcome = run(&rig, &step).await;
    let StepResult::Failed(error) = &outcome.result else { panic!("{:?}", outcome.result) };
    assert_eq!(error.code, StepCode::ConfigReverted);
    let text = error.to_string();
    let words = "cp-11 does not work with its changed config (it has no default route); it has reverted it by itself";
    assert!(text.starts_with(words), "{text}");
    assert_configs(&node, "old", "old");
    assert_eq!(node.facts().modes, [Mode::Try]);
}

#[tokio::test]
async fn another_machine_gets_no_config() {
    let mut rig = Rig::new();
    let node = node(&mut rig, "old", "old").await;
    node.facts().mac = "02:00:00:00:00:99".to_owned();
    let outcome = run(&rig, &change(ConfigMode::Live)).await;
    let StepResult::Failed(error) = &outcome.result else { panic!("{:?}", outcome.result) };
    assert_eq!(error.code, StepCode::WrongMachine);
    assert!(node.facts().applied.is_empty());
}

#[tokio::test]
async fn a_rejected_config_fails_with_the_reason() {
    let mut rig = Rig::new();
    let node = node(&mut rig, "old", "old").await;
    let step = ChangeConfig { config: SecretText::new("bad").into(), ..change(ConfigMode::Live) };
    let failure = run(&rig, &step).await.failure();
    assert!(failure.starts_with("cp-11 rejected its config: "), "{failure}");
    assert!(failure.contains("configuration validation failed: it is bad"), "{failure}");
    assert_configs(&node, "old", "old");
}

#[tokio::test]
async fn a_control_plane_does_not_reboot_while_etcd_needs_it() {
    let mut rig = Rig::new();
    let _closed = rig.lead_nowhere(OTHER);
    let node = node(&mut rig, "old", "old").await;
    let step = ChangeConfig {
        control_planes: vec![talos_node(ADDRESS), talos_node(OTHER)],
        deadline: Duration::from_mins(1),
        ..change(ConfigMode::Reboot)
    };
    let outcome = run(&rig, &step).await;
    let failure = outcome.failure();
    assert!(failure.starts_with("etcd cannot do without cp-11: "), "{failure}");
    assert!(failure.contains("cp-12: "), "{failure}");
    assert!(node.facts().applied.is_empty());
}

use std::time::Duration;

use talmox_engine::execute::StepResult;
use talmox_engine::plan::{Action, BootstrapEtcd, Evidence, Witness};

use super::node::Etcd;
use super::rig::{Rig, talos_node};

const FIRST: &str = "10.0.0.11";
const OTHER: &str = "10.0.0.12";
const STRANGE: &str = "00000000-0000-4000-8000-000000000001";

fn bootstrap(evidence: &[Evidence]) -> Action {
    let witness = |evidence: &Evidence| Witness { node: talos_node(OTHER), evidence: *evidence };
    Action::BootstrapEtcd(BootstrapEtcd {
        node: talos_node(FIRST),
        witnesses: evidence.iter().map(witness).collect(),
        deadline: Duration::from_mins(10),
    })
}

#[tokio::test]
async fn etcd_is_bootstrapped_once_and_when_it_can_be() {
    let mut rig = Rig::new();
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.not_yet = 2;
        })
        .await;
    let told = rig.run(bootstrap(&[])).await;
    assert!(matches!(told.result, StepResult::Done), "{:?}", told.result);
    assert_eq!(told.waits, ["time is not in sync yet", "etcd is starting"]);
    let again = rig.run(bootstrap(&[])).await;
    assert!(matches!(again.result, StepResult::Already), "{:?}", again.result);
    assert_eq!(node.facts().bootstraps, 1);
}

#[tokio::test]
async fn a_bootstrap_that_was_done_already_counts() {
    let mut rig = Rig::new();
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.etcd = Etcd::Begun;
        })
        .await;
    let told = rig.run(bootstrap(&[])).await;
    assert!(matches!(told.result, StepResult::Already), "{:?}", told.result);
    assert_eq!(told.waits, ["etcd is starting"]);
    let facts = node.facts().clone();
    assert_eq!((facts.bootstraps, facts.refusals), (0, 1));
}

#[tokio::test]
async fn a_node_that_never_gets_the_time_is_told_with_what_to_look_at() {
    let mut rig = Rig::new();
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.not_yet = u32::MAX;
        })
        .await;
    let told = rig.run(bootstrap(&[])).await;
    let failure = told.failure();
    assert_eq!(failure, "etcd does not come up on cp-11 in time: time is not in sync yet");
    assert!(told.hint().contains("network.gateway"), "{}", told.hint());
    assert!(told.hint().contains("UDP 123"), "{}", told.hint());
    assert_eq!(node.facts().bootstraps, 0);
}

/// On real nodes a second request stops the etcd that the first one is starting, and its image is never pulled.
#[tokio::test]
async fn an_accepted_bootstrap_is_not_repeated_while_the_image_is_pulled() {
    let mut rig = Rig::new();
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.bootstrapped = Etcd::Pulling;
        })
        .await;
    let (later, clock) = (node.clone(), rig.clock);
    tokio::spawn(async move {
        clock.sleep(Duration::from_secs(30)).await;
        later.facts().etcd = Etcd::Member;
    });
    let told = rig.run(bootstrap(&[])).await;
    assert!(matches!(told.result, StepResult::Done), "{:?}", told.result);
    assert_eq!(told.waits, ["etcd is starting", "etcd is starting: pulling its image"]);
    assert_eq!(node.facts().bootstraps, 1);
}

/// Talos keeps the request in memory only.
#[tokio::test]
async fn a_bootstrap_that_a_reboot_lost_is_repeated() {
    let mut rig = Rig::new();
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.bootstrapped = Etcd::Pulling;
        })
        .await;
    let (later, clock) = (node.clone(), rig.clock);
    tokio::spawn(async move {
        clock.sleep(Duration::from_secs(30)).await;
        let mut facts = later.facts();
        (facts.etcd, facts.bootstrapped) = (Etcd::Nothing, Etcd::Member);
        "2".clone_into(&mut facts.boot_id);
    });
    let told = rig.run(bootstrap(&[])).await;
    assert!(matches!(told.result, StepResult::Done), "{:?}", told.result);
    assert_eq!(node.facts().bootstraps, 2);
}

#[tokio::test]
async fn an_etcd_that_runs_and_does_not_answer_is_never_bootstrapped() {
    let mut rig = Rig::new();
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.etcd = Etcd::Silent;
        })
        .await;
    let told = rig.run(bootstrap(&[])).await;
    let failure = told.failure();
    assert_eq!(failure, "etcd does not come up on cp-11 in time: etcd is starting");
    assert_eq!(node.facts().bootstraps, 0);
}

#[tokio::test]
async fn data_that_is_there_is_waited_for_not_bootstrapped() {
    let mut rig = Rig::new();
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.etcd = Etcd::Data;
        })
        .await;
    let later = node.clone();
    let clock = rig.clock;
    tokio::spawn(async move {
        clock.sleep(Duration::from_secs(20)).await;
        later.facts().etcd = Etcd::Member;
    });
    let told = rig.run(bootstrap(&[])).await;
    assert!(matches!(told.result, StepResult::Already), "{:?}", told.result);
    assert_eq!(told.waits, ["etcd has data and does not run yet"]);
    assert_eq!(node.facts().bootstraps, 0);
}

#[tokio::test]
async fn another_member_forbids_it() {
    for etcd in [Etcd::Member, Etcd::Data, Etcd::Silent] {
        let mut rig = Rig::new();
        let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
        rig.node(OTHER, |facts| {
            facts.is_configured = true;
            facts.etcd = etcd;
        })
        .await;
        let told = rig.run(bootstrap(&[Evidence::Answer])).await;
        let failure = told.failure();
        assert!(failure.starts_with("etcd is not bootstrapped: cp-12 "), "{failure}");
        assert_eq!(first.facts().bootstraps, 0);
    }
}

#[tokio::test]
async fn who_answers_and_has_nothing_does_not() {
    for is_configured in [true, false] {
        let mut rig = Rig::new();
        let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
        rig.node(OTHER, |facts| facts.is_configured = is_configured).await;
        let told = rig.run(bootstrap(&[Evidence::Answer])).await;
        assert!(matches!(told.result, StepResult::Done), "{:?}", told.result);
        assert_eq!(first.facts().bootstraps, 1);
    }
}

#[tokio::test]
async fn whoever_else_has_the_address_says_nothing_about_it() {
    for is_configured in [true, false] {
        let mut rig = Rig::new();
        let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
        rig.node(OTHER, |facts| {
            facts.is_configured = is_configured;
            facts.uuid = STRANGE.to_owned();
        })
        .await;
        let told = rig.run(bootstrap(&[Evidence::Answer])).await;
        let failure = told.failure();
        assert!(failure.contains("cp-12 was made earlier and may have its data"), "{failure}");
        let why = format!("at 10.0.0.12 is another machine: its SMBIOS UUID is {STRANGE}");
        assert!(failure.contains(&why), "{failure}");
        assert_eq!(first.facts().bootstraps, 0);
    }
}

#[tokio::test]
async fn another_machine_of_the_cluster_is_not_bootstrapped_in_its_place() {
    let mut rig = Rig::new();
    let other = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.uuid = STRANGE.to_owned();
        })
        .await;
    let failure = rig.run(bootstrap(&[])).await.failure();
    assert!(failure.starts_with("at 10.0.0.11 there is not the VM 300 of cp-11: "), "{failure}");
    assert_eq!(other.facts().bootstraps, 0);
}

#[tokio::test]
async fn who_may_have_data_and_does_not_answer_forbids_it() {
    let mut rig = Rig::new();
    let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
    let _closed = rig.lead_nowhere(OTHER);
    let told = rig.run(bootstrap(&[Evidence::Answer])).await;
    let failure = told.failure();
    assert!(failure.contains("cp-12 was made earlier and may have its data"), "{failure}");
    assert_eq!(first.facts().bootstraps, 0);
    // With a fresh disk it cannot have any.
    let told = rig.run(bootstrap(&[Evidence::FreshDisk])).await;
    assert!(matches!(told.result, StepResult::Done), "{:?}", told.result);
}

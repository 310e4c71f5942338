//! A slow disk delays only its own node.

use std::collections::BTreeSet;
use std::time::Duration;

use talmox_engine::event::{Event, StepEnd};
use talmox_lab::pve::{Action as FaultAction, Fault, Profile, When};
use tokio::task::JoinSet;

use super::inventory::home;
use super::rig::{LabOptions, Rig};

const SLOW: &str = "wk-2";
const SEEDS: [u64; 3] = [1, 2, 3];

/// A lab in which the creation of the VM of one worker takes this much longer.
fn lab(seed: u64, time: Duration) -> Rig {
    let rig = Rig::of(LabOptions { seed, profile: Profile::Homelab, ..LabOptions::default() });
    let when = When { task: Some("qmcreate".to_owned()), vmid: Some(304), ..When::default() };
    rig.lab.faults().add(Fault::new(when, FaultAction::Delay(time)));
    rig
}

/// The slow disk takes longer than the test. The test waits only for the other nodes.
async fn the_others_come_up(seed: u64) {
    let rig = lab(seed, Duration::from_hours(9));
    let text = home().replace("image: 60m", "image: 10h");
    let mut left = BTreeSet::new();
    let are_up = rig.up_until(&text, |event| match event {
        Event::RunStarted { steps, .. } => {
            let others =
                steps.iter().filter(|step| step.node.as_ref().is_some_and(|node| node != SLOW));
            left.extend(others.map(|step| step.step.clone()));
            false
        }
        Event::StepEnded { step, end: StepEnd::Done | StepEnd::Already, .. } => {
            left.remove(step);
            left.is_empty()
        }
        _ => false,
    });
    assert!(are_up.await, "seed {seed}: {left:?}");
    let nodes = rig.kube(&text).nodes().await.unwrap();
    let names: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["cp-1", "cp-2", "cp-3", "wk-1"].into(), "seed {seed}");
}

/// The slow disk is finished in time.
async fn all_come_up(seed: u64) {
    let rig = lab(seed, Duration::from_mins(6));
    rig.up(&home()).await.assert_done();
    rig.lab_state(&home()).await.assert_complete(&["cp-1", "cp-2", "cp-3"], &["wk-1", SLOW]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_slow_disk_does_not_delay_other_nodes() {
    let mut running = JoinSet::new();
    for seed in SEEDS {
        running.spawn(the_others_come_up(seed));
    }
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_one_slow_disk_becomes_healthy() {
    let mut running = JoinSet::new();
    for seed in SEEDS {
        running.spawn(all_come_up(seed));
    }
    running.join_all().await;
}

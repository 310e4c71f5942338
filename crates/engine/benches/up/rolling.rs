//! Rolling change: the memory of all workers changes, and each worker is drained, stopped, changed, started and uncordoned.
//! The time is compared with the minimum that the machines need if at most `WINDOW` workers are down at the same time.
//!
//! One worker is changed first. Each other worker starts when another worker is done. So the minimum is the time of one
//! worker, multiplied by the number of workers that follow each other.

use std::num::NonZeroUsize;
use std::time::Duration;

use talmox_lab::pve::{Profile, Work};
use talmox_plan::plan::Action;
use talmox_plan::planning::Scope;
use tokio::runtime::Runtime;

use crate::rig::Rig;
use crate::served::{HOMELAB, Pace, Served};
use crate::table::{Table, number};
use crate::yard::{CONTROL_PLANES, Size, scenario};

/// Maximum number of workers that are down at the same time.
const WINDOW: NonZeroUsize = NonZeroUsize::new(5).unwrap();
/// Speed of lab time. Only the machines of one window do work at the same time.
const SPEED: f64 = 6.0;
/// Settings of the workers that need a stop of their VMs.
const MEMORY: &str = ", memory: 6144";
/// Phases of the shutdown of a node, and phases that together take the time of `Work::PowerDown`.
const SHUTDOWN_PHASES: (u32, u32) = (10, 12);

/// Creates a cluster with this number of workers, then changes all workers.
pub(crate) fn measure(runtime: &Runtime, table: &mut Table, workers: usize, speed: Option<f64>) {
    let size = Size { nth: 0, nodes: CONTROL_PLANES + workers };
    let pace = Pace { profile: HOMELAB, speed: speed.unwrap_or(SPEED) };
    let lab = Served::start(&scenario(size), pace, 1);
    let mut rig = Rig::new(&lab.ready, size.inventory());
    runtime.block_on(rig.up());
    rig.edit(size.inventory_with(MEMORY));
    let scope = Scope { max_unavailable: WINDOW, ..Scope::default() };
    let started = rig.clock.moment();
    let plan = runtime.block_on(rig.change(&scope));
    let took = rig.clock.moment().since(started);
    let drains = plan.steps.iter().filter(|step| matches!(step.action, Action::DrainNode(_)));
    assert_eq!(drains.count(), workers, "every worker is drained once");
    let again = runtime.block_on(async { rig.plan(&rig.desired(), true).await });
    assert!(again.is_empty(), "{:#?}", again.changes);
    let least = worker(Profile::Homelab).as_secs_f64() * number(in_a_row(workers));
    let what = format!("seconds to change {workers} workers, {WINDOW} at a time");
    table.row(&what, took.as_secs_f64(), least, Some(1.15));
}

/// Number of workers that must follow each other: the first one alone, then the others in the window.
fn in_a_row(workers: usize) -> usize {
    1 + (workers - 1).div_ceil(WINDOW.get())
}

/// Minimum time of one worker, from its shutdown until Kubernetes lists it as ready. The kubelet waits for the time of the
/// node, then pulls its image and starts.
fn worker(profile: Profile) -> Duration {
    let time = |work: Work| profile.time(work);
    let (phases, of) = SHUTDOWN_PHASES;
    let stopped = time(Work::PowerDown) * phases / of;
    let booted = time(Work::Call) + time(Work::Start) + time(Work::Firmware) + time(Work::Boot);
    let kubelet = time(Work::TimeSync) + time(Work::Pull) + time(Work::Service);
    stopped + booted + kubelet
}

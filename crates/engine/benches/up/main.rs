//! Benchmark of `up` and `plan` against a lab that runs in a separate process. It compares the time of `up` with the minimum
//! time that the machines need (`floor.rs`), independent of the order of the plan. It does the same with a change of all
//! workers of a cluster (`rolling.rs`). It counts the requests to Proxmox, and measures how the cost of a plan without changes
//! grows with the number of VMs.
//!
//! The benchmark prints a table. With `--check` it fails if a limit is exceeded. `--steps` shows when each step ended, and
//! when it could have ended. `--speed N` sets the speed of lab time, at most 10. `--vms N` sets the number of VMs of the
//! plan, which is 1,000 by default. With 0, no plan is measured. `--workers N` sets the number of workers that are changed,
//! which is 50 by default. With 0, no change is measured.
#![expect(clippy::print_stdout, reason = "a bench prints its results")]
#![expect(clippy::unwrap_used, reason = "a panic fails the bench")]
#![expect(clippy::disallowed_methods, reason = "real sockets take real time")]

mod floor;
mod many;
mod rig;
mod rolling;
mod served;
mod table;
mod yard;

use std::time::Duration;

use talmox_lab::pve::Profile;
use talmox_plan::plan::{Action, Plan, StepId};
use talmox_plan::planning::Scope;
use talmox_pve::api::storage::{self, Content};
use tokio::runtime::Runtime;

use floor::Image;
use rig::Rig;
use served::{HOMELAB, Pace, Served};
use table::{Table, number};
use yard::{Size, scenario};

/// Speed of lab time. It is low enough for two cores to simulate twenty machines.
const SPEED: f64 = 3.0;
const FASTEST: f64 = 10.0;
const CLUSTERS: u8 = 10;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let after = |flag: &str| args.iter().position(|arg| arg == flag).map(|at| &args[at + 1..]);
    if let Some([folder, profile, speed, clusters, ..]) = after("--serve") {
        served::serve(folder.as_ref(), profile, speed.parse().unwrap(), clusters.parse().unwrap());
        return;
    }
    if let Some([folder, clusters, nodes, ..]) = after("--plan") {
        many::plan(folder.as_ref(), clusters.parse().unwrap(), nodes.parse().unwrap());
        return;
    }
    let runtime = Runtime::new().unwrap();
    let mut table = Table::head();
    let chosen: Option<f64> = after("--speed").map(|rest| rest[0].parse().unwrap());
    let speed = chosen.unwrap_or(SPEED);
    assert!(speed <= FASTEST, "faster than this machine can follow");
    let pace = Pace { profile: HOMELAB, speed };
    let shows_steps = after("--steps").is_some();
    for nodes in [5, 20] {
        up(&runtime, &mut table, nodes, pace, shows_steps);
    }
    let workers = after("--workers").map_or(50, |rest| rest[0].parse().unwrap());
    if workers > 0 {
        rolling::measure(&runtime, &mut table, workers, chosen);
    }
    let vms = after("--vms").map_or(1000, |rest| rest[0].parse().unwrap());
    if vms > 0 {
        many::measure(&runtime, &mut table, CLUSTERS, vms / usize::from(CLUSTERS));
    }
    let is_checked = after("--check").is_some();
    assert!(table.missed == 0 || !is_checked, "{} missed", table.missed);
}

/// Creates one new cluster, then plans it again.
fn up(runtime: &Runtime, table: &mut Table, nodes: usize, pace: Pace, shows_steps: bool) {
    let size = Size { nth: 0, nodes };
    let lab = Served::start(&scenario(size), pace, 1);
    let rig = Rig::new(&lab.ready, size.inventory());
    let started = rig.clock.moment();
    let (plan, ends) = runtime.block_on(rig.up());
    let took = rig.clock.moment().since(started);
    let fresh = lab.requests();
    let image = runtime.block_on(image(&rig, &plan));
    let least = floor::ends(&plan, Profile::Homelab, image);
    let same = floor::ends(&one_by_one(&plan), Profile::Homelab, image);
    assert_eq!(least, same, "the minimum time depends on the order of the steps");
    if shows_steps {
        show(&least, &ends);
    }
    let least = least.values().max().copied().unwrap_or_default();
    let what = format!("seconds for `up` of {nodes} nodes, against the minimum");
    table.row(&what, took.as_secs_f64(), least.as_secs_f64(), Some(1.1));
    let before = lab.requests();
    let again = runtime.block_on(async { rig.plan(&rig.desired(), true).await });
    assert!(again.is_empty(), "{:#?}", again.changes);
    let again = lab.requests() - before;
    if nodes == 5 {
        table.row(
            "requests of this `up` (no reads of tasks), limit 50",
            number(fresh),
            50.0,
            Some(1.0),
        );
    }
    let what = format!("requests of an empty plan of {nodes} VMs, limit VMs + 6");
    table.row(&what, number(again), number(nodes + 6), Some(1.0));
    if nodes == 5 {
        let before = lab.requests();
        let idle = runtime.block_on(rig.change(&Scope::default()));
        assert!(idle.is_empty(), "{:#?}", idle.changes);
        let idle = lab.requests() - before;
        let what = "requests of an `up` without changes, limit its plan";
        table.row(what, number(idle), number(again), Some(1.0));
    }
}

/// The same steps, each with a dependency on the step before it.
fn one_by_one(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let mut before = vec![];
    for step in &mut plan.steps {
        step.after = before;
        before = vec![step.id.clone()];
    }
    plan
}

/// Size of the image that was fetched.
async fn image(rig: &Rig, plan: &Plan) -> Image {
    let fetch = plan.steps.iter().find_map(|step| match &step.action {
        Action::FetchImage(fetch) => Some(fetch),
        _ => None,
    });
    let fetch = fetch.unwrap();
    let (client, host) = (rig.client(), &fetch.host);
    let list = storage::content(host, fetch.volume.storage(), Some(Content::Import), None);
    let files = client.send(&list).await.unwrap();
    let file = files.into_iter().find(|file| file.volid == fetch.volume).unwrap();
    let info = client.send(&storage::volume(host, &fetch.volume)).await.unwrap();
    Image { length: file.size.unwrap(), used: info.used.unwrap() }
}

/// Prints when each step could have ended, and when it ended.
fn show(least: &floor::Ends, ends: &[(StepId, Duration)]) {
    for (step, end) in ends {
        let (least, end) = (least[step].as_secs_f64(), end.as_secs_f64());
        println!("  {step:<40} {least:>8.2} {end:>8.2} {:>8.2} later", end - least);
    }
}

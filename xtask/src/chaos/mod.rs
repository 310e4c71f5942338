//! `cargo xtask chaos --seed N --minutes M`: runs many short experiments with a cluster in the lab.
//!
//! Runs of `up` and `destroy` are killed, calls fail, hosts go down, the power fails, and inventories are edited. Two
//! checkouts change one cluster at the same time, in some experiments on two simulated machines.
//!
//! The seed of an experiment selects its drills. The experiments with the seeds 1 and 2 together contain all drills:
//! `unlock` during a run, a run that is paused for longer than its lease, VMs that were renamed in Proxmox, and a lost
//! secrets file.
//!
//! An observer that shares no code with talmox checks the invariants. The same seed draws the same experiments. The
//! interleaving of the runs depends on the machine, and the times of kills depend on the measured durations.

mod experiment;
mod fault;
mod inventory;
mod lab_process;
mod observer;
mod other_machine;
mod run;
mod run_durations;
mod run_logs;
mod statistics;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use talmox_clock::{Chance, Clock, Deadline};

use crate::Problems;
pub(crate) use experiment::new_folder;
use experiment::{ClusterDrill, Experiment, LiveDrill};
pub(crate) use inventory::{HOSTS, pick};
pub(crate) use lab_process::LabProcess;
use other_machine::OtherMachine;
use run_durations::RunDurations;
use statistics::{Statistics, Violations};

const USAGE: &str = "usage: cargo xtask chaos [--seed N] [--minutes M] [--talmox PATH]";
/// Maximum number of experiments with a violation whose directories are kept. Each directory contains a lab with its
/// images.
const KEPT: usize = 5;

struct ChaosArguments {
    seed: u64,
    minutes: f64,
    /// Program under test. By default it is built from this workspace.
    talmox: Option<PathBuf>,
}

/// Runs experiments until the time is over. A violation does not end the chaos run. The directory and the seed of the
/// experiment are kept, and the time without violations is part of the result.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Problems {
    let arguments = match parse(arguments) {
        Ok(arguments) => arguments,
        Err(problem) => return vec![problem],
    };
    let Some(talmox) = arguments.talmox.clone().or_else(|| build(root)) else {
        return vec!["the program does not build".to_owned()];
    };
    let clock = Clock::real();
    let started = clock.moment();
    let end = clock.deadline(Duration::from_secs_f64(arguments.minutes * 60.0));
    let (mut statistics, mut run_durations) = (Statistics::default(), RunDurations::default());
    let (mut violations, mut problems) = (Violations::default(), Vec::new());
    let other_machine = OtherMachine::find();
    if other_machine.is_none() {
        println!("chaos: `unshare --pid` does not work here, so both checkouts run on one machine");
    }
    let mut seed = arguments.seed;
    while !end.has_passed() {
        let mut chance = Chance::new(seed);
        let started_experiment =
            Experiment::start(&talmox, seed, &mut chance, other_machine.clone());
        let mut experiment = match started_experiment {
            Ok(experiment) => experiment,
            Err(error) => {
                problems.push(format!("seed {seed}: the lab does not start: {error}"));
                break;
            }
        };
        let found = run_experiment(
            &mut experiment,
            seed,
            &mut chance,
            &end,
            &mut run_durations,
            &mut statistics,
        );
        statistics.experiments += 1;
        if !found.is_empty() {
            violations.add(clock.moment().since(started));
            println!("to repeat this experiment: cargo xtask chaos --seed {seed} --minutes 1");
            if problems.len() < KEPT {
                println!(
                    "the directory of this experiment is kept: {}",
                    experiment.keep().display()
                );
            }
            for one in &found {
                println!("violation: {one}");
            }
            problems.push(format!("seed {seed}: {}", found.join("; ")));
        }
        seed += 1;
    }
    println!("chaos: {statistics}");
    println!("chaos: {}", violations.summary(clock.moment().since(started)));
    // A chaos run without a bootstrapped cluster has tested nothing.
    let is_idle = statistics.bootstrapped == 0 || statistics.settled == 0;
    if problems.is_empty() && statistics.experiments > 3 && is_idle {
        problems.push("no cluster was bootstrapped and settled, so nothing was tested".to_owned());
    }
    problems
}

/// Runs one experiment: several disturbed rounds, and at the end a run without disturbance. A drill during a run comes
/// first, because `up` then has most of its changes to make. A drill with a complete cluster comes last.
fn run_experiment(
    experiment: &mut Experiment,
    seed: u64,
    chance: &mut Chance,
    end: &Deadline,
    run_durations: &mut RunDurations,
    statistics: &mut Statistics,
) -> Problems {
    let rounds = 3 + chance.below(10);
    let mut violations = match LiveDrill::of_seed(seed) {
        Some(drill) => experiment.drill_live_run(drill, chance, run_durations, statistics),
        None => vec![],
    };
    for _ in 0..rounds {
        if end.has_passed() || !violations.is_empty() {
            break;
        }
        violations = experiment.round(chance, run_durations, statistics);
    }
    if violations.is_empty() {
        let settled_before = statistics.settled;
        violations = experiment.settle(statistics);
        if violations.is_empty() && statistics.settled > settled_before {
            violations =
                experiment.drill_complete_cluster(ClusterDrill::of_seed(seed), chance, statistics);
        }
    }
    experiment.observer().count(statistics);
    violations
}

/// Builds the program in the dev profile, and returns its path.
pub(crate) fn build(root: &Path) -> Option<PathBuf> {
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--package", "talmox"])
        .current_dir(root)
        .status()
        .ok()?;
    built.success().then(|| root.join("target/debug/talmox"))
}

fn parse(arguments: &[String]) -> Result<ChaosArguments, String> {
    let mut parsed = ChaosArguments { seed: 1, minutes: 2.0, talmox: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| USAGE.to_owned())?;
        match word.as_str() {
            "--seed" => parsed.seed = value.parse().map_err(|_| USAGE.to_owned())?,
            "--minutes" => parsed.minutes = value.parse().map_err(|_| USAGE.to_owned())?,
            // The path is made absolute, because the program runs in other directories.
            "--talmox" => {
                let path = std::fs::canonicalize(value);
                parsed.talmox = Some(path.map_err(|error| format!("{value}: {error}"))?);
            }
            _ => return Err(USAGE.to_owned()),
        }
    }
    if !parsed.minutes.is_finite() || parsed.minutes <= 0.0 {
        return Err(USAGE.to_owned());
    }
    Ok(parsed)
}

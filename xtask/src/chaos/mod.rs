//! `cargo xtask chaos --seed N --minutes M`: many short lives of a cluster in the lab, in which runs of `up` are killed, calls
//! fail, hosts go down, inventories are edited, and two folders work on one cluster at once. An observer that shares no code
//! with the program looks for what must never happen. The same seed draws the same lives; how they interleave is up to the
//! machine.

mod fault;
mod inventory;
mod observer;
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use talmox_clock::{Chance, Clock, Deadline};

use crate::Problems;
use world::World;

const USAGE: &str = "usage: cargo xtask chaos [--seed N] [--minutes M] [--talmox PATH]";

struct Arguments {
    seed: u64,
    minutes: f64,
    /// The program to test; built from this workspace unless given.
    talmox: Option<PathBuf>,
}

/// What was done, for the last line.
#[derive(Default)]
pub(crate) struct Tally {
    worlds: u64,
    runs: u64,
    kills: u64,
    edits: u64,
    /// Two folders that ran at the same time.
    pairs: u64,
    lab_restarts: u64,
    observations: u64,
    bootstrapped: u64,
    settled: u64,
}

pub(crate) fn run(root: &Path, arguments: &[String]) -> Problems {
    let arguments = match parse(arguments) {
        Ok(arguments) => arguments,
        Err(problem) => return vec![problem],
    };
    let Some(talmox) = arguments.talmox.clone().or_else(|| build(root)) else {
        return vec!["the program does not build".to_owned()];
    };
    let end = Clock::real().deadline(Duration::from_secs_f64(arguments.minutes * 60.0));
    let mut tally = Tally::default();
    let mut violations = Vec::new();
    let mut seed = arguments.seed;
    while !end.has_passed() && violations.is_empty() {
        let mut chance = Chance::new(seed);
        match World::start(&talmox, seed, &mut chance) {
            Ok(world) => violations = live(world, &mut chance, &end, &mut tally),
            Err(error) => violations.push(format!("the lab does not start: {error}")),
        }
        tally.worlds += 1;
        if !violations.is_empty() {
            println!("seed {seed} of this life: cargo xtask chaos --seed {seed} --minutes 1");
        }
        seed += 1;
    }
    println!(
        "chaos: {} lives, {} runs, {} of them killed, {} edits, {} pairs at once, {} lab restarts, {} observations, \
         {} lives with an etcd, {} ended settled, {} violations",
        tally.worlds,
        tally.runs,
        tally.kills,
        tally.edits,
        tally.pairs,
        tally.lab_restarts,
        tally.observations,
        tally.bootstrapped,
        tally.settled,
        violations.len()
    );
    // A run in which nothing came up has shown nothing.
    if violations.is_empty() && tally.worlds > 3 && (tally.bootstrapped == 0 || tally.settled == 0)
    {
        violations.push("no cluster ever came up, so nothing was tested".to_owned());
    }
    violations
}

/// One life of a cluster: a handful of rounds, and at the end a run without disturbance.
fn live(mut world: World, chance: &mut Chance, end: &Deadline, tally: &mut Tally) -> Problems {
    let rounds = 3 + chance.below(10);
    let mut violations = Vec::new();
    for _ in 0..rounds {
        if end.has_passed() || !violations.is_empty() {
            break;
        }
        violations = world.round(chance, tally);
    }
    if violations.is_empty() {
        violations = world.settle(tally);
    }
    tally.observations += world.observations();
    tally.bootstrapped += u64::from(world.has_etcd());
    if !violations.is_empty() {
        println!("everything of this life is kept in {}", world.keep().display());
    }
    violations
}

fn build(root: &Path) -> Option<PathBuf> {
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--package", "talmox"])
        .current_dir(root)
        .status()
        .ok()?;
    built.success().then(|| root.join("target/debug/talmox"))
}

fn parse(arguments: &[String]) -> Result<Arguments, String> {
    let mut parsed = Arguments { seed: 1, minutes: 2.0, talmox: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| USAGE.to_owned())?;
        match word.as_str() {
            "--seed" => parsed.seed = value.parse().map_err(|_| USAGE.to_owned())?,
            "--minutes" => parsed.minutes = value.parse().map_err(|_| USAGE.to_owned())?,
            // It runs in other folders than this one.
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

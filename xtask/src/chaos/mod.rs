//! `cargo xtask chaos --seed N --minutes M`: many short lives of a cluster in the lab, in which runs of `up` and `destroy` are
//! killed, calls fail, hosts go down, the power is cut, inventories are edited, and two folders work on one cluster at once. An
//! observer that shares no code with the program looks for what must never happen. The same seed draws the same lives; how they
//! interleave is up to the machine, and kills follow the durations that were measured.

mod fault;
mod inventory;
mod lab_process;
mod observer;
mod pace;
mod run;
mod tally;
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use talmox_clock::{Chance, Clock, Deadline};

use crate::Problems;
use pace::Pace;
use tally::{Tally, Violations};
use world::World;

const USAGE: &str = "usage: cargo xtask chaos [--seed N] [--minutes M] [--talmox PATH]";
/// The folders of so many lives are kept, each with a lab and its images.
const KEPT: usize = 5;

struct Arguments {
    seed: u64,
    minutes: f64,
    /// The program to test; built from this workspace unless given.
    talmox: Option<PathBuf>,
}

/// Violations do not end it: each is kept with its seed, and the time without one is part of the result.
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
    let (mut tally, mut pace) = (Tally::default(), Pace::default());
    let (mut violations, mut problems) = (Violations::default(), Vec::new());
    let mut seed = arguments.seed;
    while !end.has_passed() {
        let mut chance = Chance::new(seed);
        let mut world = match World::start(&talmox, seed, &mut chance) {
            Ok(world) => world,
            Err(error) => {
                problems.push(format!("seed {seed}: the lab does not start: {error}"));
                break;
            }
        };
        let found = live(&mut world, &mut chance, &end, &mut pace, &mut tally);
        tally.lives += 1;
        if !found.is_empty() {
            violations.add(clock.moment().since(started));
            println!("seed {seed} of this life: cargo xtask chaos --seed {seed} --minutes 1");
            if problems.len() < KEPT {
                println!("everything of this life is kept in {}", world.keep().display());
            }
            for one in &found {
                println!("violation: {one}");
            }
            problems.push(format!("seed {seed}: {}", found.join("; ")));
        }
        seed += 1;
    }
    println!("chaos: {tally}");
    println!("chaos: {}", violations.summary(clock.moment().since(started)));
    // A run in which nothing came up has shown nothing.
    let is_idle = tally.bootstrapped == 0 || tally.settled == 0;
    if problems.is_empty() && tally.lives > 3 && is_idle {
        problems.push("no cluster ever came up, so nothing was tested".to_owned());
    }
    problems
}

/// One life of a cluster: a handful of rounds, and at the end a run without disturbance.
fn live(
    world: &mut World,
    chance: &mut Chance,
    end: &Deadline,
    pace: &mut Pace,
    tally: &mut Tally,
) -> Problems {
    let rounds = 3 + chance.below(10);
    let mut violations = Vec::new();
    for _ in 0..rounds {
        if end.has_passed() || !violations.is_empty() {
            break;
        }
        violations = world.round(chance, pace, tally);
    }
    if violations.is_empty() {
        violations = world.settle(tally);
    }
    world.observer().count(tally);
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

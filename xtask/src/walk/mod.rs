//! `cargo xtask walk --seed N --walks W --edits M`: makes many random changes to a cluster in the lab, one after the other.
//!
//! A change consists of one to three edits of the inventory: nodes are added and removed, and get other roles, addresses, hosts,
//! memory, cores, disks, network cards, labels and tags; `ignore:` accepts a difference. A change can also be made by a user:
//! a VM is stopped, changed or deleted, or a Node object is deleted. Calls and tasks fail at random during the walk, answers
//! are lost, and some runs are killed with SIGKILL. After each change, `talmox up` must succeed, `talmox plan` must be empty,
//! and the lab must report no violated invariant. At the first problem, the walk stops and prints its seed and its changes.
//! The same seed draws the same changes.
//!
//! The seeds of several walks follow each other. A problem ends only its own walk.

mod cluster;
mod edit;
mod fault;
mod kube_user;
mod machine;
mod random_walk;
mod user;

use std::path::{Path, PathBuf};

use talmox_clock::Chance;

use crate::{Problems, chaos};
use random_walk::RandomWalk;

const USAGE: &str = "usage: cargo xtask walk [--seed N] [--walks W] [--edits M] [--talmox PATH]";

struct WalkArguments {
    /// Seed of the first walk.
    seed: u64,
    walks: u64,
    edits: u64,
    /// Program under test. By default it is built from this workspace.
    talmox: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, arguments: &[String]) -> Problems {
    let WalkArguments { seed, walks, edits, talmox } = match parse(arguments) {
        Ok(arguments) => arguments,
        Err(problem) => return vec![problem],
    };
    let Some(talmox) = talmox.or_else(|| chaos::build(root)) else {
        return vec!["the program does not build".to_owned()];
    };
    (seed..seed.saturating_add(walks)).filter_map(|seed| walk(&talmox, seed, edits)).collect()
}

/// Takes one walk. Returns its problem.
fn walk(talmox: &Path, seed: u64, edits: u64) -> Option<String> {
    let mut chance = Chance::new(seed);
    let mut walk = match RandomWalk::start(talmox, seed, edits, &mut chance) {
        Ok(walk) => walk,
        Err(error) => return Some(format!("seed {seed}: the walk does not start: {error}")),
    };
    let Err(problem) = walk.run(edits, &mut chance) else {
        println!("walk: seed {seed}: {edits} changes without a violation");
        return None;
    };
    println!("walk: to repeat this walk: cargo xtask walk --seed {seed} --edits {edits}");
    println!("walk: the directory of this walk is kept: {}", walk.keep().display());
    for (nth, change) in walk.changes().iter().enumerate() {
        println!("walk: change {}: {change}", nth + 1);
    }
    Some(format!("seed {seed}, change {}: {problem}", walk.changes().len()))
}

fn parse(arguments: &[String]) -> Result<WalkArguments, String> {
    let mut parsed = WalkArguments { seed: 1, walks: 1, edits: 20, talmox: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| USAGE.to_owned())?;
        match word.as_str() {
            "--seed" => parsed.seed = value.parse().map_err(|_| USAGE.to_owned())?,
            "--walks" => parsed.walks = value.parse().map_err(|_| USAGE.to_owned())?,
            "--edits" => parsed.edits = value.parse().map_err(|_| USAGE.to_owned())?,
            // The path is made absolute, because the program runs in another directory.
            "--talmox" => {
                let path = std::fs::canonicalize(value);
                parsed.talmox = Some(path.map_err(|error| format!("{value}: {error}"))?);
            }
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(parsed)
}

//! `cargo xtask walk --seed N --edits M`: makes many random changes to a cluster in the lab, one after the other.
//!
//! A change is an edit of the inventory (workers, control planes, memory, cores, disks, labels, tags). It can also be a
//! change by a user of Proxmox (a VM is stopped, changed or deleted). Calls and tasks fail at random during the walk.
//! After each change, `talmox up` must succeed, `talmox plan` must be empty, and the lab must report no violated
//! invariant. At the first problem, the walk stops and prints its seed and its changes. The same seed draws the same
//! changes.

mod cluster;
mod fault;
mod journey;
mod user;

use std::path::{Path, PathBuf};

use talmox_clock::Chance;

use crate::{Problems, chaos};
use journey::Journey;

const USAGE: &str = "usage: cargo xtask walk [--seed N] [--edits M] [--talmox PATH]";

struct Arguments {
    seed: u64,
    edits: u64,
    /// Program under test. By default it is built from this workspace.
    talmox: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, arguments: &[String]) -> Problems {
    let Arguments { seed, edits, talmox } = match parse(arguments) {
        Ok(arguments) => arguments,
        Err(problem) => return vec![problem],
    };
    let Some(talmox) = talmox.or_else(|| chaos::build(root)) else {
        return vec!["the program does not build".to_owned()];
    };
    let mut chance = Chance::new(seed);
    let mut journey = match Journey::start(&talmox, seed, edits, &mut chance) {
        Ok(journey) => journey,
        Err(error) => return vec![format!("seed {seed}: the walk does not start: {error}")],
    };
    match journey.walk(edits, &mut chance) {
        Ok(()) => {
            println!("walk: seed {seed}: {edits} changes without a violation");
            vec![]
        }
        Err(problem) => {
            println!("walk: to repeat this walk: cargo xtask walk --seed {seed} --edits {edits}");
            println!("walk: the directory of this walk is kept: {}", journey.keep().display());
            for (nth, change) in journey.changes().iter().enumerate() {
                println!("walk: change {}: {change}", nth + 1);
            }
            vec![format!("seed {seed}, change {}: {problem}", journey.changes().len())]
        }
    }
}

fn parse(arguments: &[String]) -> Result<Arguments, String> {
    let mut parsed = Arguments { seed: 1, edits: 20, talmox: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| USAGE.to_owned())?;
        match word.as_str() {
            "--seed" => parsed.seed = value.parse().map_err(|_| USAGE.to_owned())?,
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

//! Replays the Proxmox vectors in `$TALMOX_PVE_VECTORS` over HTTPS. Each vector gets a new lab.
//!
//! The vectors are not part of the project. Without the variable, the test is skipped; in CI, a missing variable is a failure.
//! Arguments select the vectors whose id or operation contains one of the arguments. `--verbose` shows every difference.
//! `--release 8.4` runs only that release. `--list` prints the differences in the form of `known-differences.txt`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test program of its own: it prints, and the environment names its input"
)]

mod client;
mod comparison;
mod known;
mod lab;
mod replay;
mod report;
mod upload;
mod vector;
mod wildcard;

use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;

use talmox_lab::pve::Release;

use comparison::{Comparison, Difference, Level};
use known::Known;
use lab::Labs;
use replay::{Replay, Starts};
use report::Outcome;
use vector::Vector;

const VARIABLE: &str = "TALMOX_PVE_VECTORS";

#[derive(Default)]
struct Arguments {
    only: Vec<String>,
    releases: Vec<Release>,
    verbose: bool,
    list: bool,
}

fn main() -> ExitCode {
    let Some(folder) = env::var_os(VARIABLE) else {
        eprintln!("SKIPPED: {VARIABLE} is not set, no Proxmox vector was run");
        let in_ci = env::var_os("CI").is_some_and(|ci| ci == "true");
        return ExitCode::from(u8::from(in_ci));
    };
    match run(Path::new(&folder), &arguments()) {
        Ok(good) => ExitCode::from(u8::from(!good)),
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Arguments {
    let mut arguments = Arguments::default();
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--verbose" => arguments.verbose = true,
            "--list" => arguments.list = true,
            "--release" if words.next().as_deref() == Some("8.4") => {
                arguments.releases = vec![Release::V8];
            }
            "--release" => arguments.releases = vec![Release::V9],
            // cargo and its front ends pass options to every test program. These options are ignored.
            word if word.starts_with('-') => {}
            _ => arguments.only.push(word),
        }
    }
    if arguments.releases.is_empty() {
        arguments.releases = vec![Release::V9, Release::V8];
    }
    arguments
}

fn run(folder: &Path, arguments: &Arguments) -> Result<bool, String> {
    let vectors = Vector::read_all(folder)?;
    let known = Known::of(&vectors)?;
    if !known.same_set {
        let set = known::name_of_set(&vectors);
        println!("These are not the vectors of known-differences.txt, but: set {set}");
    }
    let outcomes = replay_all(&vectors, arguments)?;
    let (mut failed, mut surprises) = (0, 0);
    for outcome in &outcomes {
        let deviation = outcome.deviation(&known);
        failed += usize::from(outcome.fails_at().is_some());
        surprises += usize::from(deviation.is_some());
        if deviation.is_some() || arguments.verbose {
            show(outcome, deviation.as_deref(), arguments.verbose);
        }
    }
    if arguments.list {
        for outcome in &outcomes {
            if let (Some(level), Some((_, first))) = (outcome.fails_at(), worst(outcome)) {
                let Outcome { id, release, .. } = outcome;
                println!("{id} {release} {} {}", level as u8, first.text.replace('\n', "\\n"));
            }
        }
    }
    println!("{}", report::table(&outcomes));
    let (wrong, all) = report::classified(&outcomes);
    println!("texts that clients classify: {} of {all} right", all - wrong);
    // The required shares apply only if all vectors are replayed.
    let low = if arguments.only.is_empty() { report::too_low(&outcomes, &known) } else { vec![] };
    for line in &low {
        println!("TOO LOW {line}");
    }
    println!("{surprises} other than known-differences.txt says");
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    Ok(low.is_empty() && !outcomes.is_empty() && (surprises == 0 || !known.same_set))
}

fn worst(outcome: &Outcome) -> Option<&(usize, Difference)> {
    outcome.differences.iter().min_by_key(|(_, difference)| difference.level)
}

fn show(outcome: &Outcome, deviation: Option<&str>, verbose: bool) {
    let Outcome { id, release, .. } = outcome;
    match deviation {
        Some(deviation) => println!("FAILED {id} {release}: {deviation}"),
        None => println!("{id} {release}"),
    }
    let shown = if verbose { usize::MAX } else { 2 };
    let mut differences: Vec<_> = outcome.differences.iter().collect();
    differences.sort_by_key(|(step, difference)| (difference.level, *step));
    for (step, difference) in differences.into_iter().take(shown) {
        println!("    step {step}, level {}: {}", difference.level as u8, difference.text);
    }
}

fn replay_all(vectors: &[Vector], arguments: &Arguments) -> Result<Vec<Outcome>, String> {
    let wanted = |vector: &&Vector| {
        let named = |only: &String| vector.id.contains(only.as_str()) || vector.operation == *only;
        arguments.only.is_empty() || arguments.only.iter().any(named)
    };
    let mut work = vec![];
    for vector in vectors.iter().filter(wanted) {
        let releases = arguments.releases.iter().filter(|r| vector.expect(**r).is_some());
        work.extend(releases.map(|release| (vector, *release)));
    }
    let (labs, starts) = (Labs::new()?, Starts::default());
    let work = Mutex::new(work.into_iter().enumerate());
    let outcomes = Mutex::new(vec![]);
    let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
    let threads = thread::available_parallelism().map_or(2, usize::from) + 1;
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((at, (vector, release))) = next() {
                    let outcome = outcome(&labs, &starts, vector, release);
                    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                    outcomes.push((at, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(at, _)| *at);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

fn outcome(labs: &Labs, starts: &Starts, vector: &Vector, release: Release) -> Outcome {
    let comparison = Comparison::new();
    let expect = vector.expect(release).unwrap_or_default();
    let mut outcome = Outcome {
        id: vector.id.clone(),
        operation: vector.operation.clone(),
        release,
        differences: vec![],
        classified: expect.iter().map(|expect| comparison.classified_texts(expect)).sum(),
    };
    let mut at = 0;
    let mut run = || -> Result<(), String> {
        let lab = labs.start(vector.scenario(release)?)?;
        let mut replay = Replay::new(vector, lab::client(&lab)?, starts, vector.start(release))?;
        for (step, expect) in vector.steps.iter().zip(expect) {
            at += 1;
            let seen = replay.step(step)?;
            let differences = comparison.differences(step, expect, &seen);
            outcome.differences.extend(differences.into_iter().map(|one| (at, one)));
        }
        // The client is dropped first, because the lab waits for open connections.
        drop(replay);
        labs.stop(lab)
    };
    if let Err(text) = run() {
        let difference = Difference { level: Level::Status, text, classified: false };
        outcome.differences.push((at, difference));
    }
    outcome
}

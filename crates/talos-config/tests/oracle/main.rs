//! Comparison with Talos. For random options and random patches, the library and Talos must produce the same bytes, or
//! both must reject the input. For the patched configs, both must have the same validation result.
//!
//! `$TALMOX_ORACLE` contains the paths of the oracle binaries, separated by colons. `tests/oracle/build.sh` builds the
//! binaries and prints the value. Without the variable, the test compares nothing and prints a notice; in a CI that
//! could have built the binaries, it fails. `$TALMOX_ORACLE_SEED` and `$TALMOX_ORACLE_CASES` select other or more
//! cases.
//!
//! A failing case is reduced as long as it still fails. The reduced case is printed.

// This test has its own harness, so it is a program that reads the environment and prints.
#![expect(clippy::disallowed_methods, reason = "a test program has an environment")]
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a test program reports")]

mod compare;
mod documents;
mod fields;
mod library;
mod options;
mod patches;
mod random;
mod scalars;
mod shrink;
mod talos;

use std::collections::{BTreeMap, HashMap};
use std::process::{Command, ExitCode, Stdio};

use compare::{CaseResult, Comparison};
use talos::Talos;

const DEFAULT_SEED: u64 = 20_260_101;
const DEFAULT_CASES: usize = 300;
/// Maximum number of reduced cases. Further failures are only counted, because reducing a case needs many requests to
/// Talos and the library.
const MOST_SHOWN: usize = 40;

fn main() -> ExitCode {
    let binaries = std::env::var("TALMOX_ORACLE").unwrap_or_default();
    let binaries: Vec<&str> = binaries.split(':').filter(|path| !path.is_empty()).collect();
    if binaries.is_empty() {
        return skipped();
    }
    let seed = number("TALMOX_ORACLE_SEED").unwrap_or(DEFAULT_SEED);
    let cases = number("TALMOX_ORACLE_CASES").unwrap_or(DEFAULT_CASES);
    let mut report = Report { seed, ..Report::default() };
    for binary in binaries {
        match Talos::start(binary) {
            Ok(talos) => Comparison::new(talos, seed).run(cases, &mut report),
            Err(error) => report.fail("oracle", binary, || error),
        }
    }
    report.finish()
}

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("${variable} is not a number: {text:?}")))
}

/// Handles a missing oracle. This is accepted on a machine without Go, but not in a CI with Go.
fn skipped() -> ExitCode {
    eprintln!("SKIPPED: TALMOX_ORACLE is not set, nothing was compared with Talos's own.");
    eprintln!("         See tests/oracle/README.md for how to build the oracle.");
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    let mut go = Command::new("go");
    go.arg("version").stdout(Stdio::null()).stderr(Stdio::null());
    if ci && go.status().is_ok_and(|status| status.success()) {
        eprintln!("FAILED: this is CI and `go` is here, so the oracle could have been built.");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Counters and printed cases of the run.
#[derive(Debug, Default)]
struct Report {
    seed: u64,
    passed: usize,
    failed: usize,
    /// Reduced cases that were printed, each with the name of the first case that was reduced to it.
    shown: HashMap<String, String>,
    /// Number of passed cases by result. A suite in which Talos rejects every case proves little.
    results: BTreeMap<String, usize>,
}

impl Report {
    fn pass(&mut self, suite: &str, result: CaseResult) {
        self.passed += 1;
        let result = match result {
            CaseResult::Same => "the same answer",
            CaseResult::Rejected => "rejected by both",
            CaseResult::Crashed => "talos crashes, the library does not",
        };
        *self.results.entry(format!("{suite}: {result}")).or_default() += 1;
    }

    /// Counts a failure. `explain` reduces the case, and is called for a limited number of failures.
    fn fail(&mut self, suite: &str, id: &str, explain: impl FnOnce() -> String) {
        self.failed += 1;
        let name = format!("{suite} {id}, seed {}", self.seed);
        if self.shown.len() == MOST_SHOWN {
            eprintln!("FAIL {name}: not made smaller, there are too many");
            return;
        }
        let small = explain();
        if let Some(first) = self.shown.get(&small) {
            eprintln!("FAIL {name}: the same as {first}");
            return;
        }
        eprintln!("FAIL {name}\n{}", shrink::indent(&small));
        self.shown.insert(small, name);
    }

    fn finish(self) -> ExitCode {
        for (result, count) in &self.results {
            println!("{count:6}  {result}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

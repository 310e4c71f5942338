//! Ours against Talos's own: random option sets and random patches must give the same bytes, or be
//! refused by both; and both must pass the same verdict on what the patches made.
//!
//! `$TALMOX_ORACLE` names the oracle binaries, colon separated (`tests/oracle/build.sh` makes them and
//! prints that). Without it nothing is compared, which is said loudly, and is a failure in a CI that could
//! have built them. `$TALMOX_ORACLE_SEED` and `$TALMOX_ORACLE_CASES` ask for other cases, or for more.
//!
//! A failing case is made smaller as long as it fails; what is printed is the small one.

// A test with its own harness is a program: it reads the environment and prints.
#![expect(clippy::disallowed_methods, reason = "a test program has an environment")]
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a test program reports")]

mod compare;
mod documents;
mod fields;
mod options;
mod ours;
mod patches;
mod random;
mod scalars;
mod shrink;
mod talos;

use std::collections::{BTreeMap, HashMap};
use std::process::{Command, ExitCode, Stdio};

use compare::{Comparison, Ending};
use talos::Talos;

const DEFAULT_SEED: u64 = 20_260_101;
const DEFAULT_CASES: usize = 300;
/// Making a case smaller asks both sides many times; after this many small ones it is enough to count.
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
    Some(text.parse().unwrap_or_else(|_| panic!("${variable} is no number: {text:?}")))
}

/// No oracle is fine on a machine without Go, and never in a CI that has it.
fn skipped() -> ExitCode {
    eprintln!("SKIPPED: $TALMOX_ORACLE is not set, nothing was compared with Talos's own.");
    eprintln!("         tests/oracle/README.md says how to build the oracle.");
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    let mut go = Command::new("go");
    go.arg("version").stdout(Stdio::null()).stderr(Stdio::null());
    if ci && go.status().is_ok_and(|status| status.success()) {
        eprintln!("FAILED: this is CI and `go` is here, so the oracle could have been built.");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// What is printed, and how the run ends.
#[derive(Debug, Default)]
struct Report {
    seed: u64,
    passed: usize,
    failed: usize,
    /// Small cases already shown, and the name of the first one that came down to each.
    shown: HashMap<String, String>,
    /// How the cases that passed ended: a suite in which Talos refuses everything proves little.
    endings: BTreeMap<String, usize>,
}

impl Report {
    fn pass(&mut self, suite: &str, ending: Ending) {
        self.passed += 1;
        let ending = match ending {
            Ending::Same => "the same answer",
            Ending::Refused => "refused by both",
            Ending::Crashed => "talos crashes, ours does not",
        };
        *self.endings.entry(format!("{suite}: {ending}")).or_default() += 1;
    }

    /// Counts a failure; `explain` makes it small, and is asked as long as that is worth the time.
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
        for (ending, count) in &self.endings {
            println!("{count:6}  {ending}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

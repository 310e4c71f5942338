//! Tasks of this repository:
//!
//! - `cargo xtask generate` writes the generated files.
//! - `cargo xtask check` checks rules that the compiler does not check.
//! - `cargo xtask dist` builds the static binary.
//! - `cargo xtask retryable TEST…` checks whether CI may retry failed tests.
//! - `cargo xtask chaos` tests the invariants of clusters in the lab under random disturbance.
//! - `cargo xtask walk` makes random changes to a cluster in the lab.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod chaos;
mod crate_table;
mod dependencies;
mod dist;
mod generated;
mod glossary;
mod import_cycle;
mod layering;
mod named_path;
mod purity;
mod size;
mod stubs;
mod threat_model;
mod type_name;
mod walk;

type Problems = Vec<String>;

fn main() -> ExitCode {
    let root = root();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = arguments.first();
    let problems = match command.map(String::as_str) {
        Some("generate") => generated::write(&root),
        Some("check") => {
            let mut problems = layering::check(&root);
            problems.extend(dependencies::check(&root));
            problems.extend(import_cycle::check(&root));
            problems.extend(generated::check(&root));
            problems.extend(size::check(&root));
            problems.extend(threat_model::check(&root));
            problems.extend(named_path::check(&root));
            problems.extend(type_name::check(&root));
            problems.extend(glossary::check(&root));
            problems
        }
        Some("dist") => dist::build(&root),
        Some("retryable") => threat_model::check_retryable(&root, &arguments[1..]),
        Some("chaos") => chaos::run(&root, &arguments[1..]),
        Some("walk") => walk::run(&root, &arguments[1..]),
        _ => {
            vec!["usage: cargo xtask generate | check | dist | retryable | chaos | walk".to_owned()]
        }
    };
    for problem in &problems {
        eprintln!("xtask: {problem}");
    }
    if problems.is_empty() {
        println!("xtask: no problems found");
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

/// Root directory of the workspace.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask is in the workspace").to_owned()
}

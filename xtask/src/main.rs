//! Chores of this repository: `cargo xtask generate` writes the generated files, `cargo xtask
//! check` proves what no compiler proves, `cargo xtask dist` makes the static binary.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod dist;
mod generated;
mod layering;
mod size;
mod stubs;

type Problems = Vec<String>;

fn main() -> ExitCode {
    let root = root();
    let command = std::env::args().nth(1);
    let problems = match command.as_deref() {
        Some("generate") => generated::write(&root),
        Some("check") => {
            let mut problems = layering::check(&root);
            problems.extend(generated::check(&root));
            problems.extend(size::check(&root));
            problems
        }
        Some("dist") => dist::build(&root),
        _ => vec!["usage: cargo xtask generate | check | dist".to_owned()],
    };
    for problem in &problems {
        eprintln!("xtask: {problem}");
    }
    if problems.is_empty() {
        println!("xtask: fine");
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

/// The folder of the workspace.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies in the workspace").to_owned()
}

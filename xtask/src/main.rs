//! Chores of this repository: `cargo xtask generate` writes the generated files, `cargo xtask
//! check` proves what no compiler proves, `cargo xtask dist` makes the static binary, `cargo xtask chaos` disturbs clusters in
//! the lab and looks for what must never happen.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod chaos;
mod dependencies;
mod dist;
mod generated;
mod import_circle;
mod layering;
mod purity;
mod size;
mod stubs;
mod threats;

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
            problems.extend(import_circle::check(&root));
            problems.extend(generated::check(&root));
            problems.extend(size::check(&root));
            problems.extend(threats::check(&root));
            problems
        }
        Some("dist") => dist::build(&root),
        Some("chaos") => chaos::run(&root, &arguments[1..]),
        _ => vec!["usage: cargo xtask generate | check | dist | chaos".to_owned()],
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

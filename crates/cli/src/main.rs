//! talmox: one YAML inventory to a running Talos Linux Kubernetes cluster on Proxmox VE.

use std::process::ExitCode;

mod args;
mod ask;
mod boundary;
mod choose;
mod columns;
mod command;
mod command_code;
mod command_consent;
mod core_dump;
mod disk;
mod environment;
mod error;
mod git_index;
mod gitignore;
mod interrupt;
mod line_editor;
mod locate;
mod new_file;
mod printer;
mod process;
mod prompt;
mod reference;
mod regular_file;
mod rehearsal;
mod render;
mod report;
mod runtime;
mod secrets;
mod session;
mod trace;
mod visible;
mod words;

fn main() -> ExitCode {
    // Before anything secret is in memory.
    core_dump::disable();
    command::run()
}

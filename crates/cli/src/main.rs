//! talmox: creates and manages Talos Linux Kubernetes clusters on Proxmox VE from a YAML inventory.

use std::process::ExitCode;

mod addons;
mod args;
mod boundary;
mod choose;
mod columns;
mod command;
mod command_code;
mod command_consent;
mod confirm;
mod core_dump;
mod disk;
mod environment;
mod error;
mod escape;
mod git_index;
mod gitignore;
mod interrupt;
mod line_editor;
mod load;
mod locate;
mod machine_config;
mod new_file;
mod printer;
mod process;
mod prompt;
mod reference;
mod regular_file;
mod rehearsal;
mod render;
mod rendered_folder;
mod report;
mod runtime;
mod secrets;
mod session;
mod trace;
mod words;

fn main() -> ExitCode {
    // Core dumps must be disabled before secrets are in memory.
    core_dump::disable();
    command::run()
}

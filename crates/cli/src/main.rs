//! talmox: one YAML inventory to a running Talos Linux Kubernetes cluster on Proxmox VE.

use std::process::ExitCode;

mod args;
mod ask;
mod choose;
mod columns;
mod command;
mod disk;
mod environment;
mod error;
mod interrupt;
mod locate;
mod new_file;
mod printer;
mod reference;
mod rehearsal;
mod render;
mod report;
mod runtime;
mod secrets;
mod session;
mod words;

fn main() -> ExitCode {
    command::run()
}

//! talmox: one YAML inventory to a running Talos Linux Kubernetes cluster on Proxmox VE.

use std::process::ExitCode;

mod args;
mod choose;
mod command;
mod disk;
mod environment;
mod error;
mod locate;
mod new_file;
mod printer;
mod reference;
mod render;
mod secrets;
mod words;

fn main() -> ExitCode {
    command::run()
}

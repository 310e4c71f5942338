//! talmox: one YAML inventory to a running Talos Linux Kubernetes cluster on Proxmox VE.

use std::process::ExitCode;

mod args;
mod command;
mod error;
mod locate;
mod new_file;
mod printer;
mod render;

fn main() -> ExitCode {
    command::run()
}
